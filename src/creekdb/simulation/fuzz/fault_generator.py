"""Random fault schedules and membership changes for the fuzzer.

A schedule is drawn in two steps: the number of fault patterns, sometimes zero, and then that many
patterns from a table. A pattern is a few faults that belong together, such as a crash and the
restart after it. Patterns may overlap, which makes the most interesting runs.

Membership changes add, remove and replace replicas under load, with two invariants. At any point
where the changes may stop, a majority of the members is alive. One of the initial members stays and
survives, because added replicas join through it.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeAlias

from creekdb.simulation.faults.fault_types import (
    Add,
    ClockJump,
    ClockSkew,
    Crash,
    Cut,
    Die,
    Duplication,
    FailDisk,
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
"""Numbers of patterns of a run, all equally likely."""


class _FaultContext(NamedTuple):
    """Generator, cluster size and duration that patterns are drawn with."""

    random: Random
    replicas: int
    duration_us: int

    def draw_time_us(self) -> int:
        return self.random.randrange(self.duration_us)

    def draw_duration_us(self) -> int:
        """Draw a duration: mostly short, sometimes most of the run."""
        return int(self.duration_us * self.random.random() ** 2) + 1

    def draw_replica(self) -> int:
        return self.random.randrange(self.replicas)

    def draw_replicas(self) -> list[int]:
        """Draw at least one replica, and not all of them if there are several, in random order."""
        count = self.random.randint(1, max(1, self.replicas - 1))
        return self.random.sample(range(self.replicas), count)


FaultPattern: TypeAlias = Callable[[_FaultContext], list[Fault]]


def draw_faults(random: Random, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """Draw a schedule within `duration_us`, in the order of time."""
    context = _FaultContext(random, replicas, max(1, duration_us))
    patterns = _PATTERNS if replicas > 1 else _SINGLE_REPLICA_PATTERNS
    faults: list[Fault] = []
    for _ in range(random.choice(PATTERN_COUNTS)):
        faults += random.choice(patterns)(context)
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def draw_disk_failures(random: Random, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """Draw periods in which the disks of some replicas fail, often until a crash."""
    context = _FaultContext(random, replicas, max(1, duration_us))
    faults: list[Fault] = []
    for _ in range(random.randint(1, 4)):
        at_us, replica = context.draw_time_us(), context.draw_replica()
        failing_us = context.draw_duration_us()
        faults.append(FailDisk(at_us, replica, failing_us))
        if random.random() < 0.6:
            faults += _crash_and_restart(context, at_us + random.randint(0, failing_us), replica)
    return tuple(faults)


def _crash(context: _FaultContext) -> list[Fault]:
    at_us, replica = context.draw_time_us(), context.draw_replica()
    return _crash_and_restart(context, at_us, replica)


def _crash_several(context: _FaultContext) -> list[Fault]:
    """Crash several replicas at once, as in a power cut; often a majority, sometimes all."""
    at_us = context.draw_time_us()
    victims = (
        context.draw_replicas() if context.random.random() < 0.7 else list(range(context.replicas))
    )
    return [each for victim in victims for each in _crash_and_restart(context, at_us, victim)]


def _crash_repeatedly(context: _FaultContext) -> list[Fault]:
    replica = context.draw_replica()
    moments = [context.draw_time_us() for _ in range(context.random.randint(2, 4))]
    return [each for at_us in moments for each in _crash_and_restart(context, at_us, replica)]


def _crash_and_restart(context: _FaultContext, at_us: int, replica: int) -> list[Fault]:
    crash = Crash(at_us, replica, writing=context.random.random() < 0.4)
    if context.random.random() < 0.2:
        return [crash]  # it restarts at the end of the load phase
    return [crash, Restart(at_us + context.draw_duration_us(), replica)]


def _partition(context: _FaultContext) -> list[Fault]:
    at_us = context.draw_time_us()
    side = sorted(context.draw_replicas())
    rest = [each for each in range(context.replicas) if each not in side]
    return [Partition(at_us, (tuple(side), tuple(rest))), *_maybe_heal(context, at_us)]


def _isolate_all(context: _FaultContext) -> list[Fault]:
    at_us = context.draw_time_us()
    singletons = tuple((each,) for each in range(context.replicas))
    return [Partition(at_us, singletons), Heal(at_us + context.draw_duration_us())]


def _cuts(context: _FaultContext) -> list[Fault]:
    at_us = context.draw_time_us()
    pairs = [context.random.sample(range(context.replicas), 2) for _ in range(context.replicas)]
    count = context.random.randint(1, context.replicas)
    cuts: list[Fault] = [Cut(at_us, sender, receiver) for sender, receiver in pairs[:count]]
    return [*cuts, *_maybe_heal(context, at_us)]


def _cut_one_direction(context: _FaultContext) -> list[Fault]:
    """Cut all links from a replica, or all links to it."""
    at_us, replica = context.draw_time_us(), context.draw_replica()
    cuts_outgoing = context.random.random() < 0.5
    others = [each for each in range(context.replicas) if each != replica]
    cuts: list[Fault] = [
        Cut(at_us, replica, other) if cuts_outgoing else Cut(at_us, other, replica)
        for other in others
    ]
    return [*cuts, Heal(at_us + context.draw_duration_us())]


def _maybe_heal(context: _FaultContext, at_us: int) -> list[Fault]:
    return [Heal(at_us + context.draw_duration_us())] if context.random.random() < 0.8 else []


def _noise(
    fault_type: type[Loss | Duplication], probabilities: tuple[float, ...], context: _FaultContext
) -> list[Fault]:
    at_us = context.draw_time_us()
    probability = context.random.choice(probabilities)
    return [fault_type(at_us, probability), fault_type(at_us + context.draw_duration_us(), 0.0)]


def _reordering(context: _FaultContext) -> list[Fault]:
    at_us = context.draw_time_us()
    probability = context.random.choice((0.05, 0.3, 1.0))
    by_us = context.random.choice((500, 5_000, 50_000))
    return [
        Reordering(at_us, probability, by_us),
        Reordering(at_us + context.draw_duration_us(), 0.0),
    ]


def _temporary(
    fault_type: type[Spike | Garbage], values: tuple[float, ...], context: _FaultContext
) -> list[Fault]:
    at_us, duration_us = context.draw_time_us(), context.draw_duration_us()
    return [fault_type(at_us, duration_us, context.random.choice(values))]


def _clock(context: _FaultContext) -> list[Fault]:
    at_us, replica = context.draw_time_us(), context.draw_replica()
    by_us = context.random.choice((100, 10_000, 1_000_000, DAY_US)) * context.random.choice((-1, 1))
    if context.random.random() < 0.5:
        return [ClockJump(at_us, replica, by_us)]
    return [ClockSkew(at_us, replica, by_us)]


def _slow(
    fault_type: type[SlowDisk | SlowCpu], values: tuple[Any, ...], context: _FaultContext
) -> list[Fault]:
    value = context.random.choice(values)
    at_us, replica = context.draw_time_us(), context.draw_replica()
    return [fault_type(at_us, replica, context.draw_duration_us(), value)]


_SINGLE_REPLICA_PATTERNS: tuple[FaultPattern, ...] = (
    _crash,
    _crash_repeatedly,
    _clock,
    partial(_slow, SlowDisk, (1_000, 20_000, 200_000)),
    partial(_slow, SlowCpu, (5.0, 30.0, 100.0)),
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
    partial(_noise, Loss, (0.01, 0.1, 0.3, 0.8)),
    partial(_noise, Duplication, (0.05, 0.3, 1.0)),
    _reordering,
    partial(_temporary, Spike, (3.0, 20.0, 200.0)),
    partial(_temporary, Garbage, (0.01, 0.1, 0.5)),
)


def draw_member_changes(
    random: Random,
    replicas: int,
    duration_us: int,
    faults: tuple[Fault, ...],
    isolate_removed: bool = False,
) -> tuple[Fault, ...]:
    """Return the faults together with random membership changes.

    With `isolate_removed`, a removed replica is isolated for a while. It continues to issue
    requests and to respond, and must hand these requests over once it learns of its removal.
    """
    builder = _MemberChangeBuilder(random, replicas, duration_us, faults, isolate_removed)
    for at_us in sorted(random.randrange(duration_us) for _ in range(random.randint(1, 3))):
        random.choice((builder.add, builder.remove, builder.replace, builder.replace_dead))(at_us)
    return tuple(sorted((*faults, *builder.faults), key=lambda fault: fault.at_us))


class _MemberChangeBuilder:
    def __init__(
        self,
        random: Random,
        replicas: int,
        duration_us: int,
        faults: tuple[Fault, ...],
        isolate_removed: bool,
    ) -> None:
        self.random = random
        self.duration_us = duration_us
        self.has_isolated_removals = isolate_removed
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
                restart_us = self.random.randrange(crash_us, self.duration_us)
                self.faults += [
                    Crash(crash_us, self.next_number),
                    Restart(restart_us, self.next_number),
                ]
            self.next_number += 1

    def remove(self, at_us: int) -> None:
        self._remove(at_us, sorted(self.members))

    def replace(self, at_us: int) -> None:
        candidates = sorted(self.members)
        self.add(at_us)
        self._remove(at_us, candidates)

    def replace_dead(self, at_us: int) -> None:
        """Replace a replica that lost its disk and does not come back."""
        victim = self.random.choice(sorted(self.initial_members))
        if not self.dead_replicas and not self.faults and len(self.initial_members) > 2:
            self.dead_replicas.add(victim)
            self.faults.append(Die(self.random.randrange(at_us + 1), victim))
        self.add(at_us)
        self._remove(at_us, sorted(self.dead_replicas & self.members))

    def _remove(self, at_us: int, candidates: list[int]) -> None:
        if not candidates:
            return
        removed = self.random.choice(candidates)
        remaining = self.members - {removed}
        if (
            self._has_live_majority(remaining)
            and (self.initial_members & remaining) - self.dead_replicas
        ):
            self.faults.append(Remove(at_us, removed))
            self.members = remaining
            if self.has_isolated_removals:
                self._isolate(at_us, removed)

    def _isolate(self, at_us: int, removed: int) -> None:
        partition_us = self.random.randint(at_us // 2, at_us)
        heal_us = self.random.randint(at_us, self.duration_us)
        isolated = [removed, *self._isolated_peers(removed)]
        for victim in isolated[1:]:
            self.dead_replicas.add(victim)
            self.faults.append(Die(self.random.randint(at_us, heal_us), victim))
        self.faults += [Partition(partition_us, (tuple(isolated),)), Heal(heal_us)]

    def _isolated_peers(self, removed: int) -> list[int]:
        """Sometimes draw a member that is isolated with the removed replica and dies.

        Only the removed replica then has the requests of that member, on which its own depend.
        """
        others = sorted((self.initial_members & self.members) - {removed})
        if self.dead_replicas or len(others) < 4 or self.random.random() < 0.2:
            return []
        return [self.random.choice(others)]

    def _has_live_majority(self, members: set[int]) -> bool:
        return 2 * len(members - self.dead_replicas) > len(members)
