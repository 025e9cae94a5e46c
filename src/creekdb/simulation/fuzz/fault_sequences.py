"""Plays: faults in an order that a random mix hardly ever finds, and settings that go with them.

A random mix is good at surprises and bad at sequences: that a leader is cut off in the middle of a
burst, that a replica tells its last secret and dies, that two majorities take turns and those who
are in both forget in between. Each play is one such sequence, with everything else left to chance.
Times are counted in ticks, since that is how the protocol counts its patience.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple, TypeAlias

from creekdb.simulation.faults.fault_types import (
    Crash,
    Cut,
    Die,
    Fault,
    Heal,
    Loss,
    Partition,
    Restart,
    Sever,
    SlowCpu,
)

SEQUENCE_REPLICAS_MIN = 3


class FaultSequence(NamedTuple):
    faults: tuple[Fault, ...]
    settings: dict[str, int]
    strong_share: float
    client_speedup: int
    """How many times faster than usual clients ask."""


class _SequenceBuilder:
    """A play while it is written."""

    def __init__(self, random: Random, replicas: int, tick_us: int, duration_us: int) -> None:
        self.random = random
        self.replicas = replicas
        self.tick_us = tick_us
        self.duration_us = duration_us
        self.majority = replicas // 2 + 1
        self.faults: list[Fault] = []
        self.settings: dict[str, int] = {}
        self.client_speedups: tuple[int, ...] = (1, 4)
        self.now_us = random.randrange(duration_us // 4 + 1)

    def wait(self, ticks_min: int, ticks_max: int) -> None:
        self.now_us += self.random.randint(ticks_min * self.tick_us, ticks_max * self.tick_us)

    def has_time_left(self) -> bool:
        return self.now_us < self.duration_us

    def shuffle_replicas(self) -> list[int]:
        return self.random.sample(range(self.replicas), self.replicas)

    def partition(self, side: list[int]) -> None:
        rest = tuple(each for each in range(self.replicas) if each not in side)
        self.faults.append(Partition(self.now_us, (tuple(side), rest)))

    def crash_and_restart(self, replica: int, ticks_max: int = 2) -> None:
        """And restart it some time later."""
        writing = self.random.random() < 0.3
        back_us = self.now_us + self.random.randint(1, ticks_max * self.tick_us)
        self.faults += [Crash(self.now_us, replica, writing=writing), Restart(back_us, replica)]

    def set_loss(self, *probabilities: float) -> None:
        self.faults.append(Loss(self.now_us, self.random.choice(probabilities)))


_SequenceWriter: TypeAlias = Callable[[_SequenceBuilder], None]


def draw_fault_sequence(
    random: Random, replicas: int, tick_us: int, duration_us: int
) -> FaultSequence:
    """One of the plays, for at least `PLAYERS_MIN` replicas."""
    script = _SequenceBuilder(random, replicas, tick_us, duration_us)
    random.choice(_SEQUENCES)(script)
    faults = sorted(script.faults, key=lambda fault: fault.at_us)
    strong_share, haste = random.choice((0.6, 1.0)), random.choice(script.client_speedups)
    return FaultSequence(tuple(faults), script.settings, strong_share, haste)


def _alternate_majorities(script: _SequenceBuilder) -> None:
    """Two majorities that share as few replicas as can be; these restart at each turn."""
    order = script.shuffle_replicas()
    sides = [order[: script.majority], order[-script.majority :]]
    shared = [each for each in sides[0] if each in sides[1]]
    script.settings = {"batch_limit": 1, "checkpoint_every": script.random.choice((1, 1, 5))}
    script.set_loss(0.0, 0.1, 0.3)
    while script.has_time_left():
        for side in sides:
            script.partition(side)
            script.wait(12, 30)
            for each in shared:
                script.crash_and_restart(each)
    script.faults.append(Loss(script.duration_us, 0.0))


def _isolate_leader(script: _SequenceBuilder) -> None:
    """Whoever leads is cut off in the middle of a burst, some of it lost, until others lead: first
    the first of all, and then the first of those who are left."""
    script.settings = {"batch_limit": 1, "window": 32}
    script.client_speedups = (4, 20, 20)
    script.now_us, leader = 0, 0
    while script.has_time_left():
        script.set_loss(0.1, 0.3, 0.5)
        script.wait(2, 10)
        rest = [each for each in range(script.replicas) if each != leader]
        side = [leader, *script.random.sample(rest, script.random.randint(0, script.majority - 2))]
        script.partition(side)
        script.wait(14, 30)
        script.faults.append(Heal(script.now_us))
        leader = min(each for each in rest if each not in side)


def _die_after_promise(script: _SequenceBuilder) -> None:
    """A replica that knows what others do not tells one of them that it does, and dies."""
    order = (
        script.shuffle_replicas() if script.random.random() < 0.3 else list(range(script.replicas))
    )
    secretive, *others = order
    accomplices = others[: -script.random.randint(1, script.majority - 1)]
    heir = min(each for each in others if each not in accomplices)
    others.remove(heir)
    script.settings = {"batch_limit": 1, "window": 32, "summary_ticks": 60, "stuck_ticks": 16}
    script.client_speedups = (1, 4, 20)
    script.wait(0, 10)
    script.partition([secretive, *accomplices] if script.random.random() < 0.7 else [secretive])
    script.set_loss(0.0, 0.3, 0.5)
    script.wait(15, 40)
    script.faults.append(Heal(script.now_us))
    script.faults += [Cut(script.now_us, each, secretive) for each in others]
    if script.random.random() < 0.5:
        script.faults += [Cut(script.now_us, secretive, each) for each in others]
    for each in accomplices:
        if script.random.random() < 0.7:
            script.crash_and_restart(each, ticks_max=80)
    script.faults.append(Die(script.now_us, secretive, telling=script.random.random() < 0.8))
    script.wait(20, 40)
    script.faults += [Heal(script.now_us), Loss(script.now_us, 0.0)]


def _sever_minority_links(script: _SequenceBuilder) -> None:
    """Links of a minority break one way and stay so; each of it still has someone to talk to."""
    order = script.shuffle_replicas()
    core, rim = order[: script.majority], order[script.majority :]
    for each in rim:
        friend = script.random.choice(core)
        for other in range(script.replicas):
            if other not in (each, friend):
                way = (each, other) if script.random.random() < 0.5 else (other, each)
                if script.random.random() < 0.7:
                    script.faults.append(Sever(script.now_us, *way))


def _restart_slow_replica(script: _SequenceBuilder) -> None:
    """A replica that executes far behind what it delivers restarts after each checkpoint or so."""
    slow = script.random.randrange(script.replicas)
    script.settings = {"batch_limit": 1, "checkpoint_every": 5}
    factor = script.random.choice((30.0, 100.0, 1000.0))
    script.faults.append(SlowCpu(0, slow, script.duration_us, factor))
    while script.has_time_left():
        script.wait(8, 30)
        script.crash_and_restart(slow)


_SEQUENCES: tuple[_SequenceWriter, ...] = (
    _alternate_majorities,
    _alternate_majorities,
    _isolate_leader,
    _die_after_promise,
    _sever_minority_links,
    _restart_slow_replica,
)
