"""Weak answers wait for nobody: the watch on simulated replicas, on good ones and on bad ones."""

from typing import Any

import pytest

from creekdb.datatypes.bank import BANK
from creekdb.protocol.checkpoint.stream import IncomingMessage
from creekdb.protocol.effects import Effects
from creekdb.protocol.ids.version_vector import Dot
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.creek import CreekReplica
from creekdb.schemes.smr import SmrReplica
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.fuzz.campaign import run_seed
from creekdb.simulation.kernel.scenario import ClientModel, Scenario, ScriptedInvocation
from creekdb.simulation.models.parameters import CpuModel, DiskModel
from tests.simulation.leisure import WaitedForOthers, Watched

SEEDS = 50
SHARDS = 5


class Shy(BasicReplica):
    """Answers no one before it has heard from somebody."""

    _heard = False

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None:
        self._heard = True
        super().receive(message, sender, now)

    def take_effects(self) -> Effects:
        waiting = []
        if not self._heard:
            waiting, self._outbox.responses = self._outbox.responses, waiting
        effects = super().take_effects()
        self._outbox.responses += waiting
        self._heard = False
        return effects


class Forgetful(CreekReplica):
    """Answers no one at all."""

    def take_effects(self) -> Effects:
        self._outbox.responses.clear()
        return super().take_effects()


def alone(
    scheme: type[BasicReplica | CreekReplica], strong: bool = False, **models: Any
) -> Watched:
    """Replica 0 has clients, and is cut off from the others from before they ask until 210 ms."""
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
    return Watched(scenario, lambda index: scheme(index, settings, BANK))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_in_no_seed_of_creek_an_answer_waits_for_others(shard: int) -> None:
    for seed in range(shard, SEEDS, SHARDS):
        finding = run_seed(seed, "both")
        assert not finding.has_failed, f"seed {seed}: {finding.describe()}"


@pytest.mark.parametrize("scheme", [BasicReplica, CreekReplica])
@pytest.mark.parametrize("strong", [False, True])
def test_who_is_alone_answers_and_idles(
    scheme: type[BasicReplica | CreekReplica], strong: bool
) -> None:
    simulation = alone(scheme, strong=strong)
    run = simulation.run()

    assert simulation.looks > 0
    assert all(each.answers[0].at_us < 30_000 for each in run.history.operations)


@pytest.mark.parametrize("scheme", [BasicReplica, CreekReplica])
def test_what_takes_its_own_time_waits_for_nobody(
    scheme: type[BasicReplica | CreekReplica],
) -> None:
    """One operation after the other, a slow disk, and turns that end late."""
    simulation = alone(
        scheme,
        turn_us=3_000,
        disk=DiskModel(fsync_us_min=20_000, fsync_us_max=20_000),
        cpu=CpuModel(cores=1, execution_us=15_000),
    )
    run = simulation.run()

    assert simulation.looks > 0
    assert all(each.answers[0].at_us > 38_000 for each in run.history.operations)


@pytest.mark.parametrize("scheme", [Shy, Forgetful])
@pytest.mark.parametrize("strong", [False, True])
def test_who_has_nothing_to_do_and_did_not_answer_is_caught(
    scheme: type[BasicReplica | CreekReplica], strong: bool
) -> None:
    strength = "strong" if strong else "weak"
    with pytest.raises(WaitedForOthers, match=f"had not answered the {strength} {Dot(0, 1)} of 20"):
        alone(scheme, strong=strong).run()


def test_where_no_answer_is_tentative_nobody_is_watched() -> None:
    simulation = alone(SmrReplica)
    run = simulation.run()

    assert simulation.looks == 0
    assert all(each.answers[0].at_us > 210_000 for each in run.history.operations)
