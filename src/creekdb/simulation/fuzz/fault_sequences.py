"""Fault sequences that a random mix hardly ever contains, with matching settings.

A random mix is good at surprises and bad at sequences, such as

- a leader that is isolated in the middle of a burst,
- a replica that dies right after a promise,
- two majorities that alternate while the replicas in both restart.

Each function draws one such sequence and leaves the rest to chance. Times are in ticks, the unit of
the protocol's timeouts.
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
    """Factor on the rate of the clients."""


class _SequenceBuilder:
    """Collects the faults of a sequence in the order of time."""

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
        """Crash the replica now and restart it up to `ticks_max` ticks later."""
        writing = self.random.random() < 0.3
        restart_us = self.now_us + self.random.randint(1, ticks_max * self.tick_us)
        self.faults += [Crash(self.now_us, replica, writing=writing), Restart(restart_us, replica)]

    def set_loss(self, *probabilities: float) -> None:
        self.faults.append(Loss(self.now_us, self.random.choice(probabilities)))


_SequenceWriter: TypeAlias = Callable[[_SequenceBuilder], None]


def draw_fault_sequence(
    random: Random, replicas: int, tick_us: int, duration_us: int
) -> FaultSequence:
    """Draw one of the sequences, for at least `SEQUENCE_REPLICAS_MIN` replicas."""
    builder = _SequenceBuilder(random, replicas, tick_us, duration_us)
    random.choice(_SEQUENCES)(builder)
    faults = sorted(builder.faults, key=lambda fault: fault.at_us)
    strong_share, client_speedup = random.choice((0.6, 1.0)), random.choice(builder.client_speedups)
    return FaultSequence(tuple(faults), builder.settings, strong_share, client_speedup)


def _alternate_majorities(builder: _SequenceBuilder) -> None:
    """Alternate between two majorities with a minimal overlap; the replicas in both restart."""
    order = builder.shuffle_replicas()
    majorities = [order[: builder.majority], order[-builder.majority :]]
    shared = [each for each in majorities[0] if each in majorities[1]]
    builder.settings = {"batch_limit": 1, "checkpoint_every": builder.random.choice((1, 1, 5))}
    builder.set_loss(0.0, 0.1, 0.3)
    while builder.has_time_left():
        for side in majorities:
            builder.partition(side)
            builder.wait(12, 30)
            for each in shared:
                builder.crash_and_restart(each)
    builder.faults.append(Loss(builder.duration_us, 0.0))


def _isolate_leader(builder: _SequenceBuilder) -> None:
    """Isolate the leader in the middle of a burst, with message loss, until another one leads.

    The first leader is replica 0; the next is the lowest replica that was not isolated.
    """
    builder.settings = {"batch_limit": 1, "window": 32}
    builder.client_speedups = (4, 20, 20)
    builder.now_us, leader = 0, 0
    while builder.has_time_left():
        builder.set_loss(0.1, 0.3, 0.5)
        builder.wait(2, 10)
        rest = [each for each in range(builder.replicas) if each != leader]
        side = [
            leader,
            *builder.random.sample(rest, builder.random.randint(0, builder.majority - 2)),
        ]
        builder.partition(side)
        builder.wait(14, 30)
        builder.faults.append(Heal(builder.now_us))
        leader = min(each for each in rest if each not in side)


def _die_after_promise(builder: _SequenceBuilder) -> None:
    """A replica that alone has some decisions reports them to one other replica and dies."""
    order = (
        builder.shuffle_replicas()
        if builder.random.random() < 0.3
        else list(range(builder.replicas))
    )
    informed, *others = order
    informed_peers = others[: -builder.random.randint(1, builder.majority - 1)]
    new_leader = min(each for each in others if each not in informed_peers)
    others.remove(new_leader)
    builder.settings = {"batch_limit": 1, "window": 32, "summary_ticks": 60, "stuck_ticks": 16}
    builder.client_speedups = (1, 4, 20)
    builder.wait(0, 10)
    builder.partition([informed, *informed_peers] if builder.random.random() < 0.7 else [informed])
    builder.set_loss(0.0, 0.3, 0.5)
    builder.wait(15, 40)
    builder.faults.append(Heal(builder.now_us))
    builder.faults += [Cut(builder.now_us, each, informed) for each in others]
    if builder.random.random() < 0.5:
        builder.faults += [Cut(builder.now_us, informed, each) for each in others]
    for each in informed_peers:
        if builder.random.random() < 0.7:
            builder.crash_and_restart(each, ticks_max=80)
    builder.faults.append(Die(builder.now_us, informed, telling=builder.random.random() < 0.8))
    builder.wait(20, 40)
    builder.faults += [Heal(builder.now_us), Loss(builder.now_us, 0.0)]


def _sever_minority_links(builder: _SequenceBuilder) -> None:
    """Sever links of a minority in one direction; each of its replicas keeps one working peer."""
    order = builder.shuffle_replicas()
    majority, minority = order[: builder.majority], order[builder.majority :]
    for each in minority:
        connected_peer = builder.random.choice(majority)
        for other in range(builder.replicas):
            if other not in (each, connected_peer):
                link = (each, other) if builder.random.random() < 0.5 else (other, each)
                if builder.random.random() < 0.7:
                    builder.faults.append(Sever(builder.now_us, *link))


def _restart_slow_replica(builder: _SequenceBuilder) -> None:
    """Restart a replica, whose execution lags far behind its delivery, about every checkpoint."""
    slow = builder.random.randrange(builder.replicas)
    builder.settings = {"batch_limit": 1, "checkpoint_every": 5}
    factor = builder.random.choice((30.0, 100.0, 1000.0))
    builder.faults.append(SlowCpu(0, slow, builder.duration_us, factor))
    while builder.has_time_left():
        builder.wait(8, 30)
        builder.crash_and_restart(slow)


_SEQUENCES: tuple[_SequenceWriter, ...] = (
    _alternate_majorities,
    _alternate_majorities,
    _isolate_leader,
    _die_after_promise,
    _sever_minority_links,
    _restart_slow_replica,
)
