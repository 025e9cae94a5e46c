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
from creekdb.schemes.core.spec import SchemeSpec
from tests.unit.cli.faulty_schemes import Diverging, Raising

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


def simulate(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*SHORT, "--json", *arguments]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    return shown


def test_json_is_one_object_with_every_measure(capsys: pytest.CaptureFixture[str]) -> None:
    shown = simulate(capsys, "--strong-share", "0.5")

    assert shown.keys() >= KEYS
    for name in ("weak_tentative_ms", "strong_tentative_ms", "strong_stable_ms"):
        assert shown[name].keys() >= {"mean", "p50", "p99"}
        assert 0 < shown[name]["p50"] <= shown[name]["p99"]
    assert shown["weak_tentative_ms"]["mean"] < shown["strong_stable_ms"]["mean"]
    assert 0 < shown["accuracy"] <= 1 <= shown["execution_ratio"]
    assert 0 < shown["cpu_utilisation"] < 1
    assert 0 < shown["network_utilisation"] < 1
    assert {each["verdict"] for each in shown["verdicts"]} <= {"ok", "unknown"}


def test_a_missing_measure_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    shown = simulate(capsys, "--strong-share", "0")

    assert shown["strong_stable_ms"] is None
    assert shown["strong"] == 0


def test_one_replica_without_faults_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    shown = simulate(capsys, "--replicas", "1")

    assert (shown["accuracy"], shown["execution_ratio"], shown["rollbacks"]) == (1.0, 1.0, 0)


def test_equal_seeds_give_equal_runs_and_other_seeds_other_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, again = (simulate(capsys, "--seed", "3", "--random-faults") for _ in range(2))
    other = simulate(capsys, "--seed", "4", "--random-faults")

    assert first == again
    assert first["trace_hash"] != other["trace_hash"]


def test_a_checked_run_has_the_chosen_extensions(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--scheme", "creek", "--duration", "100ms")
    paper = simulate(capsys, *arguments)
    extended = simulate(capsys, *arguments, "--extensions", "fast_path,estimates")

    assert (paper["extensions"], extended["extensions"]) == ([], ["estimates", "fast_path"])
    assert extended["trace_hash"] != paper["trace_hash"]
    assert {each["verdict"] for each in extended["verdicts"]} <= {"ok", "unknown"}


def test_the_trace_hash_does_not_depend_on_the_hash_seed_of_python() -> None:
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


def test_an_open_loop_offers_the_given_load(capsys: pytest.CaptureFixture[str]) -> None:
    shown = simulate(capsys, "--load", "1000", "--datatype", "counter")

    assert (shown["load_tps"], shown["clients"]) == (1000, None)
    assert 100 < shown["weak"] + shown["strong"] < 300


def test_the_default_output_is_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--fault", "crash 1 at 50ms", "--datatype", "list"]) == 0

    shown = capsys.readouterr().out
    for part in (
        "strong, stable",
        "accuracy",
        "trace hash",
        "crash 1 at 50ms",
        "11 of 12 checkers passed, 1 inconclusive",
        "unknown  fluctuating: not checked, not a violation: the run recorded no observed orders",
    ):
        assert part in shown
    assert "\x1b" not in shown
    assert not any(line.endswith(" ") for line in shown.splitlines())


def test_scripted_calls_are_shown_in_the_order_of_time(
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


def test_a_saved_run_can_be_checked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "run"

    assert main([*SHORT, "--random-faults", "--out", str(directory)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"saved to {directory}; check it with: ")
    assert last.endswith(f" check {directory}")
    saved = json.loads((directory / "verdicts.json").read_text())
    (directory / "verdicts.json").unlink()
    assert main(["check", str(directory)]) == 0
    assert json.loads((directory / "verdicts.json").read_text()) == saved
    capsys.readouterr()
    assert main(["check", str(directory), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == saved["verdicts"]
    assert main([*SHORT, "--out", str(directory)]) == 2
    assert "runs are never overwritten" in capsys.readouterr().err


def test_an_illegal_run_exits_with_1_also_in_a_later_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        registry.SCHEMES, "diverging", SchemeSpec(name="diverging", create=Diverging)
    )
    directory = tmp_path / "run"

    assert main([*SHORT, "--scheme", "diverging", "--out", str(directory)]) == 1
    assert "ILLEGAL  convergence: the states differ under 'lie'" in capsys.readouterr().out
    assert main(["check", str(directory)]) == 1
    assert "ILLEGAL  convergence: the states differ under 'lie'" in capsys.readouterr().out


def test_a_raising_replica_exits_with_1_and_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.SCHEMES, "raising", SchemeSpec(name="raising", create=Raising))

    assert main([*SHORT, "--scheme", "raising"]) == 1
    shown = capsys.readouterr()
    assert "a replica or a checker raised" in shown.out
    assert "RuntimeError: a bug in the replica" in shown.err


def test_a_damaged_run_directory_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "run"
    assert main([*SHORT, "--out", str(directory)]) == 0
    capsys.readouterr()
    history = directory / "history.msgpack"
    history.write_bytes(history.read_bytes()[:100])

    assert main(["check", str(directory)]) == 3
    shown = capsys.readouterr().err
    assert shown.startswith(f"creek: {history} is damaged")
    assert shown.count("\n") == 1


def test_a_replayed_seed_prints_its_scenario_and_can_be_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--replay", "291", "--out", str(tmp_path / "run")]) == 0

    assert "seed 291" in capsys.readouterr().out
    assert load_run(tmp_path / "run").config["seed"] == 291


def test_a_user_data_type_is_simulated_with_calls_and_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "visits.py").write_text(
        "import creekdb\n"
        "visits = creekdb.DataType('visits')\n"
        "@visits.operation\n"
        "def enter(tx, name):\n"
        "    tx.add('inside', 1)\n"
        "    return tx.get('inside')\n"
    )
    monkeypatch.chdir(tmp_path)
    calls = ("--call", "enter ann on 0 at 5ms", "--call", "strong enter bob on 1 at 50ms")
    shown = simulate(capsys, "--datatype", "visits:visits", *calls, "--debug", "--out", "run")
    assert "illegal" not in {each["verdict"] for each in shown["verdicts"]}
    assert [each.responses[-1].outcome.value for each in load_run(Path("run")).operations] == [1, 2]
    assert main(["check", "run"]) == 0


def test_the_trace_of_an_error_in_a_user_operation_is_printed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--datatype", "tests.cluster.slow_types:slow", "--replicas", "3"]
    calls = [part for at in (1, 2) for part in ("--call", f"interrupt on 0 at {at}ms")]
    assert main([*SHORT, *options, *calls]) == 0
    errors = capsys.readouterr().err
    assert errors.count("creek: interrupt raised KeyboardInterrupt, first at:\nTraceback") == 1
    assert errors.count("    raise KeyboardInterrupt\n") == 1


def test_documented_errors_of_ready_made_types_print_no_trace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*SHORT, "--call", "withdraw ann 5 on 0 at 1ms"]) == 0
    assert capsys.readouterr().err == ""
