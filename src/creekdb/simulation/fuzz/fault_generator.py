"""Random fault schedules for the fuzzer.

A mix is drawn in two steps: how hard the run is to be, sometimes not at all, and then that many
*troubles* from a table. A trouble is a few entries that make sense together, such as a crash and
the restart after it. Troubles may overlap; that is where the interesting runs are.

Random changes of members for the fuzzer: replicas are added, removed and replaced under load.

What is drawn keeps two promises. A majority of the members is alive at the end, whenever the
changes stop; and one of the first members stays and lives, for that is where those who are added
find the others.
"""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from creekdb.simulation.faults.fault_types import (
    Add,
    ClockJump,
    ClockSkew,
    Crash,
    Cut,
    Die,
    Duplication,
    Fault,
    Garbage,
    Heal,
    Loss,
    Partition,
    Remove,
    Reordering,
    Restart,
    SlowCpu,
    SlowDisk,
    Spike,
)
from creekdb.simulation.kernel.simulated_time import DAY_US

PATTERN_COUNTS = (0, 1, 2, 2, 3, 4, 6, 9)
"""How many troubles a run has; each of these is as likely."""


class _FaultContext:
    """Where troubles happen: the generator, the cluster's size and the time there is."""

    __slots__ = ("duration_us", "random", "replicas")

    def __init__(self, random: Random, replicas: int, duration_us: int) -> None:
        self.random = random
        self.replicas = replicas
        self.duration_us = duration_us

    def draw_time_us(self) -> int:
        return self.random.randrange(self.duration_us)

    def draw_duration_us(self) -> int:
        """Mostly a short while, now and then most of the run."""
        return int(self.duration_us * self.random.random() ** 2) + 1

    def draw_replica(self) -> int:
        return self.random.randrange(self.replicas)

    def draw_replicas(self) -> list[int]:
        """At least one replica, not all of them unless there is only one, in random order."""
        count = self.random.randint(1, max(1, self.replicas - 1))
        return self.random.sample(range(self.replicas), count)


FaultPattern: TypeAlias = Callable[[_FaultContext], list[Fault]]


def draw_faults(random: Random, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """A schedule within `duration_us`, in the order of time."""
    stage = _FaultContext(random, replicas, max(1, duration_us))
    troubles = _PATTERNS if replicas > 1 else _SINGLE_REPLICA_PATTERNS
    faults: list[Fault] = []
    for _ in range(random.choice(PATTERN_COUNTS)):
        faults += random.choice(troubles)(stage)
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _crash(stage: _FaultContext) -> list[Fault]:
    at_us, replica = stage.draw_time_us(), stage.draw_replica()
    return _crash_and_restart(stage, at_us, replica)


def _crash_several(stage: _FaultContext) -> list[Fault]:
    """Together, as in a power cut; often a majority, sometimes all."""
    at_us = stage.draw_time_us()
    victims = stage.draw_replicas() if stage.random.random() < 0.7 else list(range(stage.replicas))
    return [each for victim in victims for each in _crash_and_restart(stage, at_us, victim)]


def _crash_repeatedly(stage: _FaultContext) -> list[Fault]:
    replica = stage.draw_replica()
    moments = [stage.draw_time_us() for _ in range(stage.random.randint(2, 4))]
    return [each for at_us in moments for each in _crash_and_restart(stage, at_us, replica)]


def _crash_and_restart(stage: _FaultContext, at_us: int, replica: int) -> list[Fault]:
    crash = Crash(at_us, replica, writing=stage.random.random() < 0.4)
    if stage.random.random() < 0.2:
        return [crash]  # it stays away until the end
    return [crash, Restart(at_us + stage.draw_duration_us(), replica)]


def _partition(stage: _FaultContext) -> list[Fault]:
    at_us = stage.draw_time_us()
    side = sorted(stage.draw_replicas())
    rest = [each for each in range(stage.replicas) if each not in side]
    return [Partition(at_us, (tuple(side), tuple(rest))), *_maybe_heal(stage, at_us)]


def _isolate_all(stage: _FaultContext) -> list[Fault]:
    at_us = stage.draw_time_us()
    alone = tuple((each,) for each in range(stage.replicas))
    return [Partition(at_us, alone), Heal(at_us + stage.draw_duration_us())]


def _cuts(stage: _FaultContext) -> list[Fault]:
    at_us = stage.draw_time_us()
    pairs = [stage.random.sample(range(stage.replicas), 2) for _ in range(stage.replicas)]
    count = stage.random.randint(1, stage.replicas)
    cuts: list[Fault] = [Cut(at_us, sender, receiver) for sender, receiver in pairs[:count]]
    return [*cuts, *_maybe_heal(stage, at_us)]


def _cut_one_direction(stage: _FaultContext) -> list[Fault]:
    """A replica that is heard but does not hear, or the other way round."""
    at_us, replica, hears = stage.draw_time_us(), stage.draw_replica(), stage.random.random() < 0.5
    others = [each for each in range(stage.replicas) if each != replica]
    cuts: list[Fault] = [
        Cut(at_us, replica, other) if hears else Cut(at_us, other, replica) for other in others
    ]
    return [*cuts, Heal(at_us + stage.draw_duration_us())]


def _maybe_heal(stage: _FaultContext, at_us: int) -> list[Fault]:
    return [Heal(at_us + stage.draw_duration_us())] if stage.random.random() < 0.8 else []


def _loss(stage: _FaultContext) -> list[Fault]:
    at_us = stage.draw_time_us()
    probability = stage.random.choice((0.01, 0.1, 0.3, 0.8))
    return [Loss(at_us, probability), Loss(at_us + stage.draw_duration_us(), 0.0)]


def _duplication(stage: _FaultContext) -> list[Fault]:
    at_us = stage.draw_time_us()
    probability = stage.random.choice((0.05, 0.3, 1.0))
    return [Duplication(at_us, probability), Duplication(at_us + stage.draw_duration_us(), 0.0)]


def _reordering(stage: _FaultContext) -> list[Fault]:
    at_us = stage.draw_time_us()
    probability = stage.random.choice((0.05, 0.3, 1.0))
    by_us = stage.random.choice((500, 5_000, 50_000))
    return [
        Reordering(at_us, probability, by_us),
        Reordering(at_us + stage.draw_duration_us(), 0.0),
    ]


def _spike(stage: _FaultContext) -> list[Fault]:
    return [
        Spike(
            stage.draw_time_us(), stage.draw_duration_us(), stage.random.choice((3.0, 20.0, 200.0))
        )
    ]


def _clock(stage: _FaultContext) -> list[Fault]:
    at_us, replica = stage.draw_time_us(), stage.draw_replica()
    by_us = stage.random.choice((100, 10_000, 1_000_000, DAY_US)) * stage.random.choice((-1, 1))
    if stage.random.random() < 0.5:
        return [ClockJump(at_us, replica, by_us)]
    return [ClockSkew(at_us, replica, by_us)]


def _slow_disk(stage: _FaultContext) -> list[Fault]:
    by_us = stage.random.choice((1_000, 20_000, 200_000))
    return [SlowDisk(stage.draw_time_us(), stage.draw_replica(), stage.draw_duration_us(), by_us)]


def _slow_cpu(stage: _FaultContext) -> list[Fault]:
    factor = stage.random.choice((5.0, 30.0, 100.0))
    return [SlowCpu(stage.draw_time_us(), stage.draw_replica(), stage.draw_duration_us(), factor)]


def _garbage(stage: _FaultContext) -> list[Fault]:
    return [
        Garbage(
            stage.draw_time_us(), stage.draw_duration_us(), stage.random.choice((0.01, 0.1, 0.5))
        )
    ]


_SINGLE_REPLICA_PATTERNS: tuple[FaultPattern, ...] = (
    _crash,
    _crash_repeatedly,
    _clock,
    _slow_disk,
    _slow_cpu,
)
_PATTERNS: tuple[FaultPattern, ...] = (
    *_SINGLE_REPLICA_PATTERNS,
    _crash,
    _crash_several,
    _partition,
    _partition,
    _isolate_all,
    _cuts,
    _cut_one_direction,
    _loss,
    _duplication,
    _reordering,
    _spike,
    _garbage,
)


def draw_member_changes(
    random: Random,
    replicas: int,
    duration_us: int,
    faults: tuple[Fault, ...],
    unheard: bool = False,
) -> tuple[Fault, ...]:
    """The faults, and changes of members among them. `unheard`: who is removed does not hear of it
    for a while. It goes on issuing and answering, and has to hand that over when it hears."""
    mix = _MemberChangeBuilder(random, replicas, duration_us, faults, unheard)
    for at_us in sorted(random.randrange(duration_us) for _ in range(random.randint(1, 3))):
        random.choice((mix.add, mix.remove, mix.replace, mix.replace_dead))(at_us)
    return tuple(sorted((*faults, *mix.faults), key=lambda fault: fault.at_us))


class _MemberChangeBuilder:
    def __init__(
        self,
        random: Random,
        replicas: int,
        duration_us: int,
        faults: tuple[Fault, ...],
        unheard: bool,
    ) -> None:
        self.random = random
        self.duration_us = duration_us
        self.has_isolated_removals = unheard
        self.initial_members = set(range(replicas))
        self.members = set(range(replicas))
        self.dead_replicas = {fault.replica for fault in faults if isinstance(fault, Die)}
        self.next_number = replicas
        self.faults: list[Fault] = []

    def add(self, at_us: int) -> None:
        if self._has_live_majority(self.members | {self.next_number}):
            self.faults.append(Add(at_us, self.next_number))
            self.members.add(self.next_number)
            if self.random.random() < 0.4:
                crash_us = self.random.randrange(at_us, self.duration_us)
                back_us = self.random.randrange(crash_us, self.duration_us)
                self.faults += [
                    Crash(crash_us, self.next_number),
                    Restart(back_us, self.next_number),
                ]
            self.next_number += 1

    def remove(self, at_us: int) -> None:
        self._remove(at_us, sorted(self.members))

    def replace(self, at_us: int) -> None:
        before = sorted(self.members)
        self.add(at_us)
        self._remove(at_us, before)

    def replace_dead(self, at_us: int) -> None:
        """A replica that lost its disk does not come back: another one takes its place."""
        lost = self.random.choice(sorted(self.initial_members))
        if not self.dead_replicas and not self.faults and len(self.initial_members) > 2:
            self.dead_replicas.add(lost)
            self.faults.append(Die(self.random.randrange(at_us + 1), lost))
        self.add(at_us)
        self._remove(at_us, sorted(self.dead_replicas & self.members))

    def _remove(self, at_us: int, candidates: list[int]) -> None:
        if not candidates:
            return
        gone = self.random.choice(candidates)
        left = self.members - {gone}
        if self._has_live_majority(left) and (self.initial_members & left) - self.dead_replicas:
            self.faults.append(Remove(at_us, gone))
            self.members = left
            if self.has_isolated_removals:
                self._isolate(at_us, gone)

    def _isolate(self, at_us: int, gone: int) -> None:
        apart_us = self.random.randint(at_us // 2, at_us)
        heal_us = self.random.randint(at_us, self.duration_us)
        apart = [gone, *self._isolated_peers(gone)]
        for lost in apart[1:]:
            self.dead_replicas.add(lost)
            self.faults.append(Die(self.random.randint(at_us, heal_us), lost))
        self.faults += [Partition(apart_us, (tuple(apart),)), Heal(heal_us)]

    def _isolated_peers(self, gone: int) -> list[int]:
        """Sometimes one that stays a member is cut off with it, and dies: what it had issued is
        left to the one that is removed, whose own requests come after it."""
        others = sorted((self.initial_members & self.members) - {gone})
        if self.dead_replicas or len(others) < 4 or self.random.random() < 0.2:
            return []
        return [self.random.choice(others)]

    def _has_live_majority(self, members: set[int]) -> bool:
        return 2 * len(members - self.dead_replicas) > len(members)
