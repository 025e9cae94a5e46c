"""Registry: one file with a `SchemeSpec` adds a scheme to the fuzzer, simulations and charts."""

import inspect
import json
import re

import pytest
from msgspec.structs import replace

from creekdb import datatypes
from creekdb.cli import main
from creekdb.protocol.consensus import fast_path, fast_quorums, proposal_queue
from creekdb.protocol.extensions import EXTENDED_SCHEMES, EXTENSION_PROBES, EXTENSIONS
from creekdb.protocol.probes import Probe
from creekdb.protocol.settings import Settings
from creekdb.protocol.stack import ProtocolStack
from creekdb.schemes import registry
from tests.unit.schemes import toy_scheme


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    spec = toy_scheme.SPEC
    monkeypatch.setitem(registry.SCHEMES, spec.name, spec)
    return spec.name


@pytest.mark.parametrize("scheme", sorted(registry.SCHEMES))
def test_replicas_have_the_guarantees_of_their_scheme(scheme: str) -> None:
    spec = registry.get_spec(scheme)
    replica = spec.create(0, Settings(members=(0, 1, 2)), datatypes.get_datatype("kv"))

    assert replace(replica.guarantees, voters=()) == spec.guarantees
    assert spec.description


@pytest.mark.parametrize(
    "code",
    [
        fast_path,
        fast_quorums,
        proposal_queue.DeadlineQueue,
        ProtocolStack._on_removed_member_message,
        ProtocolStack._on_unknown_member_message,
    ],
    ids=lambda code: code.__name__.rpartition(".")[2],
)
def test_schemes_without_contexts_reach_no_probe_of_code_that_contexts_require(
    code: object,
) -> None:
    """Without contexts, no request is held, no first vote is cast and the members stay the same."""
    names = re.findall(r"Probe\.([A-Z_]+)", inspect.getsource(code))  # type: ignore[arg-type]
    probes = {Probe[name] for name in names}
    assert probes, "the code has no probe"
    for name, spec in registry.SCHEMES.items():
        if not spec.guarantees.contexts:
            assert probes.isdisjoint(registry.reachable_probes(name)), name


def test_every_extension_has_probes_that_schemes_with_extensions_reach() -> None:
    assert EXTENSION_PROBES.keys() == EXTENSIONS.keys()
    probes = {probe for probes in EXTENSION_PROBES.values() for probe in probes}
    for scheme in EXTENDED_SCHEMES:
        assert probes <= set(registry.reachable_probes(scheme))


def test_the_fuzzer_runs_an_added_scheme(toy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--scheme", toy, "--seeds", "2", "--jobs", "1", "--json"]) == 0
    score = json.loads(capsys.readouterr().out)
    assert score["seeds"] == 2

    assert Probe.RUN_MERGED not in registry.reachable_probes(toy)
    assert Probe.ROLLED_BACK in registry.reachable_probes(toy)


def test_a_simulation_runs_an_added_scheme(toy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--scheme", toy, "--duration", "100ms"]) == 0
    assert capsys.readouterr().out


def test_charts_draw_an_added_scheme_in_its_colours(toy: str) -> None:
    pytest.importorskip("altair")
    from creekdb.pipeline.report.charts import curves, theme  # noqa: PLC0415

    assert theme.colours([toy], dark=False)[f"scheme-{toy}"] == "#123456"
    assert theme.colours([toy], dark=True)[f"scheme-{toy}"] == "#abcdef"
    systems = curves.systems_of([toy])
    assert [line.label for line in curves.latency_lines(systems)] == [
        "Toy, weak first response",
        "Toy, strong stable",
    ]
    (line,) = curves.system_lines(systems, "accuracy")
    assert (line.label, line.shape) == ("Toy", "cross")


def test_a_spec_of_a_user_module_is_loaded_by_its_path() -> None:
    assert registry.get_spec("tests.unit.schemes.toy_scheme:SPEC") is toy_scheme.SPEC
