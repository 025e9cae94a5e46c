"""`simulate`: the cells of a grid, each a task of Spark that leaves a run folder.

- Costly cells come first, one task each, so that all cores are busy until the end.
- A task writes its run aside and moves it into place when it is whole. What moves in first stays:
  a task that ran twice, because its executor was thought lost, has made the same run twice.
- A cell that raises is told with its command; the others go on. So does a cell whose process is
  lost again and again.
- What is in place already is not simulated again: so an interrupted grid resumes.

The folder must be one that all executors see. Nothing else is shared: a task has its experiment and
makes everything else from it.
"""

import os
import re
import shutil
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from creekdb.errors import CreekError, StorageFault
from creekdb.evaluation import build_simulation, resolve_datatype, violated_conditions
from creekdb.execution.python_runtime import reduced_gc
from creekdb.history import save_run
from creekdb.pipeline.stages import run_tables
from creekdb.pipeline.stages.grid import Cell
from creekdb.pipeline.stages.output_dir import (
    ATTEMPTS_DIR,
    FAILED_DIR,
    RUNS_DIR,
    check_run_directory,
    is_cell_done,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

POLL_INTERVAL_S: Final = 0.25
JOB_GROUP: Final = "creek-cells"

_LOST_TASK = re.compile(r"Task (\d+) in stage")


class CellFailure(NamedTuple):
    cell: Cell
    reason: str
    """One line."""

    @property
    def command(self) -> str:
        return self.cell.experiment.to_command()


class GridProgress(NamedTuple):
    done: int
    """Cells, with those that failed and those that were there before."""
    total: int
    running: tuple[str, ...]
    remaining_s: float | None
    """Roughly; None as long as nobody knows."""


def estimated_cost(cell: Cell) -> float:
    """What simulating a cell takes, in no unit: mostly it is handling transactions at replicas."""
    experiment = cell.experiment
    transactions = experiment.load_tps * experiment.duration_us / 1_000_000
    return transactions * (1 + experiment.replicas)


def simulate(
    spark: "SparkSession",
    cells: Sequence[Cell],
    out: Path,
    watch: Callable[[GridProgress], None] = lambda progress: None,
    tell: Callable[[str], None] = lambda line: None,
) -> list[CellFailure]:
    """Simulate the cells that are not yet in the folder, which was prepared. Those that failed."""
    for cell in cells:
        _discard_if_damaged(out, cell, tell)
    missing = sorted(
        (each for each in cells if not is_cell_done(out, each)), key=estimated_cost, reverse=True
    )
    for cell in missing:
        (out / FAILED_DIR / f"{cell.name}.txt").unlink(missing_ok=True)
    watched = _ProgressReporter(out, missing, len(cells), watch)
    failures: list[CellFailure] = []
    while missing:
        failures += _run_job(spark.sparkContext, missing, out, watched)
        failed = {failure.cell for failure in failures}
        missing = [each for each in missing if each not in failed and not is_cell_done(out, each)]
    watched.report(0)
    return failures


def _run_job(
    context: "SparkContext", cells: Sequence[Cell], out: Path, watched: "_ProgressReporter"
) -> list[CellFailure]:
    """One job. It ends early when the process of a task was lost too often; then that cell is among
    the failures, and others may be missing."""
    job = _SparkJob(context, cells, out)
    try:
        while job.is_alive():
            job.join(POLL_INTERVAL_S)
            watched.report(job.running_count())
    except BaseException:
        context.cancelJobGroup(JOB_GROUP)
        raise
    if job.error is not None:
        return [_lost_process_failure(cells, job.error)]
    by_name = {cell.name: cell for cell in cells}
    failures = [CellFailure(by_name[name], reason) for name, reason in job.results if reason]
    for name, reason in job.results:
        if not reason and not is_cell_done(out, by_name[name]):
            raise StorageFault(
                f"{name} was simulated, but is not in {out}: name a folder that every executor sees"
            )
    return failures


def _lost_process_failure(cells: Sequence[Cell], error: Exception) -> CellFailure:
    """The cell whose task ended the job, as Spark says."""
    match = _LOST_TASK.search(str(error))
    if match is None:
        raise error
    reason = "its process was lost, again and again: is there enough memory?"
    return CellFailure(cells[int(match[1])], reason)


class _SparkJob(threading.Thread):
    """Waits for Spark, so that somebody else can look at the clock, and be interrupted."""

    def __init__(self, context: "SparkContext", cells: Sequence[Cell], out: Path) -> None:
        super().__init__(name=JOB_GROUP, daemon=True)
        self._context = context
        self._arguments = [(cell, str(out.resolve())) for cell in cells]
        self.results: list[tuple[str, str]] = []
        """The names of the cells, and why they failed; empty for those that did not."""
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        context = self._context
        try:
            context.setJobGroup(JOB_GROUP, "simulating a grid", interruptOnCancel=True)
            tasks = context.parallelize(self._arguments, len(self._arguments))
            self.results = tasks.map(run_cell).collect()
        except Exception as error:  # noqa: BLE001 - it is for whoever waits
            self.error = error

    def running_count(self) -> int:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(JOB_GROUP)]
        stages = [tracker.getStageInfo(each) for job in jobs if job for each in job.stageIds]
        return sum(stage.numActiveTasks for stage in stages if stage)


class _ProgressReporter:
    """What is told of the progress: cells are done when they are in their place."""

    def __init__(
        self, out: Path, cells: Sequence[Cell], total: int, watch: Callable[[GridProgress], None]
    ) -> None:
        self._out = out
        self._cells = cells
        self._total = total
        self._on_progress = watch
        self._start_s = time.monotonic()

    def report(self, running: int) -> None:
        here = set(os.listdir(self._out / RUNS_DIR))
        here |= {name.removesuffix(".txt") for name in os.listdir(self._out / FAILED_DIR)}
        undone = [cell for cell in self._cells if cell.name not in here]
        left = sum(map(estimated_cost, undone))
        done = sum(map(estimated_cost, self._cells)) - left
        elapsed_s = time.monotonic() - self._start_s
        self._on_progress(
            GridProgress(
                done=self._total - len(undone),
                total=self._total,
                # Tasks begin in this order, so these are those that run.
                running=tuple(cell.name for cell in undone[:running]),
                remaining_s=elapsed_s * left / done if done else None,
            )
        )


# --- what a task does -------------------------------------------------------------------------


def run_cell(work: tuple[Cell, str]) -> tuple[str, str]:
    """The name of the cell; and why it failed, in one line, or nothing."""
    cell, out = work
    try:
        simulate_cell(cell, Path(out))
    except Exception as error:  # noqa: BLE001 - whatever it is, other cells have nothing to do with it
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        told = f"{cell.experiment.to_command()}\n\n{traceback.format_exc()}"
        (Path(out) / FAILED_DIR / f"{cell.name}.txt").write_text(told, encoding="utf-8")
        return cell.name, reason
    return cell.name, ""


def simulate_cell(cell: Cell, out: Path) -> None:
    """Simulate, and leave the run folder."""
    scenario = cell.experiment.to_scenario()
    with reduced_gc():
        run = build_simulation(scenario).run()
        problems = violated_conditions(run.history, resolve_datatype(scenario.datatype))
        made = run_tables.tables_of_simulation(
            cell.name, scenario, run, problems, cell.experiment.to_command()
        )
        attempt = out / ATTEMPTS_DIR / f"{cell.name}-{uuid.uuid4().hex}"
        save_run(run.history, attempt, lambda folder: run_tables.write_run_tables(made, folder))
    try:
        attempt.rename(out / RUNS_DIR / cell.name)
    except OSError:
        if not is_cell_done(out, cell):
            raise
        shutil.rmtree(attempt)


def _discard_if_damaged(out: Path, cell: Cell, tell: Callable[[str], None]) -> None:
    """A run that cannot be read is simulated again: it will be what it was."""
    if is_cell_done(out, cell):
        try:
            check_run_directory(out / RUNS_DIR / cell.name)
        except CreekError as error:
            tell(f"{error}: it is simulated again")
            shutil.rmtree(out / RUNS_DIR / cell.name)
