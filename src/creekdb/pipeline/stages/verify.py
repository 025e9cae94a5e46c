"""Verdicts of all checkers over all runs, in parallel.

    relational_verdicts   properties that tables determine (`relational_checks`), of any run
    history_verdicts      all properties, of runs with recorded events: a task loads the run
                          directory and runs `creekdb.checkers` and TPC-C's conditions
    verdicts              union of both; of two verdicts on one property, the worse counts

Measured runs record committed orders, but no other replica events. Convergence can still be
checked; one verdict `unknown` stands for the other checkers.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

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
"""Checker name for runs that cannot be read."""
TPCC_CONDITIONS: Final = "tpcc_conditions"
MISSING_EVENTS_CHECK: Final = "events"
"""Checker name for runs without replica events."""
CHECKERS_WITHOUT_EVENTS: Final = ("convergence",)
"""Checkers that require only committed orders and final states."""
RUNS_PER_TASK: Final = 4
"""Runs per task. Starting a task costs more than checking a small run."""


def verdicts(
    runs: DataFrame, operations: DataFrame, orders: DataFrame, directories: Sequence[Path]
) -> DataFrame:
    """Return VERDICTS; `directories` are those of the runs whose histories are checked."""
    both = relational_verdicts(runs, operations, orders).unionByName(
        history_verdicts(runs, directories)
    )
    severity = F.array_position(F.array(*map(F.lit, (OK, UNKNOWN, ILLEGAL))), F.col("verdict"))
    result = F.struct("verdict", "detail", "command")
    worst = F.max_by(result, F.struct(severity, "detail")).alias("worst")
    merged = both.groupBy("run", "checker").agg(worst)
    return conform_to_schema(merged.select("run", "checker", "worst.*"), VERDICTS)


def relational_verdicts(runs: DataFrame, operations: DataFrame, orders: DataFrame) -> DataFrame:
    checkers = F.array(*map(F.lit, relational_checks.RELATIONAL_CHECKERS))
    expected = runs.select("run", "command", F.explode(checkers).alias("checker"))
    violations = relational_checks.find_violations(runs, operations, orders)
    checked = expected.join(violations, ["run", "checker"], "left")
    checked = checked.fillna({"verdict": OK, "detail": ""})
    return conform_to_schema(checked, VERDICTS).unionByName(
        conform_to_schema(_tpcc_condition_verdicts(runs), VERDICTS)
    )


def _tpcc_condition_verdicts(runs: DataFrame) -> DataFrame:
    """Return the verdicts on TPC-C's conditions of simulated runs, which have a trace hash."""
    simulated = runs.where("layout is not null and trace_hash != ''")
    verdict = F.when(F.col("violated") == "", OK).otherwise(ILLEGAL).alias("verdict")
    return simulated.select(
        "run",
        "command",
        F.lit(TPCC_CONDITIONS).alias("checker"),
        verdict,
        F.col("violated").alias("detail"),
    )


def history_verdicts(runs: DataFrame, directories: Sequence[Path]) -> DataFrame:
    rows = [(path.name, str(path)) for path in (each.resolve() for each in directories)]
    located = runs.sparkSession.createDataFrame(rows, "run string, directory string")
    tasks = max(1, -(-len(directories) // RUNS_PER_TASK))
    spread = located.join(runs.select("run", "command"), "run").repartition(tasks, "run")
    return spread.mapInArrow(_check_batches, spark_schema(VERDICTS))


def _check_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            verdicts = check_run_history(Path(row["directory"]), row["command"])
            rows = [{"run": row["run"], **each} for each in verdicts]
            yield pa.RecordBatch.from_pylist(rows, VERDICTS)


def check_run_history(directory: Path, command: str) -> list[dict[str, str]]:
    """Return rows of VERDICTS on one run, without its name; `command` repeats the run."""
    check_command = f"creek check {directory}"
    try:
        history = load_run(directory)
        recorded = any(log.events for log in history.logs)
        if not recorded:
            history = _with_commit_events(history, directory)
    except CreekError as error:
        return [_verdict_row(Inconclusive(RUN_DIRECTORY_CHECK, str(error)), check_command)]
    datatype = datatype_of_history(history)
    run = RunIndex(history, datatype)
    if not recorded:
        results = [each(run) for each in CHECKERS if each.name in CHECKERS_WITHOUT_EVENTS]
        results.append(Inconclusive(MISSING_EVENTS_CHECK, _missing_events_reason()))
        return [_verdict_row(each, command) for each in results]
    results = [each(run) for each in CHECKERS]
    if datatype is not None and isinstance(datatype.base, PopulationBase):
        problems = violated_conditions(history, datatype)
        results.append(
            Illegal(TPCC_CONDITIONS, "\n".join(problems)) if problems else Ok(TPCC_CONDITIONS)
        )
    return [_verdict_row(each, check_command) for each in results]


def _missing_events_reason() -> str:
    checked = (*relational_checks.RELATIONAL_CHECKERS, *CHECKERS_WITHOUT_EVENTS)
    missing = ", ".join(each.name for each in CHECKERS if each.name not in checked)
    return f"no replica events were recorded; these checkers require them: {missing}"


def _with_commit_events(history: History, directory: Path) -> History:
    """Add the commit events of replicas to a history, from the table of their orders."""
    events: dict[int, list[LoggedEvent]] = {}
    columns = ["replica", "origin", "event", "index"]
    table = pq.read_table(directory / run_tables.TABLE_FILES["orders"], columns=columns)
    for replica, *dot, index in zip(*(table[each].to_pylist() for each in columns), strict=True):
        events.setdefault(replica, []).append(LoggedEvent(0, Committed(Dot(*dot), index)))
    # In reverse, so that the last incarnation of each replica receives its events.
    logs = [
        replace(log, events=tuple(events.pop(log.replica, ())), visible_count=None)
        for log in reversed(history.logs)
    ]
    return replace(history, logs=tuple(reversed(logs)))


def _verdict_row(verdict: Verdict, command: str) -> dict[str, str]:
    match verdict:
        case Illegal(message=message, counterexample=witnesses):
            name, detail = ILLEGAL, "\n".join([message, *(each.describe() for each in witnesses)])
        case Inconclusive(reason=reason):
            name, detail = UNKNOWN, reason
        case Ok():
            name, detail = OK, ""
    return {"checker": verdict.checker, "verdict": name, "detail": detail, "command": command}
