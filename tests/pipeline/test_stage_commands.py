"""`creek pipeline measure` and `verify`: what they print, and how they exit."""

import json
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from random import Random
from shutil import copytree

import pytest
from pyspark.sql import SparkSession

from creekdb.cli import main
from creekdb.evaluation import Experiment, build_simulation
from creekdb.history import save_run
from creekdb.pipeline.stages import results, run_tables
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.pipeline.broken import swapped_somewhere

SEEDS = (0, 1)


@pytest.fixture(autouse=True)
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands start a session and stop it; here they get the one that all tests share. What they
    found in a folder once, they find again."""
    monkeypatch.setattr("creekdb.pipeline.spark.session.session", lambda *_: nullcontext(spark))
    monkeypatch.setattr(results, "measure_runs", measured_once)
    monkeypatch.setattr(results, "verify_runs", verified_once)


measured_once = cache(results.measure_runs)
verified_once = cache(results.verify_runs)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out")
    for seed in SEEDS:
        experiment = Experiment(
            warehouses=1, replicas=3, load_tps=1000.0, duration_us=60_000, seed=seed
        )
        scenario = experiment.to_scenario()
        run = build_simulation(scenario).run()
        made = run_tables.tables_of_simulation(
            f"seed-{seed}", scenario, run, (), experiment.to_command()
        )
        save_run(run.history, folder / f"seed-{seed}", partial(run_tables.write_run_tables, made))
    return folder


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torn")
    history = build_simulation(scenario_from_seed(3, "creek")).run().history
    save_run(swapped_somewhere(history, Random(1)), folder / "torn")
    return folder


def test_measuring_shows_schemes_and_their_peaks(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "measure", str(out)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["scheme", "runs", "saturated", "operations"]
    assert lines[1].split()[:3] == ["creek", "2", "0"]
    assert lines[2].split() == ["scheme", "seeds", "peak", "per", "second"]
    assert lines[-1] == f"2 runs measured: the tables are in {out}"
    for name in ("measures", "latencies", "summary", "peaks"):
        results.check_result(out, name)


def test_measures_as_json(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "measure", str(out), "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert [each["run"] for each in shown["measures"]] == ["seed-0", "seed-1"]
    assert {each["seed"] for each in shown["peaks"]} == set(SEEDS)
    assert shown["skipped"] == []


def test_verifying_legal_runs_is_fine(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "verify", str(out)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert ["real", "time", "2", "0", "0"] in [line.split() for line in lines]
    assert lines[-1].startswith("2 runs checked, nothing illegal")


def test_an_illegal_run_is_shown_and_told_by_the_exit_code(
    torn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "verify", str(torn)]) == 1
    shown = capsys.readouterr().out
    assert "✗ torn: prefix order" in shown
    assert "two requests are committed at index" in shown
    assert f"check {torn / 'torn'}" in shown

    assert main(["pipeline", "verify", str(torn), "--json"]) == 1
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert ("prefix_order", "illegal") in {(each["checker"], each["verdict"]) for each in verdicts}


@pytest.mark.parametrize("stage", ["measure", "verify"])
def test_a_folder_without_runs_is_a_mistake(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", stage, str(tmp_path)]) == 2
    assert "holds no runs" in capsys.readouterr().err
    assert main(["pipeline", stage, str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_what_is_left_out_is_told(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = "this file is damaged"
    found = results.VerifyResult([], (damaged,))
    monkeypatch.setattr(results, "verify_runs", lambda spark, out, strict: found)

    assert main(["pipeline", "verify", str(out)]) == 0
    assert capsys.readouterr().err == f"left out: {damaged}\n"


def test_a_damaged_run_is_refused_where_that_is_asked_for(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copytree(out / "seed-1", tmp_path / "seed-1")
    file = tmp_path / "seed-1" / run_tables.TABLE_FILES["orders"]
    file.write_bytes(file.read_bytes()[:-10])

    for stage in ("measure", "verify"):
        assert main(["pipeline", stage, str(tmp_path), "--strict"]) == 3
        assert capsys.readouterr().err.startswith(f"creek: {file} is damaged: ")


def test_a_run_that_was_only_measured_is_not_judged_by_what_it_lacks(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(out / "seed-0")]) == 2
    assert f"pipeline verify {out / 'seed-0'}" in capsys.readouterr().err
