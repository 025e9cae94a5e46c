"""Staged rows and their ledgers in simulated clusters with faults, judged by every checker."""

from random import Random
from typing import Any

import pytest

from creekdb.checkers import Illegal, Ok, check_all
from creekdb.datatypes import kv
from creekdb.execution.datatype import DataType
from creekdb.schemes import registry
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun
from creekdb.wire.staging import (
    APPLY,
    CLEAR_REJECTED,
    DISCARD,
    LOAD,
    READ_LEDGER,
    READ_REJECTED,
    STAGE,
    expire_staged,
)

SEEDS_PER_SCHEME = 5
SINKS = ("s", "~t")
TOKENS = ("u", "v", "w")


def sample(random: Random) -> tuple[str, tuple[Any, ...]]:
    """Draw an operation of sinks, of few tokens and batches, or one of the key-value store."""
    kind, token, sink = random.random(), random.choice(TOKENS), random.choice(SINKS)
    batch = random.randrange(4)
    rows = tuple((random.choice("ab"), random.randrange(1, 3)) for _ in range(3))
    if kind < 0.25:
        return STAGE, (token, random.randrange(2), "increment", (), rows, ((("x",), "refused"),))
    if kind < 0.6:
        plan = tuple((each, random.randrange(1, 3)) for each in random.sample(TOKENS, 2))
        atomic, keeps = random.random() < 0.2, random.random() < 0.5
        return APPLY, (sink, random.choice(("", "q")), batch, plan, 4, atomic, keeps)
    if kind < 0.65:
        return LOAD, ("put", (), rows)
    if kind < 0.7:
        return DISCARD, (token, 0, 2)
    if kind < 0.75:
        expiry = expire_staged(random.choice((1, 10**15)))
        return expiry.name, expiry.arguments
    if kind < 0.8:
        return READ_LEDGER, (sink,)
    if kind < 0.85:
        return READ_REJECTED, (sink, 3)
    if kind < 0.9:
        return CLEAR_REJECTED, (sink, batch, 1)
    return kv.sample(random)


def run_seed(seed: int, scheme: str, datatype: DataType) -> SimulationRun:
    scenario = scenario_from_seed(seed, scheme)
    make, settings = registry.get_scheme(scheme), scenario.protocol_settings()
    run = Simulation(scenario, lambda index: make(index, settings, datatype), sample).run()
    assert run.quiescence_failure is None, f"seed {seed}: {run.quiescence_failure}"
    return run


@pytest.mark.parametrize("scheme", ["basic", "creek", "smr"])
def test_replicas_agree_on_staged_rows_under_faults(scheme: str) -> None:
    datatype = DeduplicatingDataType(kv.KV)
    applications = 0
    for seed in range(SEEDS_PER_SCHEME):
        run = run_seed(seed, scheme, datatype)
        verdicts = check_all(run.history, datatype)
        illegal = [each.describe() for each in verdicts if isinstance(each, Illegal)]
        assert not illegal, f"seed {seed}: {illegal[0]}"
        assert any(isinstance(each, Ok) for each in verdicts)
        applications += sum(each.operation.name == APPLY for each in run.history.operations)
    assert applications > 20
