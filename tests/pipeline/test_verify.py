"""Verdicts over run folders: kept, only measured, damaged, and of another version."""

from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from creekdb.checkers import CHECKERS, Illegal, check_all
from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment, build_simulation, datatype_of_history
from creekdb.history import History, load_run, save_run
from creekdb.history.run_directory import CONFIG_FILE, HISTORY_FILE, SCHEMA_VERSION
from creekdb.pipeline.stages import relational_checks, run_tables, verify
from creekdb.pipeline.stages.results import VerifyResult, verify_runs
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.pipeline.broken import swapped_everywhere, swapped_somewhere

EXPERIMENT = Experiment(warehouses=1, replicas=3, load_tps=2000.0, duration_us=40_000)
SEED = 3


def measured(out: Path, name: str, experiment: Experiment, violated: tuple[str, ...] = ()) -> None:
    """A run of which only answers and orders were recorded."""
    scenario = experiment.to_scenario()
    run = build_simulation(scenario).run()
    made = run_tables.tables_of_simulation(name, scenario, run, violated, experiment.to_command())
    save_run(run.history, out / name, lambda folder: run_tables.write_run_tables(made, folder))


def recorded() -> History:
    return build_simulation(EXPERIMENT.to_scenario(kept=True)).run().history


def unequal(history: History) -> History:
    """A replica ends with one register less."""
    first, *others = history.final_states
    return replace(history, final_states=(replace(first, state=first.state[1:]), *others))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    measured(folder, "measured", EXPERIMENT)
    measured(folder, "violating", replace(EXPERIMENT, scheme="smr"), ("3.3.2.1 does not hold",))
    history = recorded()
    save_run(history, folder / "recorded")
    save_run(unequal(history), folder / "unequal")
    fuzzed = build_simulation(scenario_from_seed(SEED, "creek")).run().history
    save_run(fuzzed, folder / "fuzzed")
    save_run(swapped_everywhere(fuzzed, Random(1)), folder / "swapped")
    save_run(swapped_somewhere(fuzzed, Random(1)), folder / "torn")
    for damaged in ("old", "cut", "unreadable"):
        measured(folder, damaged, EXPERIMENT)
    version = f'"schema_version": {SCHEMA_VERSION}'
    config = folder / "old" / CONFIG_FILE
    config.write_text(config.read_text().replace(version, '"schema_version": 1'))
    for file in (
        folder / "cut" / run_tables.TABLE_FILES["operations"],
        folder / "unreadable" / HISTORY_FILE,
    ):
        file.write_bytes(file.read_bytes()[:-100])
    return folder


@pytest.fixture(scope="module")
def verified(spark: SparkSession, out: Path) -> VerifyResult:
    return verify_runs(spark, out)


def told(verified: VerifyResult, run: str) -> dict[str, str]:
    return {row["checker"]: row["verdict"] for row in verified.verdicts if row["run"] == run}


def test_a_recorded_run_is_judged_by_everybody(verified: VerifyResult) -> None:
    found = told(verified, "recorded")

    names = {each.name for each in CHECKERS} | {
        *relational_checks.RELATIONAL_CHECKERS,
        verify.TPCC_CONDITIONS,
    }
    assert found.keys() == names
    assert found.pop("fluctuating") == verify.UNKNOWN  # it needs orders with each answer
    assert set(found.values()) == {verify.OK}


def test_a_measured_run_is_judged_by_its_orders_and_its_end(verified: VerifyResult) -> None:
    found = told(verified, "measured")

    assert found.pop(verify.MISSING_EVENTS_CHECK) == verify.UNKNOWN
    assert found == dict.fromkeys(
        (
            *relational_checks.RELATIONAL_CHECKERS,
            *verify.CHECKERS_WITHOUT_EVENTS,
            verify.TPCC_CONDITIONS,
        ),
        verify.OK,
    )


def test_what_was_found_while_simulating_is_not_lost(verified: VerifyResult) -> None:
    (row,) = (
        row
        for row in verified.verdicts
        if row["run"] == "violating" and row["verdict"] == verify.ILLEGAL
    )
    assert (row["checker"], row["detail"]) == (verify.TPCC_CONDITIONS, "3.3.2.1 does not hold")
    assert row["command"] == replace(EXPERIMENT, scheme="smr").to_command()


@pytest.mark.parametrize("run", ["recorded", "unequal", "fuzzed", "swapped", "torn"])
def test_verdicts_are_those_of_the_checkers(verified: VerifyResult, out: Path, run: str) -> None:
    history = load_run(out / run)
    expected = {
        each.checker
        for each in check_all(history, datatype_of_history(history))
        if isinstance(each, Illegal)
    }

    found = {name for name, verdict in told(verified, run).items() if verdict == verify.ILLEGAL}

    assert found - {"committed_once", verify.TPCC_CONDITIONS} == expected
    assert bool(expected) == (run in ("unequal", "swapped", "torn"))


def test_an_illegal_run_is_told_with_what_to_look_at(verified: VerifyResult, out: Path) -> None:
    rows = [row for row in verified.verdicts if row["run"] == "torn"]
    (row,) = (row for row in rows if row["checker"] == "prefix_order")

    assert row["detail"].startswith("two requests are committed at index ")
    assert row["command"] == f"creek check {out / 'torn'}"


def test_a_run_that_cannot_be_read_is_named_and_left_out(verified: VerifyResult, out: Path) -> None:
    old, cut = sorted(verified.skipped, reverse=True)

    assert (
        old == f"{out / 'old'} was written in schema version 1; this Creek reads {SCHEMA_VERSION}"
    )
    assert cut.startswith(f"{out / 'cut' / run_tables.TABLE_FILES['operations']} is damaged: ")
    assert told(verified, "old") == told(verified, "cut") == {}


def test_a_damaged_history_leaves_what_the_tables_tell(verified: VerifyResult, out: Path) -> None:
    found = told(verified, "unreadable")

    assert found.pop(verify.RUN_DIRECTORY_CHECK) == verify.UNKNOWN
    assert found == dict.fromkeys(
        (*relational_checks.RELATIONAL_CHECKERS, verify.TPCC_CONDITIONS), verify.OK
    )


def test_who_is_strict_refuses_what_cannot_be_read(spark: SparkSession, out: Path) -> None:
    with pytest.raises((StorageFault, UsageError), match=r"cut|old"):
        verify_runs(spark, out, strict=True)


def test_who_is_strict_refuses_a_damaged_history(spark: SparkSession, tmp_path: Path) -> None:
    measured(tmp_path, "unreadable", EXPERIMENT)
    file = tmp_path / "unreadable" / HISTORY_FILE
    file.write_bytes(file.read_bytes()[:-100])

    with pytest.raises(StorageFault, match=f"{file} is damaged"):
        verify_runs(spark, tmp_path, strict=True)
