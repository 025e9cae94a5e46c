"""Trace hashes of a few runs with all extensions off.

They change only if the paper's Creek, or one of the systems beside it, behaves differently. So a
change of a default is noticed, and so is an extension that has an effect while it is off.
"""

import pytest

from creekdb.evaluation import Experiment, build_simulation
from creekdb.schemes import registry
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.fuzz.campaign import build_fuzz_simulation
from creekdb.simulation.kernel.scenario import ClientModel, Scenario

FAULTS = parse_faults(
    "crash 2 at 60ms; restart 2 at 120ms; partition 0|1,2 at 150ms; heal at 200ms"
)
RUNS = {
    ("basic", 0): "c4d36dbf8cca334430b83e986bb39205",
    ("basic", 1): "5398a16750e45c4df5e2936767be91c1",
    ("creek", 0): "688f9bad68c894dbc6b735aa8b70cbc3",
    ("creek", 1): "f9b31d57720f3a7e7904888de7e8e5de",
    ("smr", 0): "2ee98c363f5c526237a2005d8bc5dacc",
    ("smr", 1): "820a905eee3201cff3b4714c04e41e02",
    ("bayou", 0): "d6a2aca2fcb0d3415c99f1f2aa7290d3",
    ("bayou", 1): "2ce396b74c5f0361abda877fa3a318c5",
    ("archie", 0): "4f5fad60d7c22946eeacda1326fba48d",
    ("archie", 1): "95a546e10e7f5536f8b505e96e960951",
}
MEASUREMENTS = {
    "creek": "9cde96632f3837f6ec772e7b1b218ddc",
    "archie": "cdcc5012713b653d0465665f1e8de83e",
}


@pytest.mark.parametrize(("scheme", "seed"), RUNS)
def test_a_run_with_default_settings_has_its_trace_hash(scheme: str, seed: int) -> None:
    scenario = Scenario(
        seed=seed,
        scheme=scheme,
        datatype="kv",
        replicas=3,
        duration_us=250_000,
        clients=ClientModel(sessions=2, think_us=10_000, strong_share=0.3),
        faults=FAULTS,
    )

    assert build_fuzz_simulation(scenario).run().trace_hash == RUNS[scheme, seed]


def test_every_scheme_has_trace_hashes() -> None:
    assert {scheme for scheme, _ in RUNS} | {"differential"} == set(registry.BUILT_IN)


@pytest.mark.parametrize("scheme", MEASUREMENTS)
def test_a_measurement_of_the_paper_has_its_trace_hash(scheme: str) -> None:
    experiment = Experiment(
        scheme=scheme, warehouses=1, load_tps=5_000, duration_us=20_000, replicas=3
    )

    run = build_simulation(experiment.to_scenario()).run()

    assert run.trace_hash == MEASUREMENTS[scheme]
