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

from creekdb.checkers import CHECKERS, Illegal, Ok, Run, Unknown, Verdict
from creekdb.errors import CreekError
from creekdb.evaluation import datatype_of, violated
from creekdb.history import Committed, Dot, History, LoggedEvent, load
from creekdb.pipeline.schemas import VERDICTS
from creekdb.pipeline.spark.frames import declared, spark_schema
from creekdb.pipeline.stages import relational_checks, run_tables
from creekdb.tpcc import PopulationBase

OK: Final = "ok"
ILLEGAL: Final = relational_checks.ILLEGAL
UNKNOWN: Final = relational_checks.UNKNOWN
FOLDER: Final = "run_folder"
"""The checker that says a run cannot be read."""
CONDITIONS: Final = "tpcc_conditions"
EVENTS: Final = "events"
"""The checker that says what was not recorded."""
WITHOUT_EVENTS: Final = ("convergence",)
"""What can be checked on orders and on what replicas end with."""
RUNS_PER_TASK: Final = 4
"""Starting a task costs more than checking a small run."""


def verdicts(
    runs: DataFrame, operations: DataFrame, orders: DataFrame, folders: Sequence[Path]
) -> DataFrame:
    """`folders`: of the runs whose histories are to be looked at, too."""
    both = relational(runs, operations, orders).unionByName(historical(runs, folders))
    severity = F.array_position(F.array(*map(F.lit, (OK, UNKNOWN, ILLEGAL))), F.col("verdict"))
    told = F.struct("verdict", "detail", "command")
    worst = F.max_by(told, F.struct(severity, "detail")).alias("worst")
    merged = both.groupBy("run", "checker").agg(worst)
    return declared(merged.select("run", "checker", "worst.*"), VERDICTS)


def relational(runs: DataFrame, operations: DataFrame, orders: DataFrame) -> DataFrame:
    checkers = F.explode(F.array(*map(F.lit, relational_checks.CHECKERS))).alias("checker")
    every = runs.select("run", "command", checkers)
    judged = every.join(
        relational_checks.found(runs, operations, orders), ["run", "checker"], "left"
    )
    judged = judged.fillna({"verdict": OK, "detail": ""})
    return declared(judged, VERDICTS).unionByName(declared(_conditions(runs), VERDICTS))


def _conditions(runs: DataFrame) -> DataFrame:
    """TPC-C's, as whoever simulated the run found them: with it, its trace was hashed."""
    simulated = runs.where("layout is not null and trace_hash != ''")
    verdict = F.when(F.col("violated") == "", OK).otherwise(ILLEGAL).alias("verdict")
    return simulated.select(
        "run",
        "command",
        F.lit(CONDITIONS).alias("checker"),
        verdict,
        F.col("violated").alias("detail"),
    )


def historical(runs: DataFrame, folders: Sequence[Path]) -> DataFrame:
    rows = [(folder.name, str(folder)) for folder in (each.resolve() for each in folders)]
    placed = runs.sparkSession.createDataFrame(rows, "run string, folder string")
    tasks = max(1, -(-len(folders) // RUNS_PER_TASK))
    spread = placed.join(runs.select("run", "command"), "run").repartition(tasks, "run")
    return spread.mapInArrow(_judged, spark_schema(VERDICTS))


def _judged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            told = judge(Path(row["folder"]), row["command"])
            rows = [{"run": row["run"], **each._asdict()} for each in told]
            yield pa.RecordBatch.from_pylist(rows, VERDICTS)


class Told(NamedTuple):
    checker: str
    verdict: str
    detail: str
    command: str


def judge(folder: Path, command: str) -> list[Told]:
    """What the checkers say of one run. `command` makes the same run again."""
    look = f"creek check {folder}"
    try:
        history = load(folder)
        recorded = any(log.events for log in history.logs)
        if not recorded:
            history = _with_orders(history, folder)
    except CreekError as error:
        return [_told(Unknown(FOLDER, str(error)), look)]
    datatype = datatype_of(history)
    run = Run(history, datatype)
    if not recorded:
        judged = [each.check(run) for each in CHECKERS if each.name in WITHOUT_EVENTS]
        return [_told(each, command) for each in (*judged, Unknown(EVENTS, _unrecorded()))]
    judged = [each.check(run) for each in CHECKERS]
    if datatype is not None and isinstance(datatype.base, PopulationBase):
        problems = violated(history, datatype)
        judged.append(Illegal(CONDITIONS, "\n".join(problems)) if problems else Ok(CONDITIONS))
    return [_told(each, look) for each in judged]


def _unrecorded() -> str:
    checked = (*relational_checks.CHECKERS, *WITHOUT_EVENTS)
    missing = ", ".join(each.name for each in CHECKERS if each.name not in checked)
    return f"what replicas did was not recorded, so these cannot be checked: {missing}"


def _with_orders(history: History, folder: Path) -> History:
    """As if replicas had recorded what they committed: the table of their orders has that."""
    events: dict[int, list[LoggedEvent]] = {}
    columns = ["replica", "origin", "event", "index"]
    table = pq.read_table(folder / run_tables.FILES["orders"], columns=columns)
    for replica, *dot, index in zip(*(table[each].to_pylist() for each in columns), strict=True):
        events.setdefault(replica, []).append(LoggedEvent(0, Committed(Dot(*dot), index)))
    # From the last to the first, so that the last incarnation of a replica gets them.
    logs = [
        replace(log, events=tuple(events.pop(log.replica, ())), known=None)
        for log in reversed(history.logs)
    ]
    return replace(history, logs=tuple(reversed(logs)))


def _told(verdict: Verdict, command: str) -> Told:
    match verdict:
        case Illegal():
            witnesses = (each.describe() for each in verdict.counterexample)
            detail = "\n".join([verdict.message, *witnesses])
            return Told(verdict.checker, ILLEGAL, detail, command)
        case Unknown():
            return Told(verdict.checker, UNKNOWN, verdict.reason, command)
        case Ok():
            return Told(verdict.checker, OK, "", command)
        case _:
            assert_never(verdict)
