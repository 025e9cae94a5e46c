"""`creek check` on files of calls."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from creekdb.checkers.blackbox import ObservedCall, encode_calls
from creekdb.cli import main
from tests.unit.checkers.blackbox.observed_histories import call

LEGAL = (
    call("a", "put", "x", 1, at=(0, 10)),
    call("b", "get", "x", at=(20, 30), value=1),
)
STALE = (*LEGAL, call("b", "get", "x", at=(40, 50), value=None))


@pytest.fixture(autouse=True)
def in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*calls: ObservedCall, name: str = "calls.jsonl") -> str:
    Path(name).write_bytes(encode_calls(calls))
    return name


def test_a_linearizable_history_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(*LEGAL), "--model", "kv"]) == 0
    shown = capsys.readouterr().out
    assert "✓ 3 of 3 checkers passed\n  linearizability, exactly once, sessions" in shown


def test_an_illegal_history_exits_with_1_and_names_the_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", write(*STALE), "--model", "kv"]) == 1
    shown = capsys.readouterr().out
    assert "ILLEGAL  linearizability: no order of the calls explains get x → None" in shown
    assert shown.endswith("draw it with --picture FILE.svg\n")


def test_verdicts_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(*STALE), "--model", "kv", "--json"]) == 1
    row, *_ = json.loads(capsys.readouterr().out)
    assert (row["checker"], row["verdict"]) == ("linearizability", "illegal")
    assert row["counterexample"][-1]["what"] == "get x → None"


def test_the_picture_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(*STALE), "--model", "kv", "--picture", "found.svg"]) == 1
    assert capsys.readouterr().out.endswith("picture: found.svg\n")
    assert ElementTree.parse("found.svg").getroot().tag.endswith("svg")
    assert main(["check", write(*LEGAL), "--model", "kv", "--picture", "other.svg"]) == 0
    assert not Path("other.svg").exists()


def test_an_undecided_history_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(*LEGAL), "--model", "kv", "--steps", "1"]) == 4
    assert "unknown  linearizability: not checked" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "line", "cause"),
    [
        ("transactions", {"operation": "appendd"}, "'operation': the model has no operation 'app"),
        ("kv", {"operation": "put"}, "'arguments': put(key: str, value: Any) does not take 0"),
        ("kv", {"operation": "put", "arguments": ["x"]}, "does not take 1"),
        ("kv", {"operation": "get", "arguments": [[]]}, "the key of get is (); expected a text"),
        ("kv", {"operation": "scan", "arguments": [1]}, "the key of scan is 1; expected a text"),
        ("counter", {"operation": "inc"}, "'operation': the model has no operation 'inc'"),
        ("register", {"operation": "write"}, "'arguments': 'write' does not take the arguments"),
        ("list", {"operation": "append"}, "'arguments': 'append' does not take the arguments"),
        ("text-kv", {"operation": "get", "arguments": [1]}, "'arguments': 'get' does not take"),
        ("transactions", {"operation": "txn", "arguments": [5]}, "5 is not a micro-operation"),
    ],
)
def test_a_call_that_the_model_lacks_is_a_usage_error(
    model: str, line: dict[str, object], cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"client": "a", "invoked_us": 0, "responded_us": 1}
    Path("calls.jsonl").write_text(f"\n{json.dumps(fields | line)}\n")

    assert main(["check", "calls.jsonl", "--model", model]) == 2

    error = capsys.readouterr().err
    assert "calls.jsonl, line 2: " in error
    assert cause in error
    assert error.count("\n") == 1


def test_a_model_whose_states_are_not_hashable_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("unhashable.py").write_text(
        "from creekdb.checkers.blackbox import Model, step_of\n"
        "INITIAL = Model('list', [], step_of(lambda state, *call: (state, None)))\n"
        "LATER = Model('list', (), step_of(lambda state, *call: ([], None)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for variable in ("INITIAL", "LATER"):
        write(call("a", "toggle", at=(0, 1)))
        assert main(["check", "calls.jsonl", "--model", f"unhashable:{variable}"]) == 2
        assert "a state of the type list, which is not hashable" in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["gate", "MODEL"])
def test_models_and_data_types_of_users(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Path("gates.py").write_text(
        "import creekdb\n"
        "from creekdb.checkers.blackbox import Model, step_of\n"
        "gate = creekdb.DataType('gate')\n"
        "@gate.operation\n"
        "def toggle(tx):\n"
        "    tx.put('open', not tx.get('open', False))\n"
        "    return tx.get('open')\n"
        "MODEL = Model('gate', False, step_of(lambda state, operation, arguments:"
        " (not state, not state)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    toggles = [call("a", "toggle", at=(n, n), value=n % 2 == 0) for n in range(4)]
    assert main(["check", write(*toggles), "--model", f"gates:{variable}"]) == 0
    assert main(["check", write(*toggles[1:]), "--model", f"gates:{variable}"]) == 1


def test_calls_in_a_run_directory_are_checked_with_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    simulated = ["simulate", "--datatype", "kv", "--duration", "200ms", "--out", "run"]
    assert main(simulated) == 0
    write(*LEGAL, name="run/calls.jsonl")
    assert main(["check", "run"]) == 0
    verdicts = json.loads(Path("run/verdicts.json").read_text())["verdicts"]
    checkers = [each["checker"] for each in verdicts[-3:]]
    assert checkers == ["linearizability", "exactly once", "sessions"]
    assert {each["verdict"] for each in verdicts[-3:]} == {"ok"}
    write(*STALE, name="run/calls.jsonl")
    assert main(["check", "run", "--picture", "found.svg"]) == 1
    assert Path("found.svg").exists()
    assert "no order of the calls explains get x → None" in capsys.readouterr().out
