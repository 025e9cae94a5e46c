import json
import re
import shlex

import pytest

from creekdb.cli import main
from creekdb.cli.options import CommandLimits
from creekdb.execution.datatype import DataType
from creekdb.protocol.extensions import EXTENSION_PROBES, EXTENSIONS, extension_switches
from creekdb.protocol.settings import Settings
from creekdb.schemes import registry
from creekdb.schemes.core.spec import Scheme, SchemeSpec
from tests.unit.cli.faulty_schemes import Diverging, Nondeterministic, Raising


def test_a_few_seeds_pass_and_probes_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--seeds", "3", "--jobs", "1"]) == 0

    shown = capsys.readouterr()
    assert "3 seeds" in shown.out
    assert "0 failed" in shown.out
    assert "1 seed repeated" in shown.out
    assert re.search(r"\d+ of \d+ probes fired, sufficient below 2000 seeds; --verbose", shown.out)
    assert "a request was rolled back" not in shown.out
    assert shown.err == ""


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--from", "7", "--seeds", "2", "--jobs", "1", "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert (shown["from"], shown["seeds"], shown["failures"]) == (7, 2, [])
    assert shown["never_fired"] == [name for name, count in shown["probes"].items() if not count]


@pytest.mark.parametrize(
    ("scheme", "failure"),
    [
        (Raising, "RuntimeError: a bug in the replica"),
        (Diverging, "ILLEGAL  convergence: the states differ under 'lie'"),
    ],
)
def test_a_failing_seed_prints_its_failure_and_the_replay_command(
    scheme: Scheme,
    failure: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry.SCHEMES, "wrong", SchemeSpec(name="wrong", create=scheme))

    assert main(["fuzz", "--scheme", "wrong", "--from", "1", "--seeds", "1", "--jobs", "1"]) == 1
    shown = capsys.readouterr()
    assert failure in shown.err
    (replay,) = [line for line in shown.err.splitlines() if line.startswith("replay it: ")]
    assert replay in shown.out
    command = shlex.split(replay)
    assert main(command[command.index("simulate") :]) == 1
    replayed = capsys.readouterr()
    assert failure in replayed.out + replayed.err


@pytest.mark.parametrize("extensions", ["none", "estimates", "all"])
def test_extensions_replace_those_that_a_seed_draws(
    extensions: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[tuple[int, ...]] = []

    class Recording(Raising):
        def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
            used.append(tuple(getattr(settings, name) for name in EXTENSIONS))
            super().__init__(index, settings, datatype)

    monkeypatch.setitem(registry.SCHEMES, "wrong", SchemeSpec(name="wrong", create=Recording))
    options = ["--scheme", "wrong", "--extensions", extensions]

    assert main(["fuzz", *options, "--from", "1", "--seeds", "3", "--jobs", "1"]) == 1
    expected = tuple(extension_switches(extensions).values())
    assert expected in used
    replay = capsys.readouterr().err.partition("replay it: ")[2].splitlines()[0]
    names = ",".join(EXTENSIONS) if extensions == "all" else extensions
    assert replay.endswith(f"simulate --replay 1 --scheme wrong --extensions {names}")
    used.clear()
    command = shlex.split(replay)
    assert main(command[command.index("simulate") :]) == 1
    assert expected in used


def test_a_data_type_replaces_the_one_that_a_seed_draws(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: set[str] = set()

    class Recording(Raising):
        def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
            used.add(datatype.name)
            super().__init__(index, settings, datatype)

    monkeypatch.setitem(registry.SCHEMES, "wrong", SchemeSpec(name="wrong", create=Recording))
    options = ["--scheme", "wrong", "--datatype", "sql"]

    assert main(["fuzz", *options, "--seeds", "3", "--jobs", "1"]) == 1
    assert used - {"counter"} == {"sql"}  # a counter reveals the guarantees of a scheme
    replay = capsys.readouterr().err.partition("replay it: ")[2].splitlines()[0]
    assert replay.endswith("simulate --replay 0 --scheme wrong --datatype sql")
    used.clear()
    command = shlex.split(replay)
    assert main(command[command.index("simulate") :]) == 1
    assert used - {"counter"} == {"sql"}


@pytest.mark.parametrize(
    ("name", "message"),
    [("tree", "unknown data type 'tree'"), ("tests.http.argument_types:ARGUMENTS", "no random")],
)
def test_a_data_type_without_a_workload_is_refused(
    name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fuzz", "--seeds", "1", "--datatype", name]) == 2
    assert message in capsys.readouterr().err


def test_a_seed_fails_if_its_repetition_differs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        registry.SCHEMES,
        "nondeterministic",
        SchemeSpec(name="nondeterministic", create=Nondeterministic),
    )

    assert (
        main(
            ["fuzz", "--scheme", "nondeterministic", "--from", "50", "--seeds", "1", "--jobs", "1"]
        )
        == 1
    )
    assert "not repeatable" in capsys.readouterr().err


def test_with_many_seeds_a_probe_that_never_fires_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits = CommandLimits(probes_required_seeds=2)

    assert main(["fuzz", "--seeds", "2", "--jobs", "1"], limits) == 1
    shown = capsys.readouterr().out
    assert "0 failed" in shown
    assert "never  a leader abandoned" in shown
    assert "the others are branches that no run tested" in shown


@pytest.mark.parametrize("extensions", [*EXTENSIONS, "late_contexts,fast_path"])
def test_with_extensions_their_probes_must_fire(
    extensions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = CommandLimits(probes_required_seeds=1)
    command = ["fuzz", "--seeds", "1", "--jobs", "1", "--extensions", extensions]
    chosen = {probe for name in extensions.split(",") for probe in EXTENSION_PROBES[name]}

    failed = main([*command, "--json"], limits) == 1
    never_fired = set(json.loads(capsys.readouterr().out)["never_fired"])

    missing = {probe for probe in chosen if probe.name.lower() in never_fired}
    assert failed == bool(missing)
    assert len(never_fired) > len(missing), "other probes need not fire"
    main(command, limits)
    shown = capsys.readouterr().out
    assert (f"{len(missing)} of the others are branches" in shown) == failed


def test_with_a_data_type_no_probe_must_fire(capsys: pytest.CaptureFixture[str]) -> None:
    limits = CommandLimits(probes_required_seeds=1)
    options = ["--extensions", "all", "--datatype", "kv"]

    assert main(["fuzz", "--seeds", "1", "--jobs", "1", *options], limits) == 0
    assert "no run tested" not in capsys.readouterr().out


def test_help_states_the_number_of_seeds_that_must_fire_every_probe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["fuzz", "--help"])

    assert f"with {CommandLimits().probes_required_seeds} seeds or more" in capsys.readouterr().out


def test_verbose_describes_each_scenario_and_lists_the_probes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fuzz", "--from", "291", "--seeds", "1", "--jobs", "1", "--verbose"]) == 0

    shown = capsys.readouterr().out
    assert "seed 291" in shown
    assert "faults   " in shown
    assert "a request was rolled back" in shown
    assert "--verbose" not in shown
    assert shown.splitlines()[-1].endswith("sufficient below 2000 seeds"), "the summary is last"
    assert not any(line.endswith(" ") for line in shown.splitlines())
