"""`simulate`: runs the cells of a grid as Spark tasks, which write their tables.

- A batch of cells is one task. Expensive cells form batches of their own and start first, so that
  all cores are busy until the end. The batches of a grid depend on the grid alone.
- A task writes one file per table, and commits the batch with the last one. A task that ran twice,
  after its executor seemed lost, writes the same files twice.
- The task that simulated a run also checks its history, which is then in memory.
- A cell that raises is reported with its command, and so is a cell whose process is lost
  repeatedly. Other cells continue.
- Completed cells are skipped, so an interrupted grid resumes.

Stored runs, such as those of a live cluster, become rows of the same tables in the same way.

All executors must have access to the output directory. They share nothing else: a task derives
everything from its experiments.
"""

import errno
import re
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa

from creekdb.errors import CreekError, StorageFault
from creekdb.evaluation import build_simulation, violated_conditions
from creekdb.execution.python_runtime import reduced_gc
from creekdb.pipeline.checks.histories import history_verdicts
from creekdb.pipeline.spark.tasks import TaskRow, run_tasks
from creekdb.pipeline.stages import output_dir, run_tables
from creekdb.pipeline.stages.grid import Cell
from creekdb.pipeline.stages.live_import import StoredRun, store_history
from creekdb.pipeline.stages.output_dir import FAILED_DIR, HISTORIES_DIR, part_file
from creekdb.pipeline.storage import Location
from creekdb.server.runtime.config import load_datatype

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_INTERVAL_S: Final = 0.25
JOB_TAG: Final = "creek-batches"
BATCHES_MAX: Final = 256
"""Bound for the batches of cheap cells, and so for the files of a table."""
BATCH_COST_MIN: Final = 5_000.0
"""Estimated cost up to which cells share a task, whose start costs about as much."""

RunSource: TypeAlias = Cell | StoredRun
"""Origin of the rows of one run."""

_LOST_TASK = re.compile(r"Task (\d+) in stage")
_RESULT_SCHEMA: Final = pa.schema(
    [("name", pa.string()), ("reason", pa.string()), ("is_storage_fault", pa.bool_())]
)


class Batch(NamedTuple):
    """Runs of one task. Its name is part of its file names."""

    name: str
    sources: tuple[RunSource, ...]


class RunFailure(NamedTuple):
    source: RunSource
    reason: str
    """Reason in one line."""

    @property
    def command(self) -> str:
        return _command(self.source)


class GridProgress(NamedTuple):
    done: int
    """Number of completed cells, including failed ones and those of earlier runs."""
    total: int
    running: tuple[str, ...]
    remaining_s: float | None
    """Estimated remaining time, in seconds; None before the first completed cell."""


def estimated_cost(source: RunSource) -> float:
    """Return the relative cost of a run. Replicas' handling of transactions dominates it."""
    if isinstance(source, StoredRun):
        return 0.0
    experiment = source.experiment
    transactions = experiment.load_tps * experiment.duration_us / 1_000_000
    return transactions * (1 + experiment.replicas)


def simulate(
    spark: "SparkSession",
    cells: Sequence[Cell],
    out: Location,
    on_progress: Callable[[GridProgress], None] = lambda progress: None,
    warn: Callable[[str], None] = lambda line: None,
    additional: Sequence[RunSource] = (),
) -> list[RunFailure]:
    """Add the runs that a prepared directory lacks to its tables, and return the failures.

    Each additional run is a batch of its own, so that it can be removed again.
    """
    done = _completed_runs(out, warn)
    sources: list[RunSource] = [*additional, *cells]
    groups: list[Sequence[RunSource]] = [*([each] for each in additional), *group_by_cost(cells)]
    missing = [source for source in sources if source.name not in done]
    for source in missing:
        (out / FAILED_DIR / f"{source.name}.txt").remove()
    pending = [
        batch(missing_part)
        for group in groups
        if (missing_part := [each for each in group if each.name not in done])
    ]
    tried, start_s = tuple(pending), time.monotonic()

    def report(active_tasks: int) -> None:
        elapsed_s = time.monotonic() - start_s
        on_progress(_progress(out, len(sources), tried, active_tasks, elapsed_s))

    failures: list[RunFailure] = []
    while pending:
        finished, lost = _run_job(spark, pending, out, report)
        failures += finished
        if lost is not None and len(lost.sources) > 1:
            pending = [*map(batch, zip(lost.sources)), *_uncommitted(out, pending, lost)]
        elif lost is not None:
            reason = "its process was lost repeatedly, possibly for lack of memory"
            failures.append(RunFailure(lost.sources[0], reason))
            pending = _uncommitted(out, pending, lost)
        else:
            pending = []
    report(0)
    return failures


def _completed_runs(out: Location, warn: Callable[[str], None]) -> set[str]:
    """Return the runs of complete batches; remove batches with damaged files."""
    done: set[str] = set()
    for file in (out / output_dir.COMMITTING_TABLE).names():
        try:
            output_dir.check_batch(out, file)
            runs = (out / output_dir.COMMITTING_TABLE / file).read_table(["run"])
        except CreekError as error:  # A new simulation yields the same rows.
            warn(f"{error}; its runs are simulated again")
            output_dir.remove_batch(out, file)
        else:
            done.update(runs["run"].to_pylist())
    return done


def _uncommitted(out: Location, batches: Iterable[Batch], excluded: Batch) -> list[Batch]:
    committed = set((out / output_dir.COMMITTING_TABLE).names())
    return [each for each in batches if each != excluded and part_file(each.name) not in committed]


def group_by_cost(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Divide cells into groups, expensive ones first. Cheap cells share a group."""
    ordered = sorted(cells, key=estimated_cost, reverse=True)
    limit = max(BATCH_COST_MIN, sum(map(estimated_cost, ordered)) / BATCHES_MAX)
    groups: list[list[Cell]] = []
    cost = limit
    for cell in ordered:
        cost += estimated_cost(cell)
        if cost > limit:
            groups.append([])
            cost = estimated_cost(cell)
        groups[-1].append(cell)
    return groups


def batch(sources: Sequence[RunSource]) -> Batch:
    first, *others = [each.name for each in sources]
    if not others:
        return Batch(first, tuple(sources))
    checksum = zlib.crc32("\n".join((first, *others)).encode())
    return Batch(f"{first}-and-{len(others)}-more-{checksum:08x}", tuple(sources))


def _run_job(
    spark: "SparkSession",
    batches: Sequence[Batch],
    out: Location,
    report: Callable[[int], None],
) -> tuple[list[RunFailure], Batch | None]:
    """Run one Spark job, and return the failures and the batch whose process was lost, if any.

    The job ends early if the process of a task is lost too often. Then other batches are missing.
    """
    job: Future[list[tuple[str, str, bool]]] = Future()
    tasks, write_tables = tuple(batches), run_batch

    def run_task(number: int) -> list[TaskRow]:
        rows = write_tables(tasks[number], out)
        return [dict(zip(_RESULT_SCHEMA.names, row, strict=True)) for row in rows]

    def wait_for_spark() -> None:
        try:
            spark.addTag(JOB_TAG)
            results = run_tasks(spark, len(tasks), run_task, _RESULT_SCHEMA)
            job.set_result([tuple(row) for row in results])
        except Exception as error:  # noqa: BLE001 - raised below
            job.set_exception(error)

    # A thread of its own, so that this one can report progress, and be interrupted.
    threading.Thread(target=wait_for_spark, name=JOB_TAG, daemon=True).start()
    try:
        while not job.done():
            wait([job], POLL_INTERVAL_S)
            report(_active_tasks(spark))
    except BaseException:
        spark.interruptTag(JOB_TAG)
        raise
    if (error := job.exception()) is not None:
        lost_task = _LOST_TASK.search(str(error))
        if lost_task is None:
            raise error
        return [], batches[int(lost_task[1])]
    return _failures(job.result(), batches, out), None


def _failures(
    results: Iterable[tuple[str, str, bool]], batches: Iterable[Batch], out: Location
) -> list[RunFailure]:
    sources = {source.name: source for each in batches for source in each.sources}
    failures = []
    for name, reason, is_storage_fault in results:
        if is_storage_fault:
            raise StorageFault(f"{reason}; completed runs are kept, repeat the command to resume")
        if reason:
            failures.append(RunFailure(sources[name], reason))
    failed = {each.source for each in failures}
    committed = set((out / output_dir.COMMITTING_TABLE).names())
    if any(
        not failed.issuperset(each.sources) and part_file(each.name) not in committed
        for each in batches
    ):
        raise StorageFault(
            f"runs were simulated, but are not in {out}; name a directory that all executors share"
        )
    return failures


def _active_tasks(spark: "SparkSession") -> int:
    """Return the number of running tasks, or 0 if the session does not report it."""
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none.
    if context is None:
        return 0
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage)


def _progress(
    out: Location, total: int, tried: Sequence[Batch], active_tasks: int, elapsed_s: float
) -> GridProgress:
    """Return the progress by the files that exist."""
    committed = set((out / output_dir.COMMITTING_TABLE).names())
    failed = {name.removesuffix(".txt") for name in (out / FAILED_DIR).names()}
    pending = [
        [source for source in each.sources if source.name not in failed]
        for each in tried
        if part_file(each.name) not in committed
    ]
    sources = [source for each in pending for source in each]
    remaining = sum(map(estimated_cost, sources))
    done = sum(estimated_cost(source) for each in tried for source in each.sources) - remaining
    # Tasks start in the order of the batches.
    running = [source.name for each in pending[:active_tasks] for source in each]
    return GridProgress(
        done=total - len(sources),
        total=total,
        running=tuple(running),
        remaining_s=elapsed_s * remaining / done if done else None,
    )


# --- tasks ------------------------------------------------------------------------------------


def run_batch(batch: Batch, out: Location) -> list[tuple[str, str, bool]]:
    """Write the tables of a batch, and return a row of name, reason and kind of failure per run.

    A failure of a run does not affect others. A failure to write affects the whole batch.
    """
    completed: list[run_tables.RunArrowTables] = []
    results: list[tuple[str, str, bool]] = []
    for source in batch.sources:
        try:
            completed.append(tables_of_run(source, out))
        except Exception as error:  # noqa: BLE001 - a failure must not affect other runs
            if (fault := _storage_fault(error, out)) is not None:
                return [(source.name, fault, True)]
            _report_failure(out, source)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            results.append((source.name, reason, False))
        else:
            results.append((source.name, "", False))
    if completed:
        try:
            tables = run_tables.concatenate(completed)
            output_dir.write_batch(out, batch.name, tables._asdict())
        except OSError as error:
            fault = _storage_fault(error, out) or f"cannot write to {out}: {error}"
            return [(batch.name, fault, True)]
    return results


_STORAGE_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO)


def _storage_fault(error: Exception, out: Location) -> str | None:
    """Return the reason why the directory cannot be written, if that is the cause of the error."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    if cause is None or cause.errno not in _STORAGE_ERRNOS:
        return None
    return f"cannot write to {out}: {cause.strerror}"


def _report_failure(out: Location, source: RunSource) -> None:
    """Write the command and the traceback of the exception that is being handled."""
    text = f"{_command(source)}\n\n{traceback.format_exc()}"
    with suppress(OSError):  # The reason is also a result of the task.
        (out / FAILED_DIR / f"{source.name}.txt").write_bytes(text.encode())


def _command(source: RunSource) -> str:
    if isinstance(source, StoredRun):
        return f"creek check {source.directory}"
    return source.experiment.to_command()


def tables_of_run(source: RunSource, out: Location) -> run_tables.RunArrowTables:
    """Return the rows of a run; store its history if it has recorded events."""
    return source.tables(out) if isinstance(source, StoredRun) else simulate_cell(source, out)


def simulate_cell(cell: Cell, out: Location) -> run_tables.RunArrowTables:
    """Simulate a cell and check its history."""
    scenario = cell.experiment.to_scenario()
    command = cell.experiment.to_command()
    directory = out / HISTORIES_DIR / cell.name
    with reduced_gc():
        datatype = load_datatype(scenario.datatype)
        run = build_simulation(scenario, resolved=datatype).run()
        problems = violated_conditions(run.history, datatype)
        check_command = f"creek check {directory}" if cell.experiment.recorded else command
        verdicts = history_verdicts(run.history, datatype, check_command, violated=problems)
        tables = run_tables.tables_of_simulation(
            cell.name, scenario, run, problems, verdicts, command
        )
        if cell.experiment.recorded:
            store_history(run.history, directory)
    return tables
