import json
import re
import shlex

import pytest

from creekdb.cli import main
from creekdb.cli.commands import fuzz
from creekdb.schemes import registry
from tests.unit.cli.nondeterministic_types import Lying, Moody, Raising


def test_a_few_seeds_pass_and_probes_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--seeds", "3", "--jobs", "1"]) == 0

    shown = capsys.readouterr()
    assert "3 seeds" in shown.out
    assert "0 failed" in shown.out
    assert "1 seed run twice" in shown.out
    assert re.search(r"\d+ of \d+ probes fired, fine below 2000 seeds; --verbose", shown.out)
    assert "a request was rolled back" not in shown.out
    assert shown.err == ""


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--from", "7", "--seeds", "2", "--jobs", "1", "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert (shown["from"], shown["seeds"], shown["failures"]) == (7, 2, [])
    assert shown["never_fired"] == [name for name, count in shown["probes"].items() if not count]


@pytest.mark.parametrize(
    ("scheme", "found"),
    [
        (Raising, "RuntimeError: a bug in the replica"),
        (Lying, "ILLEGAL  convergence: the states differ under 'lie'"),
    ],
)
def test_a_failing_seed_prints_why_and_the_command_that_replays_it(
    scheme: registry.Scheme,
    found: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry.SCHEMES, "wrong", scheme)

    assert main(["fuzz", "--scheme", "wrong", "--from", "1", "--seeds", "1", "--jobs", "1"]) == 1
    shown = capsys.readouterr()
    assert found in shown.err
    (replay,) = [line for line in shown.err.splitlines() if line.startswith("replay it: ")]
    assert replay in shown.out
    command = shlex.split(replay)
    assert main(command[command.index("simulate") :]) == 1
    replayed = capsys.readouterr()
    assert found in replayed.out + replayed.err


def test_a_seed_that_is_another_run_the_second_time_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.SCHEMES, "moody", Moody)

    assert main(["fuzz", "--scheme", "moody", "--from", "50", "--seeds", "1", "--jobs", "1"]) == 1
    assert "not repeatable" in capsys.readouterr().err


def test_with_many_seeds_a_probe_that_never_fires_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "PROBES_FROM", 2)

    assert main(["fuzz", "--seeds", "2", "--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "0 failed" in shown
    assert "never  a leader gave up" in shown
    assert "a hole in the test" in shown


def test_help_states_how_many_seeds_must_reach_every_probe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["fuzz", "--help"])

    assert f"with {fuzz.PROBES_REQUIRED_SEEDS} seeds or more" in capsys.readouterr().out


def test_verbose_tells_the_scenario_of_each_seed_and_lists_the_probes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fuzz", "--from", "291", "--seeds", "1", "--jobs", "1", "--verbose"]) == 0

    shown = capsys.readouterr().out
    assert "seed 291" in shown
    assert "faults   " in shown
    assert "a request was rolled back" in shown
    assert "--verbose" not in shown
    assert shown.splitlines()[-1].endswith("fine below 2000 seeds"), "the summary comes last"
    assert not any(line.endswith(" ") for line in shown.splitlines())
