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
from creekdb.evaluation import datatype_named, simulation_of, violated
from creekdb.execution.python_runtime import seldom_collecting
from creekdb.history import save
from creekdb.pipeline.stages import run_tables
from creekdb.pipeline.stages.grid import Cell
from creekdb.pipeline.stages.output_dir import ATTEMPTS, FAILED, RUNS, check, is_done

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOOK_EVERY_S: Final = 0.25
JOB: Final = "creek-cells"

_LOST_TASK = re.compile(r"Task (\d+) in stage")


class Failure(NamedTuple):
    cell: Cell
    reason: str
    """One line."""

    @property
    def command(self) -> str:
        return self.cell.experiment.command()


class Progress(NamedTuple):
    done: int
    """Cells, with those that failed and those that were there before."""
    total: int
    running: tuple[str, ...]
    left_s: float | None
    """Roughly; None as long as nobody knows."""


def cost(cell: Cell) -> float:
    """What simulating a cell takes, in no unit: mostly it is handling transactions at replicas."""
    experiment = cell.experiment
    transactions = experiment.load_tps * experiment.duration_us / 1_000_000
    return transactions * (1 + experiment.replicas)


def simulate(
    spark: "SparkSession",
    cells: Sequence[Cell],
    out: Path,
    watch: Callable[[Progress], None] = lambda progress: None,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Failure]:
    """Simulate the cells that are not yet in the folder, which was prepared. Those that failed."""
    for cell in cells:
        _discard_if_damaged(out, cell, tell)
    missing = sorted((each for each in cells if not is_done(out, each)), key=cost, reverse=True)
    for cell in missing:
        (out / FAILED / f"{cell.name}.txt").unlink(missing_ok=True)
    watched = _Watched(out, missing, len(cells), watch)
    failures: list[Failure] = []
    while missing:
        failures += _submit(spark.sparkContext, missing, out, watched)
        failed = {failure.cell for failure in failures}
        missing = [each for each in missing if each not in failed and not is_done(out, each)]
    watched.look(0)
    return failures


def _submit(
    context: "SparkContext", cells: Sequence[Cell], out: Path, watched: "_Watched"
) -> list[Failure]:
    """One job. It ends early when the process of a task was lost too often; then that cell is among
    the failures, and others may be missing."""
    job = _Job(context, cells, out)
    try:
        while job.is_alive():
            job.join(LOOK_EVERY_S)
            watched.look(job.running())
    except BaseException:
        context.cancelJobGroup(JOB)
        raise
    if job.error is not None:
        return [_lost(cells, job.error)]
    by_name = {cell.name: cell for cell in cells}
    failures = [Failure(by_name[name], reason) for name, reason in job.results if reason]
    for name, reason in job.results:
        if not reason and not is_done(out, by_name[name]):
            raise StorageFault(
                f"{name} was simulated, but is not in {out}: name a folder that every executor sees"
            )
    return failures


def _lost(cells: Sequence[Cell], error: Exception) -> Failure:
    """The cell whose task ended the job, as Spark says."""
    match = _LOST_TASK.search(str(error))
    if match is None:
        raise error
    reason = "its process was lost, again and again: is there enough memory?"
    return Failure(cells[int(match[1])], reason)


class _Job(threading.Thread):
    """Waits for Spark, so that somebody else can look at the clock, and be interrupted."""

    def __init__(self, context: "SparkContext", cells: Sequence[Cell], out: Path) -> None:
        super().__init__(name=JOB, daemon=True)
        self._context = context
        self._work = [(cell, str(out.resolve())) for cell in cells]
        self.results: list[tuple[str, str]] = []
        """The names of the cells, and why they failed; empty for those that did not."""
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        context = self._context
        try:
            context.setJobGroup(JOB, "simulating a grid", interruptOnCancel=True)
            tasks = context.parallelize(self._work, len(self._work))
            self.results = tasks.map(run_cell).collect()
        except Exception as error:  # noqa: BLE001 - it is for whoever waits
            self.error = error

    def running(self) -> int:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(JOB)]
        stages = [tracker.getStageInfo(each) for job in jobs if job for each in job.stageIds]
        return sum(stage.numActiveTasks for stage in stages if stage)


class _Watched:
    """What is told of the progress: cells are done when they are in their place."""

    def __init__(
        self, out: Path, cells: Sequence[Cell], total: int, watch: Callable[[Progress], None]
    ) -> None:
        self._out = out
        self._cells = cells
        self._total = total
        self._watch = watch
        self._begun_s = time.monotonic()

    def look(self, running: int) -> None:
        here = set(os.listdir(self._out / RUNS))
        here |= {name.removesuffix(".txt") for name in os.listdir(self._out / FAILED)}
        undone = [cell for cell in self._cells if cell.name not in here]
        left = sum(map(cost, undone))
        done = sum(map(cost, self._cells)) - left
        elapsed_s = time.monotonic() - self._begun_s
        self._watch(
            Progress(
                done=self._total - len(undone),
                total=self._total,
                # Tasks begin in this order, so these are those that run.
                running=tuple(cell.name for cell in undone[:running]),
                left_s=elapsed_s * left / done if done else None,
            )
        )


# --- what a task does -------------------------------------------------------------------------


def run_cell(work: tuple[Cell, str]) -> tuple[str, str]:
    """The name of the cell; and why it failed, in one line, or nothing."""
    cell, out = work
    try:
        make_run(cell, Path(out))
    except Exception as error:  # noqa: BLE001 - whatever it is, other cells have nothing to do with it
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        told = f"{cell.experiment.command()}\n\n{traceback.format_exc()}"
        (Path(out) / FAILED / f"{cell.name}.txt").write_text(told, encoding="utf-8")
        return cell.name, reason
    return cell.name, ""


def make_run(cell: Cell, out: Path) -> None:
    """Simulate, and leave the run folder."""
    scenario = cell.experiment.scenario()
    with seldom_collecting():
        run = simulation_of(scenario).run()
        problems = violated(run.history, datatype_named(scenario.datatype))
        made = run_tables.of_run(cell.name, scenario, run, problems, cell.experiment.command())
        attempt = out / ATTEMPTS / f"{cell.name}-{uuid.uuid4().hex}"
        save(run.history, attempt, lambda folder: run_tables.write(made, folder))
    try:
        attempt.rename(out / RUNS / cell.name)
    except OSError:
        if not is_done(out, cell):
            raise
        shutil.rmtree(attempt)


def _discard_if_damaged(out: Path, cell: Cell, tell: Callable[[str], None]) -> None:
    """A run that cannot be read is simulated again: it will be what it was."""
    if is_done(out, cell):
        try:
            check(out / RUNS / cell.name)
        except CreekError as error:
            tell(f"{error}: it is simulated again")
            shutil.rmtree(out / RUNS / cell.name)
