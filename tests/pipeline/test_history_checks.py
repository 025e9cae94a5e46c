"""Verdicts on one history, with and without events, and beyond the limit of operations."""

import subprocess
import sys
from random import Random

import pytest

from creekdb.checkers import CHECKERS, Illegal, check_all
from creekdb.evaluation import Experiment, build_simulation, datatype_of_history
from creekdb.history import History
from creekdb.pipeline.checks.histories import OPERATIONS_MAX, history_verdicts
from creekdb.pipeline.checks.verdict_names import (
    ILLEGAL,
    MISSING_EVENTS_CHECK,
    OK,
    RELATIONAL_CHECKERS,
    TPCC_CONDITIONS,
    UNKNOWN,
)
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.pipeline.corruptions import swap_at_one_replica

EXPERIMENT = Experiment(warehouses=1, replicas=3, load_tps=2000.0, duration_us=40_000)
COMMAND = "creek check somewhere"


@pytest.fixture(scope="module")
def recorded() -> History:
    return build_simulation(EXPERIMENT.to_scenario(record_all=True)).run().history


@pytest.fixture(scope="module")
def fuzzed() -> History:
    return build_simulation(scenario_from_seed(3, "creek")).run().history


def verdicts(history: History, operations_max: int = OPERATIONS_MAX) -> dict[str, str]:
    rows = history_verdicts(history, datatype_of_history(history), COMMAND, operations_max)
    assert {row["command"] for row in rows} == {COMMAND}
    return {row["checker"]: row["verdict"] for row in rows}


def test_a_recorded_run_has_verdicts_of_all_checkers(recorded: History) -> None:
    found = verdicts(recorded)

    assert found.keys() == {each.name for each in CHECKERS} | {TPCC_CONDITIONS}
    assert found.pop("fluctuating") == UNKNOWN  # It requires orders in responses.
    assert set(found.values()) == {OK}


@pytest.mark.parametrize("is_corrupted", [False, True])
def test_verdicts_equal_those_of_the_checkers(fuzzed: History, is_corrupted: bool) -> None:
    history = swap_at_one_replica(fuzzed, Random(1)) if is_corrupted else fuzzed
    expected = {
        each.checker
        for each in check_all(history, datatype_of_history(history))
        if isinstance(each, Illegal)
    }

    found = verdicts(history)

    assert {name for name, verdict in found.items() if verdict == ILLEGAL} == expected
    assert bool(expected) == is_corrupted


def test_an_illegal_verdict_has_its_counterexample(fuzzed: History) -> None:
    history = swap_at_one_replica(fuzzed, Random(1))
    rows = history_verdicts(history, datatype_of_history(history), COMMAND)

    (row,) = (row for row in rows if row["checker"] == "prefix_order")
    assert len(row["detail"].splitlines()) > 1


def test_a_run_without_events_has_one_unknown_verdict() -> None:
    history = build_simulation(EXPERIMENT.to_scenario()).run().history

    (row,) = history_verdicts(history, datatype_of_history(history), COMMAND)

    assert (row["checker"], row["verdict"]) == (MISSING_EVENTS_CHECK, UNKNOWN)
    named = row["detail"].partition("require them: ")[2].split(", ")
    assert {*named} == {each.name for each in CHECKERS} - {*RELATIONAL_CHECKERS}


def test_a_history_at_the_limit_is_checked(fuzzed: History) -> None:
    assert verdicts(fuzzed, operations_max=len(fuzzed.operations)) == verdicts(fuzzed)


def test_a_history_beyond_the_limit_is_unknown_where_tables_do_not_suffice(
    fuzzed: History,
) -> None:
    count = len(fuzzed.operations)
    rows = history_verdicts(fuzzed, datatype_of_history(fuzzed), COMMAND, count - 1)

    assert {row["checker"] for row in rows} == {each.name for each in CHECKERS} - {
        *RELATIONAL_CHECKERS
    }
    for row in rows:
        assert row["verdict"] == UNKNOWN
        assert row["detail"].startswith(
            f"too long: {count} operations exceed the limit of {count - 1}; "
        )


def test_tasks_check_histories_without_importing_spark() -> None:
    code = (
        "import sys, creekdb.pipeline.checks.histories; "
        "sys.exit(any(each.partition('.')[0] == 'pyspark' for each in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
