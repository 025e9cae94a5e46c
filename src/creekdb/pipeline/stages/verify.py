"""The checkers over all histories, in parallel.

    relational   rules that tables tell of, as relations (`relations`): of every run, however long
    historical   the rest, and the same rules once more where all events were recorded: a task
                 loads the run folder and asks `creekdb.checkers`, and TPC-C's conditions
    verdicts     both together; where two say something of one rule, the worse counts

Runs that were only measured did not record what replicas did, but for the orders. Whether replicas
converged can be told all the same; for the rest, one verdict says that it is not known.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, assert_never

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from creekdb.checkers import CHECKERS, Illegal, Inconclusive, Ok, RunIndex, Verdict
from creekdb.errors import CreekError
from creekdb.evaluation import datatype_of_history, violated_conditions
from creekdb.history import Committed, Dot, History, LoggedEvent, load_run
from creekdb.pipeline.schemas import VERDICTS
from creekdb.pipeline.spark.frames import conform_to_schema, spark_schema
from creekdb.pipeline.stages import relational_checks, run_tables
from creekdb.tpcc import PopulationBase

OK: Final = "ok"
ILLEGAL: Final = relational_checks.ILLEGAL
UNKNOWN: Final = relational_checks.UNKNOWN
RUN_DIRECTORY_CHECK: Final = "run_folder"
"""The checker that says a run cannot be read."""
TPCC_CONDITIONS: Final = "tpcc_conditions"
MISSING_EVENTS_CHECK: Final = "events"
"""The checker that says what was not recorded."""
CHECKERS_WITHOUT_EVENTS: Final = ("convergence",)
"""What can be checked on orders and on what replicas end with."""
RUNS_PER_TASK: Final = 4
"""Starting a task costs more than checking a small run."""


def verdicts(
    runs: DataFrame, operations: DataFrame, orders: DataFrame, folders: Sequence[Path]
) -> DataFrame:
    """`folders`: of the runs whose histories are to be looked at, too."""
    both = relational_verdicts(runs, operations, orders).unionByName(
        history_verdicts(runs, folders)
    )
    severity = F.array_position(F.array(*map(F.lit, (OK, UNKNOWN, ILLEGAL))), F.col("verdict"))
    told = F.struct("verdict", "detail", "command")
    worst = F.max_by(told, F.struct(severity, "detail")).alias("worst")
    merged = both.groupBy("run", "checker").agg(worst)
    return conform_to_schema(merged.select("run", "checker", "worst.*"), VERDICTS)


def relational_verdicts(runs: DataFrame, operations: DataFrame, orders: DataFrame) -> DataFrame:
    checkers = F.explode(F.array(*map(F.lit, relational_checks.RELATIONAL_CHECKERS))).alias(
        "checker"
    )
    every = runs.select("run", "command", checkers)
    judged = every.join(
        relational_checks.find_violations(runs, operations, orders), ["run", "checker"], "left"
    )
    judged = judged.fillna({"verdict": OK, "detail": ""})
    return conform_to_schema(judged, VERDICTS).unionByName(
        conform_to_schema(_tpcc_condition_verdicts(runs), VERDICTS)
    )


def _tpcc_condition_verdicts(runs: DataFrame) -> DataFrame:
    """TPC-C's, as whoever simulated the run found them: with it, its trace was hashed."""
    simulated = runs.where("layout is not null and trace_hash != ''")
    verdict = F.when(F.col("violated") == "", OK).otherwise(ILLEGAL).alias("verdict")
    return simulated.select(
        "run",
        "command",
        F.lit(TPCC_CONDITIONS).alias("checker"),
        verdict,
        F.col("violated").alias("detail"),
    )


def history_verdicts(runs: DataFrame, folders: Sequence[Path]) -> DataFrame:
    rows = [(folder.name, str(folder)) for folder in (each.resolve() for each in folders)]
    placed = runs.sparkSession.createDataFrame(rows, "run string, folder string")
    tasks = max(1, -(-len(folders) // RUNS_PER_TASK))
    spread = placed.join(runs.select("run", "command"), "run").repartition(tasks, "run")
    return spread.mapInArrow(_check_batches, spark_schema(VERDICTS))


def _check_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            told = check_run_history(Path(row["folder"]), row["command"])
            rows = [{"run": row["run"], **each._asdict()} for each in told]
            yield pa.RecordBatch.from_pylist(rows, VERDICTS)


class VerdictRow(NamedTuple):
    checker: str
    verdict: str
    detail: str
    command: str


def check_run_history(folder: Path, command: str) -> list[VerdictRow]:
    """What the checkers say of one run. `command` makes the same run again."""
    look = f"creek check {folder}"
    try:
        history = load_run(folder)
        recorded = any(log.events for log in history.logs)
        if not recorded:
            history = _with_commit_events(history, folder)
    except CreekError as error:
        return [_verdict_row(Inconclusive(RUN_DIRECTORY_CHECK, str(error)), look)]
    datatype = datatype_of_history(history)
    run = RunIndex(history, datatype)
    if not recorded:
        judged = [each.check(run) for each in CHECKERS if each.name in CHECKERS_WITHOUT_EVENTS]
        return [
            _verdict_row(each, command)
            for each in (*judged, Inconclusive(MISSING_EVENTS_CHECK, _missing_events_reason()))
        ]
    judged = [each.check(run) for each in CHECKERS]
    if datatype is not None and isinstance(datatype.base, PopulationBase):
        problems = violated_conditions(history, datatype)
        judged.append(
            Illegal(TPCC_CONDITIONS, "\n".join(problems)) if problems else Ok(TPCC_CONDITIONS)
        )
    return [_verdict_row(each, look) for each in judged]


def _missing_events_reason() -> str:
    checked = (*relational_checks.RELATIONAL_CHECKERS, *CHECKERS_WITHOUT_EVENTS)
    missing = ", ".join(each.name for each in CHECKERS if each.name not in checked)
    return f"what replicas did was not recorded, so these cannot be checked: {missing}"


def _with_commit_events(history: History, folder: Path) -> History:
    """As if replicas had recorded what they committed: the table of their orders has that."""
    events: dict[int, list[LoggedEvent]] = {}
    columns = ["replica", "origin", "event", "index"]
    table = pq.read_table(folder / run_tables.TABLE_FILES["orders"], columns=columns)
    for replica, *dot, index in zip(*(table[each].to_pylist() for each in columns), strict=True):
        events.setdefault(replica, []).append(LoggedEvent(0, Committed(Dot(*dot), index)))
    # From the last to the first, so that the last incarnation of a replica gets them.
    logs = [
        replace(log, events=tuple(events.pop(log.replica, ())), visible_count=None)
        for log in reversed(history.logs)
    ]
    return replace(history, logs=tuple(reversed(logs)))


def _verdict_row(verdict: Verdict, command: str) -> VerdictRow:
    match verdict:
        case Illegal():
            witnesses = (each.describe() for each in verdict.counterexample)
            detail = "\n".join([verdict.message, *witnesses])
            return VerdictRow(verdict.checker, ILLEGAL, detail, command)
        case Inconclusive():
            return VerdictRow(verdict.checker, UNKNOWN, verdict.reason, command)
        case Ok():
            return VerdictRow(verdict.checker, OK, "", command)
        case _:
            assert_never(verdict)
