"""`simulate`: runs the cells of a grid as Spark tasks, each of which writes a run directory.

- Expensive cells start first, one task each, so that all cores are busy until the end.
- A task writes its run to a temporary directory and renames it when complete. The first rename
  wins: a task that ran twice, after its executor seemed lost, produced the same run twice.
- A cell that raises is reported with its command, and so is a cell whose process is lost
  repeatedly. Other cells continue.
- Completed cells are skipped, so an interrupted grid resumes.

All executors must share the output directory. They share nothing else: a task derives everything
from its experiment.
"""

import os
import re
import shutil
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from creekdb.errors import CreekError, StorageFault
from creekdb.evaluation import build_simulation, violated_conditions
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
from creekdb.server.runtime.config import load_datatype

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

POLL_INTERVAL_S: Final = 0.25
JOB_GROUP: Final = "creek-cells"

_LOST_TASK = re.compile(r"Task (\d+) in stage")


class CellFailure(NamedTuple):
    cell: Cell
    reason: str
    """Reason in one line."""

    @property
    def command(self) -> str:
        return self.cell.experiment.to_command()


class GridProgress(NamedTuple):
    done: int
    """Number of completed cells, including failed ones and those of earlier runs."""
    total: int
    running: tuple[str, ...]
    remaining_s: float | None
    """Estimated remaining time, in seconds; None before the first completed cell."""


def estimated_cost(cell: Cell) -> float:
    """Return the relative cost of a cell. Replicas' handling of transactions dominates it."""
    experiment = cell.experiment
    transactions = experiment.load_tps * experiment.duration_us / 1_000_000
    return transactions * (1 + experiment.replicas)


def simulate(
    spark: "SparkSession",
    cells: Sequence[Cell],
    out: Path,
    on_progress: Callable[[GridProgress], None] = lambda progress: None,
    warn: Callable[[str], None] = lambda line: None,
) -> list[CellFailure]:
    """Simulate the cells that a prepared directory lacks, and return the failures."""
    for cell in cells:
        if is_cell_done(out, cell):
            try:
                check_run_directory(out / RUNS_DIR / cell.name)
            except CreekError as error:  # A new simulation yields the same run.
                warn(f"{error}; it is simulated again")
                shutil.rmtree(out / RUNS_DIR / cell.name)
    missing = sorted(
        (each for each in cells if not is_cell_done(out, each)), key=estimated_cost, reverse=True
    )
    for cell in missing:
        (out / FAILED_DIR / f"{cell.name}.txt").unlink(missing_ok=True)
    tried, start_s = missing, time.monotonic()

    def report(running: int) -> None:
        on_progress(_progress(out, len(cells), tried, running, time.monotonic() - start_s))

    failures: list[CellFailure] = []
    while missing:
        failures += _run_job(spark.sparkContext, missing, out, report)
        failed = {failure.cell for failure in failures}
        missing = [each for each in missing if each not in failed and not is_cell_done(out, each)]
    report(0)
    return failures


def _run_job(
    context: "SparkContext", cells: Sequence[Cell], out: Path, report: Callable[[int], None]
) -> list[CellFailure]:
    """Run one Spark job.

    The job ends early if the process of a task is lost too often. Then that cell is the only
    failure, and other cells may be missing.
    """
    job: Future[list[tuple[str, str]]] = Future()

    def wait_for_spark() -> None:
        try:
            context.setJobGroup(JOB_GROUP, "simulation of a grid", interruptOnCancel=True)
            tasks = context.parallelize([(cell, str(out.resolve())) for cell in cells], len(cells))
            job.set_result(tasks.map(run_cell).collect())
        except Exception as error:  # noqa: BLE001 - raised below
            job.set_exception(error)

    # A thread of its own, so that this one can report progress, and be interrupted.
    threading.Thread(target=wait_for_spark, name=JOB_GROUP, daemon=True).start()
    try:
        while not job.done():
            wait([job], POLL_INTERVAL_S)
            report(_running_count(context))
    except BaseException:
        context.cancelJobGroup(JOB_GROUP)
        raise
    if (error := job.exception()) is not None:
        lost_task = _LOST_TASK.search(str(error))
        if lost_task is None:
            raise error
        reason = "its process was lost repeatedly, possibly for lack of memory"
        return [CellFailure(cells[int(lost_task[1])], reason)]
    by_name = {cell.name: cell for cell in cells}
    for name, reason in job.result():
        if not reason and not is_cell_done(out, by_name[name]):
            raise StorageFault(
                f"{name} was simulated, but is not in {out}; name a directory that all executors "
                "share"
            )
    return [CellFailure(by_name[name], reason) for name, reason in job.result() if reason]


def _running_count(context: "SparkContext") -> int:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(JOB_GROUP)]
    stages = [tracker.getStageInfo(each) for job in jobs if job for each in job.stageIds]
    return sum(stage.numActiveTasks for stage in stages if stage)


def _progress(
    out: Path, total: int, tried: Sequence[Cell], running: int, elapsed_s: float
) -> GridProgress:
    """Return the progress by the run directories and failures that exist."""
    completed = set(os.listdir(out / RUNS_DIR))
    completed |= {name.removesuffix(".txt") for name in os.listdir(out / FAILED_DIR)}
    pending = [cell for cell in tried if cell.name not in completed]
    remaining = sum(map(estimated_cost, pending))
    done = sum(map(estimated_cost, tried)) - remaining
    return GridProgress(
        done=total - len(pending),
        total=total,
        # Tasks start in the order of the cells.
        running=tuple(cell.name for cell in pending[:running]),
        remaining_s=elapsed_s * remaining / done if done else None,
    )


# --- tasks ------------------------------------------------------------------------------------


def run_cell(task: tuple[Cell, str]) -> tuple[str, str]:
    """Simulate a cell; return its name, and the reason of a failure or an empty text."""
    cell, out = task
    try:
        simulate_cell(cell, Path(out))
    except Exception as error:  # noqa: BLE001 - a failure must not affect other cells
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        text = f"{cell.experiment.to_command()}\n\n{traceback.format_exc()}"
        (Path(out) / FAILED_DIR / f"{cell.name}.txt").write_text(text, encoding="utf-8")
        return cell.name, reason
    return cell.name, ""


def simulate_cell(cell: Cell, out: Path) -> None:
    """Simulate a cell, and write its run directory."""
    scenario = cell.experiment.to_scenario()
    with reduced_gc():
        run = build_simulation(scenario).run()
        problems = violated_conditions(run.history, load_datatype(scenario.datatype))
        tables = run_tables.tables_of_simulation(
            cell.name, scenario, run, problems, cell.experiment.to_command()
        )
        attempt = out / ATTEMPTS_DIR / f"{cell.name}-{uuid.uuid4().hex}"
        save_run(run.history, attempt, lambda path: run_tables.write_run_tables(tables, path))
    try:
        attempt.rename(out / RUNS_DIR / cell.name)
    except OSError:
        if not is_cell_done(out, cell):
            raise
        shutil.rmtree(attempt)
