"""The idle watch accepts correct replicas and detects replicas that delay first responses."""

from typing import Any

import pytest

from creekdb.datatypes.bank import BANK
from creekdb.protocol.checkpoint.stream import IncomingMessage
from creekdb.protocol.effects import Effects
from creekdb.protocol.ids.version_vector import Dot
from creekdb.schemes import smr
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.spec import Scheme
from creekdb.schemes.creek import CreekReplica
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.fuzz.campaign import run_seed
from creekdb.simulation.kernel.scenario import ClientModel, Scenario, ScriptedInvocation
from creekdb.simulation.models.parameters import CpuModel, DiskModel
from tests.simulation.idle_watch import IdleWithPendingResponse, WatchedSimulation

SEEDS = 50
SHARDS = 5


class RespondsAfterMessage(BasicReplica):
    """Withholds responses until it has received a message."""

    _has_received = False

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None:
        self._has_received = True
        super().receive(message, sender, now)

    def take_effects(self) -> Effects:
        withheld = []
        if not self._has_received:
            withheld, self.outbox.responses = self.outbox.responses, withheld
        effects = super().take_effects()
        self.outbox.responses += withheld
        self._has_received = False
        return effects


class NeverResponds(CreekReplica):
    """Never responds."""

    def take_effects(self) -> Effects:
        self.outbox.responses.clear()
        return super().take_effects()


def partitioned_simulation(
    scheme: Scheme, strong: bool = False, **models: Any
) -> WatchedSimulation:
    """Replica 0 has clients, and is partitioned from the others before their calls until 210 ms."""
    scenario = Scenario(
        datatype="bank",
        replicas=3,
        duration_us=300_000,
        clients=ClientModel(sessions=0),
        faults=parse_faults("partition 0|1,2 at 10ms; heal at 210ms"),
        script=tuple(
            ScriptedInvocation(20_000 + 100 * each, 0, BANK.call("deposit", "ann", 1), strong, each)
            for each in range(5)
        ),
        **models,
    )
    settings = scenario.protocol_settings()
    return WatchedSimulation(scenario, lambda index: scheme(index, settings, BANK))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_first_responses_wait_for_no_other_replica_in_any_seed(shard: int) -> None:
    for seed in range(shard, SEEDS, SHARDS):
        result = run_seed(seed, "differential")
        assert not result.has_failed, f"seed {seed}: {result.describe()}"


@pytest.mark.parametrize("scheme", [BasicReplica, CreekReplica])
@pytest.mark.parametrize("strong", [False, True])
def test_an_isolated_replica_responds_and_becomes_idle(
    scheme: type[BasicReplica | CreekReplica], strong: bool
) -> None:
    simulation = partitioned_simulation(scheme, strong=strong)
    run = simulation.run()

    assert simulation.idle_observations > 0
    assert all(each.responses[0].at_us < 30_000 for each in run.history.operations)


@pytest.mark.parametrize("scheme", [BasicReplica, CreekReplica])
def test_local_delays_do_not_count_as_idle(
    scheme: type[BasicReplica | CreekReplica],
) -> None:
    """Sequential execution, a slow disk and long turns."""
    simulation = partitioned_simulation(
        scheme,
        turn_us=3_000,
        disk=DiskModel(fsync_us_min=20_000, fsync_us_max=20_000),
        cpu=CpuModel(cores=1, execution_us=15_000),
    )
    run = simulation.run()

    assert simulation.idle_observations > 0
    assert all(each.responses[0].at_us > 38_000 for each in run.history.operations)


@pytest.mark.parametrize("scheme", [RespondsAfterMessage, NeverResponds])
@pytest.mark.parametrize("strong", [False, True])
def test_an_idle_replica_without_a_first_response_is_detected(
    scheme: type[BasicReplica | CreekReplica], strong: bool
) -> None:
    strength = "strong" if strong else "weak"
    with pytest.raises(
        IdleWithPendingResponse, match=f"without a response to the {strength} {Dot(0, 1)} of 20"
    ):
        partitioned_simulation(scheme, strong=strong).run()


def test_schemes_without_tentative_responses_are_not_watched() -> None:
    simulation = partitioned_simulation(smr.create_replica)
    run = simulation.run()

    assert simulation.idle_observations == 0
    assert all(each.responses[0].at_us > 210_000 for each in run.history.operations)
