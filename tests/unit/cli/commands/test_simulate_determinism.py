"""`--debug` detects nondeterministic operations and names them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from creekdb import datatypes
from creekdb.cli import main
from creekdb.cli.options import CommandLimits
from tests.unit.cli import nondeterministic_types

ROOT = Path(__file__).parents[4]
SHORT = ["simulate", "--duration", "100ms", "--replicas", "3"]


@pytest.fixture
def nondeterministic_datatypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the data types here, and in child processes, which import `sitecustomize`."""
    (tmp_path / "sitecustomize.py").write_text(
        "from tests.unit.cli import nondeterministic_types\nnondeterministic_types.register()\n"
    )
    for directory in (ROOT, tmp_path):
        monkeypatch.setenv("PYTHONPATH", str(directory), prepend=os.pathsep)
    with nondeterministic_types.registered():
        yield


@pytest.mark.parametrize("scheme", ["basic", "creek"])
def test_debug_mode_accepts_a_deterministic_data_type_and_leaves_measures_unchanged(
    scheme: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*SHORT, "--scheme", scheme, "--datatype", "kv", "--json"]
    assert main(options) == main([*options, "--debug"]) == 0
    plain, debugged = map(json.loads, capsys.readouterr().out.splitlines())
    assert plain == debugged


def test_debug_mode_prints_the_number_of_executions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--debug"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(
        "executions, repeated twice, once in another process: all operations are deterministic"
    )
    assert int(last.split()[0]) > 10


@pytest.mark.usefixtures("nondeterministic_datatypes")
def test_an_operation_that_depends_on_the_hash_seed_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*SHORT, "--datatype", "hashed"]) == 0
    capsys.readouterr()
    # At least one of three other hash seeds gives another iteration order.
    errors = []
    for seeds in (("1", "2"), ("3", "4"), ("5", "6")):
        limits = CommandLimits(hash_seeds=seeds)
        code = main([*SHORT, "--datatype", "hashed", "--debug"], limits)
        shown = capsys.readouterr()
        if code == 1:
            assert shown.out == ""
            errors.append(shown.err)
    assert errors
    for error in errors:
        assert error.startswith("creek: operation tag('")
        assert "of hashed is not deterministic: it returned ('" in error
        assert "; in another process, with PYTHONHASHSEED=" in error
        assert "sorted(...) for the order of a set" in error
        assert len(error.splitlines()) == 1


@pytest.mark.usefixtures("nondeterministic_datatypes")
def test_an_operation_that_reads_the_clock_is_named_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*SHORT, "--datatype", "clocked", "--debug"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("creek: operation stamp() of clocked is not deterministic: ")
    assert "executed again on the same state" in error


def test_the_fuzzer_accepts_deterministic_data_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--seeds", "2", "--jobs", "1", "--debug"]) == 0
    assert "0 failed" in capsys.readouterr().out


def test_the_fuzzer_names_a_nondeterministic_operation_and_its_replay_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = datatypes.DataType("any")
    for datatype in datatypes.DATATYPES.values():
        for name in set(datatype.operations) - set(clocked.operations):
            clocked.operation(name=name)(lambda tx, *arguments: nondeterministic_types.stamp(tx))
    for name in datatypes.DATATYPES:
        monkeypatch.setitem(datatypes.DATATYPES, name, clocked)
    assert main(["fuzz", "--seeds", "1", "--jobs", "1", "--debug"]) == 1
    shown = capsys.readouterr()
    assert "is not deterministic" in shown.err
    assert "Traceback" not in shown.err
    assert "simulate --replay 0 --debug" in shown.out
