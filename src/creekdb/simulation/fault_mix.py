"""Random fault schedules for the fuzzer.

A mix is drawn in two steps: how hard the run is to be, sometimes not at all, and then that many
*troubles* from a table. A trouble is a few entries that make sense together, such as a crash and
the restart after it. Troubles may overlap; that is where the interesting runs are.
"""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from creekdb.simulation.clock import DAY_US
from creekdb.simulation.faults import (
    ClockJump,
    ClockSkew,
    Crash,
    Cut,
    Duplication,
    Fault,
    Garbage,
    Heal,
    Loss,
    Partition,
    Reordering,
    Restart,
    SlowCpu,
    SlowDisk,
    Spike,
)

INTENSITIES = (0, 1, 2, 2, 3, 4, 6, 9)
"""How many troubles a run has; each of these is as likely."""


class _Stage:
    """Where troubles happen: the generator, the cluster's size and the time there is."""

    __slots__ = ("duration_us", "random", "replicas")

    def __init__(self, random: Random, replicas: int, duration_us: int) -> None:
        self.random = random
        self.replicas = replicas
        self.duration_us = duration_us

    def moment_us(self) -> int:
        return self.random.randrange(self.duration_us)

    def while_us(self) -> int:
        """Mostly a short while, now and then most of the run."""
        return int(self.duration_us * self.random.random() ** 2) + 1

    def replica(self) -> int:
        return self.random.randrange(self.replicas)

    def some(self) -> list[int]:
        """At least one replica, not all of them unless there is only one, in random order."""
        count = self.random.randint(1, max(1, self.replicas - 1))
        return self.random.sample(range(self.replicas), count)


Trouble: TypeAlias = Callable[[_Stage], list[Fault]]


def fault_mix(random: Random, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """A schedule within `duration_us`, in the order of time."""
    stage = _Stage(random, replicas, max(1, duration_us))
    troubles = _TROUBLES if replicas > 1 else _TROUBLES_ALONE
    faults: list[Fault] = []
    for _ in range(random.choice(INTENSITIES)):
        faults += random.choice(troubles)(stage)
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _crash(stage: _Stage) -> list[Fault]:
    at_us, replica = stage.moment_us(), stage.replica()
    return _crash_and_restart(stage, at_us, replica)


def _crash_several(stage: _Stage) -> list[Fault]:
    """Together, as in a power cut; often a majority, sometimes all."""
    at_us = stage.moment_us()
    victims = stage.some() if stage.random.random() < 0.7 else list(range(stage.replicas))
    return [each for victim in victims for each in _crash_and_restart(stage, at_us, victim)]


def _crash_again_and_again(stage: _Stage) -> list[Fault]:
    replica = stage.replica()
    moments = [stage.moment_us() for _ in range(stage.random.randint(2, 4))]
    return [each for at_us in moments for each in _crash_and_restart(stage, at_us, replica)]


def _crash_and_restart(stage: _Stage, at_us: int, replica: int) -> list[Fault]:
    crash = Crash(at_us, replica, writing=stage.random.random() < 0.4)
    if stage.random.random() < 0.2:
        return [crash]  # it stays away until the end
    return [crash, Restart(at_us + stage.while_us(), replica)]


def _partition(stage: _Stage) -> list[Fault]:
    at_us = stage.moment_us()
    side = sorted(stage.some())
    rest = [each for each in range(stage.replicas) if each not in side]
    return [Partition(at_us, (tuple(side), tuple(rest))), *_mostly_healed(stage, at_us)]


def _shatter(stage: _Stage) -> list[Fault]:
    at_us = stage.moment_us()
    alone = tuple((each,) for each in range(stage.replicas))
    return [Partition(at_us, alone), Heal(at_us + stage.while_us())]


def _cuts(stage: _Stage) -> list[Fault]:
    at_us = stage.moment_us()
    pairs = [stage.random.sample(range(stage.replicas), 2) for _ in range(stage.replicas)]
    count = stage.random.randint(1, stage.replicas)
    cuts: list[Fault] = [Cut(at_us, sender, receiver) for sender, receiver in pairs[:count]]
    return [*cuts, *_mostly_healed(stage, at_us)]


def _deafen(stage: _Stage) -> list[Fault]:
    """A replica that is heard but does not hear, or the other way round."""
    at_us, replica, hears = stage.moment_us(), stage.replica(), stage.random.random() < 0.5
    others = [each for each in range(stage.replicas) if each != replica]
    cuts: list[Fault] = [
        Cut(at_us, replica, other) if hears else Cut(at_us, other, replica) for other in others
    ]
    return [*cuts, Heal(at_us + stage.while_us())]


def _mostly_healed(stage: _Stage, at_us: int) -> list[Fault]:
    return [Heal(at_us + stage.while_us())] if stage.random.random() < 0.8 else []


def _loss(stage: _Stage) -> list[Fault]:
    at_us = stage.moment_us()
    probability = stage.random.choice((0.01, 0.1, 0.3, 0.8))
    return [Loss(at_us, probability), Loss(at_us + stage.while_us(), 0.0)]


def _duplication(stage: _Stage) -> list[Fault]:
    at_us = stage.moment_us()
    probability = stage.random.choice((0.05, 0.3, 1.0))
    return [Duplication(at_us, probability), Duplication(at_us + stage.while_us(), 0.0)]


def _reordering(stage: _Stage) -> list[Fault]:
    at_us = stage.moment_us()
    probability = stage.random.choice((0.05, 0.3, 1.0))
    by_us = stage.random.choice((500, 5_000, 50_000))
    return [Reordering(at_us, probability, by_us), Reordering(at_us + stage.while_us(), 0.0)]


def _spike(stage: _Stage) -> list[Fault]:
    return [Spike(stage.moment_us(), stage.while_us(), stage.random.choice((3.0, 20.0, 200.0)))]


def _clock(stage: _Stage) -> list[Fault]:
    at_us, replica = stage.moment_us(), stage.replica()
    by_us = stage.random.choice((100, 10_000, 1_000_000, DAY_US)) * stage.random.choice((-1, 1))
    if stage.random.random() < 0.5:
        return [ClockJump(at_us, replica, by_us)]
    return [ClockSkew(at_us, replica, by_us)]


def _slow_disk(stage: _Stage) -> list[Fault]:
    by_us = stage.random.choice((1_000, 20_000, 200_000))
    return [SlowDisk(stage.moment_us(), stage.replica(), stage.while_us(), by_us)]


def _slow_cpu(stage: _Stage) -> list[Fault]:
    factor = stage.random.choice((5.0, 30.0, 100.0))
    return [SlowCpu(stage.moment_us(), stage.replica(), stage.while_us(), factor)]


def _garbage(stage: _Stage) -> list[Fault]:
    return [Garbage(stage.moment_us(), stage.while_us(), stage.random.choice((0.01, 0.1, 0.5)))]


_TROUBLES_ALONE: tuple[Trouble, ...] = (
    _crash,
    _crash_again_and_again,
    _clock,
    _slow_disk,
    _slow_cpu,
)
_TROUBLES: tuple[Trouble, ...] = (
    *_TROUBLES_ALONE,
    _crash,
    _crash_several,
    _partition,
    _partition,
    _shatter,
    _cuts,
    _deafen,
    _loss,
    _duplication,
    _reordering,
    _spike,
    _garbage,
)
