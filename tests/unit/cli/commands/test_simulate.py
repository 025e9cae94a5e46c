import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from creekdb.cli import main
from creekdb.history import load_run
from creekdb.schemes import registry
from tests.unit.cli.nondeterministic_types import Lying, Raising

SHORT = ["simulate", "--duration", "200ms"]

KEYS = {
    "scheme",
    "load_tps",
    "clients",
    "seed",
    "throughput_tps",
    "weak_tentative_ms",
    "strong_tentative_ms",
    "strong_stable_ms",
    "accuracy",
    "execution_ratio",
    "cpu_utilisation",
    "network_utilisation",
    "trace_hash",
    "verdicts",
    "probes",
    "refused",
    "drift_us",
}


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*SHORT, "--json", *arguments]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    return shown


def test_json_is_one_object_with_every_measure(capsys: pytest.CaptureFixture[str]) -> None:
    shown = simulated(capsys, "--strong-share", "0.5")

    assert shown.keys() >= KEYS
    for name in ("weak_tentative_ms", "strong_tentative_ms", "strong_stable_ms"):
        assert shown[name].keys() >= {"mean", "p50", "p99"}
        assert 0 < shown[name]["p50"] <= shown[name]["p99"]
    assert shown["weak_tentative_ms"]["mean"] < shown["strong_stable_ms"]["mean"]
    assert 0 < shown["accuracy"] <= 1 <= shown["execution_ratio"]
    assert 0 < shown["cpu_utilisation"] < 1
    assert 0 < shown["network_utilisation"] < 1
    assert {each["verdict"] for each in shown["verdicts"]} <= {"ok", "unknown"}


def test_what_was_not_measured_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    shown = simulated(capsys, "--strong-share", "0")

    assert shown["strong_stable_ms"] is None
    assert shown["strong"] == 0


def test_one_replica_without_faults_is_always_right(capsys: pytest.CaptureFixture[str]) -> None:
    shown = simulated(capsys, "--replicas", "1")

    assert (shown["accuracy"], shown["execution_ratio"], shown["rollbacks"]) == (1.0, 1.0, 0)


def test_the_same_seed_gives_the_same_run_and_another_one_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, again = (simulated(capsys, "--seed", "3", "--random-faults") for _ in range(2))
    other = simulated(capsys, "--seed", "4", "--random-faults")

    assert first == again
    assert first["trace_hash"] != other["trace_hash"]


def test_the_hash_is_the_same_under_any_hash_seed_of_python() -> None:
    hashes = set()
    for hash_seed in ("1", "2"):
        shown = subprocess.run(
            [sys.executable, "-m", "creekdb", "simulate", "--replay", "291", "--json"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        hashes.add(json.loads(shown)["trace_hash"])

    assert len(hashes) == 1


def test_an_open_loop_asks_as_often_as_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    shown = simulated(capsys, "--load", "1000", "--datatype", "counter")

    assert (shown["load_tps"], shown["clients"]) == (1000, None)
    assert 100 < shown["weak"] + shown["strong"] < 300


def test_people_get_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--fault", "crash 1 at 50ms", "--datatype", "list"]) == 0

    shown = capsys.readouterr().out
    for part in (
        "strong, stable",
        "accuracy",
        "trace hash",
        "crash 1 at 50ms",
        "11 of 12 checkers say ok, 1 cannot tell",
        "unknown  fluctuating: not checked, which is no fault: the run did not record on which",
    ):
        assert part in shown
    assert "\x1b" not in shown
    assert not any(line.endswith(" ") for line in shown.splitlines())


def test_calls_of_ones_own_are_shown_in_the_order_of_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = (
        ["--call", "strong balance ann on 2 at 20ms"],
        ["--call", "weak open ann 7 on 0 at 10ms"],
    )
    assert main([*SHORT, "--replicas", "3", *calls[0], *calls[1]]) == 0

    shown = capsys.readouterr().out
    assert "2 scripted calls" in shown
    assert shown.index("open ann 7") < shown.index("balance ann") < shown.index("stable   ")


def test_a_run_that_is_kept_can_be_checked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"

    assert main([*SHORT, "--random-faults", "--out", str(folder)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"kept in {folder}; check it with: ")
    assert last.endswith(f" check {folder}")
    kept = json.loads((folder / "verdicts.json").read_text())
    (folder / "verdicts.json").unlink()
    assert main(["check", str(folder)]) == 0
    assert json.loads((folder / "verdicts.json").read_text()) == kept
    capsys.readouterr()
    assert main(["check", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == kept["verdicts"]
    assert main([*SHORT, "--out", str(folder)]) == 2
    assert "a run is never written over" in capsys.readouterr().err


def test_an_illegal_run_exits_with_1_also_when_it_is_checked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.SCHEMES, "lying", Lying)
    folder = tmp_path / "run"

    assert main([*SHORT, "--scheme", "lying", "--out", str(folder)]) == 1
    assert "ILLEGAL  convergence: the states differ under 'lie'" in capsys.readouterr().out
    assert main(["check", str(folder)]) == 1
    assert "ILLEGAL  convergence: the states differ under 'lie'" in capsys.readouterr().out


def test_a_replica_that_raises_exits_with_1_and_shows_where(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.SCHEMES, "raising", Raising)

    assert main([*SHORT, "--scheme", "raising"]) == 1
    shown = capsys.readouterr()
    assert "a replica or a checker raised" in shown.out
    assert "RuntimeError: a bug in the replica" in shown.err


def test_a_damaged_run_folder_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main([*SHORT, "--out", str(folder)]) == 0
    capsys.readouterr()
    history = folder / "history.msgpack"
    history.write_bytes(history.read_bytes()[:100])

    assert main(["check", str(folder)]) == 3
    shown = capsys.readouterr().err
    assert shown.startswith(f"creek: {history} is damaged")
    assert shown.count("\n") == 1


def test_a_replayed_seed_tells_its_scenario_and_can_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--replay", "291", "--out", str(tmp_path / "run")]) == 0

    assert "seed 291" in capsys.readouterr().out
    assert load_run(tmp_path / "run").config["seed"] == 291


def test_a_data_type_of_ones_own_is_simulated_with_calls_and_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "doors.py").write_text(
        "import creekdb\n"
        "doors = creekdb.DataType('doors')\n"
        "@doors.operation\n"
        "def enter(tx, name):\n"
        "    tx.add('inside', 1)\n"
        "    return tx.get('inside')\n"
    )
    monkeypatch.chdir(tmp_path)
    calls = ("--call", "enter ann on 0 at 5ms", "--call", "strong enter bob on 1 at 50ms")
    shown = simulated(capsys, "--datatype", "doors:doors", *calls, "--debug", "--out", "run")
    assert "illegal" not in {each["verdict"] for each in shown["verdicts"]}
    assert [each.answers[-1].outcome.value for each in load_run(Path("run")).operations] == [1, 2]
    assert main(["check", "run"]) == 0
