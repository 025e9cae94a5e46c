"""Verdicts on runs: relational ones, and those that tasks determined from histories."""

from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from creekdb.checkers import Illegal, check_all
from creekdb.evaluation import Experiment, build_simulation, datatype_of_history
from creekdb.history import History
from creekdb.pipeline.checks.histories import history_verdicts
from creekdb.pipeline.checks.verdict_names import (
    ILLEGAL,
    MISSING_EVENTS_CHECK,
    OK,
    RELATIONAL_CHECKERS,
    TPCC_CONDITIONS,
    UNKNOWN,
)
from creekdb.pipeline.schemas import VERDICTS
from creekdb.pipeline.stages import run_tables, verify
from creekdb.pipeline.stages.output_dir import write_batch
from creekdb.pipeline.stages.results import VerifyResult, verify_runs
from creekdb.pipeline.storage import Location
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.pipeline.corruptions import swap_at_all_replicas, swap_at_one_replica
from tests.pipeline.spark_tables import Row, table

EXPERIMENT = Experiment(warehouses=1, replicas=3, load_tps=2000.0, duration_us=40_000)
SEED = 3
COMMAND = "creek check histories/{}"


def write_measured(out: Path, name: str, experiment: Experiment, *violated: str) -> None:
    """Write a run with responses and orders, but without other events."""
    scenario = experiment.to_scenario()
    run = build_simulation(scenario).run()
    command = experiment.to_command()
    rows = history_verdicts(run.history, datatype_of_history(run.history), command)
    tables = run_tables.tables_of_simulation(name, scenario, run, violated, rows, command)
    write_batch(Location.parse(out), name, tables._asdict())


def write_recorded(out: Path, name: str, history: History) -> None:
    rows = history_verdicts(history, datatype_of_history(history), COMMAND.format(name))
    tables = run_tables.tables_of_history(name, history, rows)
    write_batch(Location.parse(out), name, tables._asdict())


def with_diverged_replica(history: History) -> History:
    """Remove one register from the final state of a replica."""
    first, *others = history.final_states
    return replace(history, final_states=(replace(first, state=first.state[1:]), *others))


@pytest.fixture(scope="module")
def histories() -> dict[str, History]:
    recorded = build_simulation(EXPERIMENT.to_scenario(record_all=True)).run().history
    fuzzed = build_simulation(scenario_from_seed(SEED, "creek")).run().history
    return {
        "recorded": recorded,
        "diverged": with_diverged_replica(recorded),
        "fuzzed": fuzzed,
        "swapped": swap_at_all_replicas(fuzzed, Random(1)),
        "disagreeing": swap_at_one_replica(fuzzed, Random(1)),
    }


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, histories: dict[str, History]) -> Path:
    directory = tmp_path_factory.mktemp("out")
    write_measured(directory, "measured", EXPERIMENT)
    write_measured(directory, "extended", replace(EXPERIMENT, late_contexts=True))
    violating = replace(EXPERIMENT, scheme="smr")
    write_measured(directory, "violating", violating, "3.3.2.1 does not hold")
    for name, history in histories.items():
        write_recorded(directory, name, history)
    for run in RELATIONAL_VIOLATIONS:
        tables = run_tables.tables_of_history(f"{run} tables", histories[run])
        write_batch(Location.parse(directory), f"{run}-tables", tables._asdict())
    write_measured(directory, "uncommitted", EXPERIMENT)
    (directory / "runs" / "part-uncommitted.parquet").unlink()
    return directory


@pytest.fixture(scope="module")
def verified(spark: SparkSession, out: Path) -> VerifyResult:
    return verify_runs(spark, out)


@pytest.fixture(scope="module")
def rows(verified: VerifyResult) -> list[Row]:
    return [row.asDict() for row in verified.verdicts.collect()]


def verdicts_of(rows: list[Row], run: str) -> dict[str, str]:
    return {row["checker"]: row["verdict"] for row in rows if row["run"] == run}


@pytest.mark.parametrize("run", ["measured", "extended"])
def test_a_measured_run_is_checked_by_its_tables(rows: list[Row], run: str) -> None:
    """The relational checkers hold with extended contexts too: none of them uses contexts."""
    verdicts = verdicts_of(rows, run)

    assert verdicts.pop(MISSING_EVENTS_CHECK) == UNKNOWN
    assert verdicts == dict.fromkeys((*RELATIONAL_CHECKERS, TPCC_CONDITIONS), OK)


def test_violations_found_by_the_simulation_are_preserved(rows: list[Row]) -> None:
    (row,) = (row for row in rows if row["run"] == "violating" and row["verdict"] == ILLEGAL)

    assert (row["checker"], row["detail"]) == (TPCC_CONDITIONS, "3.3.2.1 does not hold")
    assert row["command"] == replace(EXPERIMENT, scheme="smr").to_command()


BEYOND_THE_CHECKERS = {"diverged": {TPCC_CONDITIONS}, "disagreeing": {"committed_once"}}
"""Violations of properties that only the pipeline checks, by run."""
RELATIONAL_VIOLATIONS = {
    "diverged": {"convergence"},
    "swapped": {"real_time", "session_order"},
    "disagreeing": {"prefix_order", "committed_once", "convergence"},
}
"""Violations that the tables of a run suffice for."""


@pytest.mark.parametrize("run", RELATIONAL_VIOLATIONS)
def test_tables_without_verdicts_suffice_for_relational_checkers(rows: list[Row], run: str) -> None:
    """Verdicts on the history of a run would hide that its tables yield none."""
    verdicts = verdicts_of(rows, f"{run} tables")

    assert verdicts.keys() == {*RELATIONAL_CHECKERS}
    illegal = {name for name, verdict in verdicts.items() if verdict == ILLEGAL}
    assert illegal == RELATIONAL_VIOLATIONS[run]


@pytest.mark.parametrize("run", ["recorded", "diverged", "fuzzed", "swapped", "disagreeing"])
def test_verdicts_equal_those_of_the_checkers(
    rows: list[Row], histories: dict[str, History], run: str
) -> None:
    history = histories[run]
    expected = {
        each.checker
        for each in check_all(history, datatype_of_history(history))
        if isinstance(each, Illegal)
    }

    verdicts = verdicts_of(rows, run)
    illegal = {name for name, verdict in verdicts.items() if verdict == ILLEGAL}

    assert illegal == expected | BEYOND_THE_CHECKERS.get(run, set())
    assert bool(expected) == (run in ("diverged", "swapped", "disagreeing"))


def test_rows_of_an_uncommitted_batch_are_ignored(rows: list[Row]) -> None:
    assert verdicts_of(rows, "uncommitted") == {}


def test_the_result_counts_verdicts_and_names_counterexamples(
    spark: SparkSession, out: Path, verified: VerifyResult, rows: list[Row]
) -> None:
    illegal = [row for row in rows if row["verdict"] == ILLEGAL]
    illegal.sort(key=lambda row: (row["run"], row["checker"]))

    assert verified.runs == 11
    assert sum(row["runs"] for row in verified.counts) == len(rows)
    assert {row["runs"] for row in verified.counts if row["checker"] == "prefix_order"} == {2, 9}
    assert verified.illegal == len(illegal)
    assert [row.asDict() for row in verified.counterexamples] == illegal[:10]
    assert len(verify_runs(spark, out, counterexamples_max=2).counterexamples) == 2


ORDERED = (OK, UNKNOWN, ILLEGAL)


@pytest.mark.parametrize("one", ORDERED)
@pytest.mark.parametrize("other", ORDERED)
def test_the_worst_of_two_verdicts_counts(spark: SparkSession, one: str, other: str) -> None:
    row: Row = {"run": "run", "checker": "real_time", "command": ""}
    both = [{**row, "verdict": each, "detail": f"why {each}"} for each in (one, other)]

    (worst,) = verify.worst_verdicts(table(spark, both, VERDICTS)).collect()

    expected = max(one, other, key=ORDERED.index)
    assert (worst["verdict"], worst["detail"]) == (expected, f"why {expected}")
