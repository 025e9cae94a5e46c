"""`--debug`: operations that are not deterministic are found, and named."""

import json
import sys
from pathlib import Path

import pytest

from creekdb import datatypes
from creekdb.cli import determinism, main
from tests.unit.cli import hash_seed_types

ROOT = Path(__file__).parents[3]
SHORT = ["simulate", "--duration", "100ms", "--replicas", "3"]


@pytest.fixture
def wrong_datatypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datatypes, "DATATYPES", dict(datatypes.DATATYPES))
    monkeypatch.setattr(datatypes, "SAMPLES", dict(datatypes.SAMPLERS))
    hash_seed_types.register()
    code = (
        "from tests.unit.cli import hash_seed_types; hash_seed_types.register(); from "
        "creekdb.cli import again; "
    )
    monkeypatch.setattr(determinism, "COMMAND", (sys.executable, "-c", f"{code}again.main()"))
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("scheme", ["basic", "creek"])
def test_debug_mode_finds_nothing_in_a_sound_data_type_and_changes_nothing(
    scheme: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*SHORT, "--scheme", scheme, "--datatype", "kv", "--json"]
    assert main(options) == main([*options, "--debug"]) == 0
    plain, debugged = map(json.loads, capsys.readouterr().out.splitlines())
    assert plain == debugged


def test_debug_mode_tells_people_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--debug"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(
        "executions, repeated here and in another process: all operations are deterministic"
    )
    assert int(last.split()[0]) > 10


@pytest.mark.usefixtures("wrong_datatypes")
def test_an_operation_that_depends_on_the_hash_seed_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*SHORT, "--datatype", "hashed"]) == 0
    capsys.readouterr()
    # Whatever the order is here, one of three other processes has another one.
    complaints = []
    for seeds in (("1", "2"), ("3", "4"), ("5", "6")):
        monkeypatch.setattr(determinism, "HASH_SEEDS", seeds)
        code = main([*SHORT, "--datatype", "hashed", "--debug"])
        shown = capsys.readouterr()
        if code == 1:
            assert shown.out == ""
            complaints.append(shown.err)
    assert complaints
    for complaint in complaints:
        assert complaint.startswith("creek: operation tag('")
        assert "of hashed is not deterministic: it answered ('" in complaint
        assert "; in another process, with PYTHONHASHSEED=" in complaint
        assert "sorted(...) for the order of a set" in complaint
        assert len(complaint.splitlines()) == 1


@pytest.mark.usefixtures("wrong_datatypes")
def test_an_operation_that_looks_at_the_clock_is_named_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*SHORT, "--datatype", "clocked", "--debug"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("creek: operation stamp() of clocked is not deterministic: ")
    assert "executed again on the same state" in complaint


def test_the_fuzzer_finds_nothing_in_sound_data_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--seeds", "2", "--jobs", "1", "--debug"]) == 0
    assert "0 failed" in capsys.readouterr().out


def test_the_fuzzer_names_an_operation_and_how_to_replay_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = datatypes.DataType("any")
    for datatype in datatypes.DATATYPES.values():
        for name in set(datatype.operations) - set(clocked.operations):
            clocked.operation(name=name)(lambda tx, *arguments: hash_seed_types.stamp(tx))
    broken = dict.fromkeys(datatypes.DATATYPES, clocked)
    monkeypatch.setattr(datatypes, "DATATYPES", broken)
    assert main(["fuzz", "--seeds", "1", "--jobs", "1", "--debug"]) == 1
    shown = capsys.readouterr()
    assert "is not deterministic" in shown.err
    assert "Traceback" not in shown.err
    assert "simulate --replay 0 --debug" in shown.out
