"""Output and exit codes of `creek pipeline measure` and `creek pipeline verify`."""

import json
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from creekdb.cli import main
from creekdb.evaluation import Experiment, build_simulation
from creekdb.history import save_run
from creekdb.pipeline.stages import results
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from tests.pipeline.corruptions import swap_at_one_replica

SEEDS = (0, 1)


@pytest.fixture(autouse=True)
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the sessions of commands by the shared one, and cache the results of a directory."""
    monkeypatch.setattr(
        "creekdb.pipeline.spark.session.starting_session", lambda *_: nullcontext(lambda: spark)
    )
    monkeypatch.setattr(results, "measure_runs", cached_measure_runs)
    monkeypatch.setattr(results, "verify_runs", cached_verify_runs)


cached_measure_runs = cache(results.measure_runs)
cached_verify_runs = cache(results.verify_runs)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("out")
    for seed in SEEDS:
        experiment = Experiment(
            warehouses=1, replicas=3, load_tps=1000.0, duration_us=60_000, seed=seed
        )
        save_run(
            build_simulation(experiment.to_scenario()).run().history, directory / f"seed-{seed}"
        )
    return directory


@pytest.fixture(scope="module")
def illegal_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("illegal")
    history = build_simulation(scenario_from_seed(3, "creek")).run().history
    save_run(swap_at_one_replica(history, Random(1)), directory / "disagreeing")
    return directory


def test_measure_prints_schemes_and_peaks(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "measure", str(out)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["scheme", "runs", "saturated", "operations"]
    assert lines[1].split()[:3] == ["creek", "2", "0"]
    assert lines[2].split() == ["scheme", "seeds", "peak", "per", "second"]
    assert lines[-1] == f"2 runs measured; the tables are in {out}"
    for name in ("measures", "latencies", "summary", "peaks"):
        results.check_result(out, name)


def test_measure_prints_json(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "measure", str(out), "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert [each["run"] for each in shown["measures"]] == ["seed-0", "seed-1"]
    assert {each["seed"] for each in shown["peaks"]} == set(SEEDS)
    assert shown["skipped"] == []


def test_verify_accepts_legal_runs(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "verify", str(out)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert ["real", "time", "2", "0", "0"] in [line.split() for line in lines]
    assert lines[-1].startswith("2 runs checked, no violation")


def test_verify_reports_an_illegal_run_and_exits_with_1(
    illegal_runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "verify", str(illegal_runs)]) == 1
    shown = capsys.readouterr().out
    assert "✗ disagreeing: prefix order" in shown
    assert "two requests are committed at index" in shown
    assert f"check {illegal_runs / 'disagreeing'}" in shown

    assert main(["pipeline", "verify", str(illegal_runs), "--json"]) == 1
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert ("prefix_order", "illegal") in {(each["checker"], each["verdict"]) for each in verdicts}


@pytest.mark.parametrize("stage", ["measure", "verify"])
def test_a_directory_without_runs_is_rejected(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", stage, str(tmp_path)]) == 2
    assert "holds no runs" in capsys.readouterr().err
    assert main(["pipeline", stage, str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.fixture
def with_damaged_run(out: Path, tmp_path: Path) -> Path:
    """Directory with a run, and with one whose history is truncated."""
    for name in ("seed-0", "seed-1"):
        (tmp_path / name).mkdir()
        for each in ("config.json", "history.msgpack"):
            (tmp_path / name / each).write_bytes((out / name / each).read_bytes())
    file = tmp_path / "seed-1" / "history.msgpack"
    file.write_bytes(file.read_bytes()[:-10])
    return tmp_path


def test_skipped_runs_are_reported(
    with_damaged_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "verify", str(with_damaged_run)]) == 0
    shown = capsys.readouterr()
    file = with_damaged_run / "seed-1" / "history.msgpack"
    assert "".join(shown.err.split()).startswith(f"skipped:StorageFault:{file}isdamaged:")
    assert shown.out.splitlines()[-1].startswith("1 run checked, no violation")


@pytest.mark.parametrize("stage", ["measure", "verify"])
def test_strict_stages_reject_a_damaged_run(
    stage: str, with_damaged_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", stage, str(with_damaged_run), "--strict"]) == 3
    assert "history.msgpack is damaged: " in capsys.readouterr().err


def test_check_refers_a_measured_run_to_verify(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(out / "seed-0")]) == 2
    assert f"pipeline verify {out / 'seed-0'}" in capsys.readouterr().err
