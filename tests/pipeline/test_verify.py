"""Verdicts on run directories: recorded, only measured, damaged, and of another version."""

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
from tests.pipeline.corruptions import swap_at_all_replicas, swap_at_one_replica

EXPERIMENT = Experiment(warehouses=1, replicas=3, load_tps=2000.0, duration_us=40_000)
SEED = 3


def save_measured(
    out: Path, name: str, experiment: Experiment, violated: tuple[str, ...] = ()
) -> None:
    """Save a run with responses and orders, but without other events."""
    scenario = experiment.to_scenario()
    run = build_simulation(scenario).run()
    tables = run_tables.tables_of_simulation(name, scenario, run, violated, experiment.to_command())
    save_run(run.history, out / name, lambda path: run_tables.write_run_tables(tables, path))


def recorded_history() -> History:
    return build_simulation(EXPERIMENT.to_scenario(record_all=True)).run().history


def with_diverged_replica(history: History) -> History:
    """Remove one register from the final state of a replica."""
    first, *others = history.final_states
    return replace(history, final_states=(replace(first, state=first.state[1:]), *others))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs")
    save_measured(directory, "measured", EXPERIMENT)
    violating = replace(EXPERIMENT, scheme="smr")
    save_measured(directory, "violating", violating, ("3.3.2.1 does not hold",))
    history = recorded_history()
    save_run(history, directory / "recorded")
    save_run(with_diverged_replica(history), directory / "diverged")
    fuzzed = build_simulation(scenario_from_seed(SEED, "creek")).run().history
    save_run(fuzzed, directory / "fuzzed")
    save_run(swap_at_all_replicas(fuzzed, Random(1)), directory / "swapped")
    save_run(swap_at_one_replica(fuzzed, Random(1)), directory / "disagreeing")
    for damaged in ("old", "cut", "unreadable"):
        save_measured(directory, damaged, EXPERIMENT)
    version = f'"schema_version": {SCHEMA_VERSION}'
    config = directory / "old" / CONFIG_FILE
    config.write_text(config.read_text().replace(version, '"schema_version": 1'))
    for file in (
        directory / "cut" / run_tables.TABLE_FILES["operations"],
        directory / "unreadable" / HISTORY_FILE,
    ):
        file.write_bytes(file.read_bytes()[:-100])
    return directory


@pytest.fixture(scope="module")
def verified(spark: SparkSession, out: Path) -> VerifyResult:
    return verify_runs(spark, out)


def verdicts_of(verified: VerifyResult, run: str) -> dict[str, str]:
    return {row["checker"]: row["verdict"] for row in verified.verdicts if row["run"] == run}


def test_a_recorded_run_has_verdicts_of_all_checkers(verified: VerifyResult) -> None:
    verdicts = verdicts_of(verified, "recorded")

    names = {each.name for each in CHECKERS} | {
        *relational_checks.RELATIONAL_CHECKERS,
        verify.TPCC_CONDITIONS,
    }
    assert verdicts.keys() == names
    assert verdicts.pop("fluctuating") == verify.UNKNOWN  # It requires orders in responses.
    assert set(verdicts.values()) == {verify.OK}


def test_a_measured_run_is_checked_by_orders_and_final_states(verified: VerifyResult) -> None:
    verdicts = verdicts_of(verified, "measured")

    assert verdicts.pop(verify.MISSING_EVENTS_CHECK) == verify.UNKNOWN
    assert verdicts == dict.fromkeys(
        (
            *relational_checks.RELATIONAL_CHECKERS,
            *verify.CHECKERS_WITHOUT_EVENTS,
            verify.TPCC_CONDITIONS,
        ),
        verify.OK,
    )


def test_violations_found_by_the_simulation_are_preserved(verified: VerifyResult) -> None:
    (row,) = (
        row
        for row in verified.verdicts
        if row["run"] == "violating" and row["verdict"] == verify.ILLEGAL
    )
    assert (row["checker"], row["detail"]) == (verify.TPCC_CONDITIONS, "3.3.2.1 does not hold")
    assert row["command"] == replace(EXPERIMENT, scheme="smr").to_command()


@pytest.mark.parametrize("run", ["recorded", "diverged", "fuzzed", "swapped", "disagreeing"])
def test_verdicts_equal_those_of_the_checkers(verified: VerifyResult, out: Path, run: str) -> None:
    history = load_run(out / run)
    expected = {
        each.checker
        for each in check_all(history, datatype_of_history(history))
        if isinstance(each, Illegal)
    }

    verdicts = verdicts_of(verified, run)
    illegal = {name for name, verdict in verdicts.items() if verdict == verify.ILLEGAL}

    assert illegal - {"committed_once", verify.TPCC_CONDITIONS} == expected
    assert bool(expected) == (run in ("diverged", "swapped", "disagreeing"))


def test_an_illegal_verdict_has_a_detail_and_a_command(verified: VerifyResult, out: Path) -> None:
    rows = [row for row in verified.verdicts if row["run"] == "disagreeing"]
    (row,) = (row for row in rows if row["checker"] == "prefix_order")

    assert row["detail"].startswith("two requests are committed at index ")
    assert row["command"] == f"creek check {out / 'disagreeing'}"


def test_an_unreadable_run_is_skipped_and_reported(verified: VerifyResult, out: Path) -> None:
    old, cut = sorted(verified.skipped, reverse=True)

    assert (
        old == f"{out / 'old'} was written in schema version 1; this Creek reads {SCHEMA_VERSION}"
    )
    assert cut.startswith(f"{out / 'cut' / run_tables.TABLE_FILES['operations']} is damaged: ")
    assert verdicts_of(verified, "old") == verdicts_of(verified, "cut") == {}


def test_a_run_with_a_damaged_history_is_checked_by_its_tables(verified: VerifyResult) -> None:
    verdicts = verdicts_of(verified, "unreadable")

    assert verdicts.pop(verify.RUN_DIRECTORY_CHECK) == verify.UNKNOWN
    assert verdicts == dict.fromkeys(
        (*relational_checks.RELATIONAL_CHECKERS, verify.TPCC_CONDITIONS), verify.OK
    )


def test_strict_verification_rejects_unreadable_runs(spark: SparkSession, out: Path) -> None:
    with pytest.raises((StorageFault, UsageError), match=r"cut|old"):
        verify_runs(spark, out, strict=True)


def test_strict_verification_rejects_a_damaged_history(spark: SparkSession, tmp_path: Path) -> None:
    save_measured(tmp_path, "unreadable", EXPERIMENT)
    file = tmp_path / "unreadable" / HISTORY_FILE
    file.write_bytes(file.read_bytes()[:-100])

    with pytest.raises(StorageFault, match=f"{file} is damaged"):
        verify_runs(spark, tmp_path, strict=True)
