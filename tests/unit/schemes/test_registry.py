"""Registry: one file with a `SchemeSpec` adds a scheme to the fuzzer, simulations and charts."""

import json

import pytest
from msgspec.structs import replace

from creekdb import datatypes
from creekdb.cli import main
from creekdb.protocol.probes import Probe
from creekdb.protocol.settings import Settings
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
