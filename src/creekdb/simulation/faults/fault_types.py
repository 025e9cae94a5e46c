"""Faults: what can go wrong in a run, and when.

A schedule is a tuple of these entries, in any order. An entry that cannot be meant (a negative
time, a probability above 1) is refused as it is made; one that names a replica which does not exist
is refused by `check`, which knows the cluster. The injector makes them happen.
"""

import re
from collections.abc import Sequence
from itertools import combinations
from typing import TypeAlias

import msgspec

from creekdb.errors import BadValue


class _Fault(msgspec.Struct, frozen=True, tag=lambda name: name.lower()):
    at_us: int

    def __post_init__(self) -> None:
        if self.at_us < 0:
            raise BadValue(f"a fault at {self.at_us} us: a time must not be negative")

    def replicas(self) -> tuple[int, ...]:
        """The replicas it names."""
        return ()


class _ReplicaFault(_Fault, frozen=True):
    replica: int

    def replicas(self) -> tuple[int, ...]:
        return (self.replica,)


class Crash(_ReplicaFault, frozen=True):
    """The replica stops; what is not durable is lost. Without effect when it is down.

    With `writing` it waits for the next fsync and strikes in the middle of it, where a crash at a
    given time would hardly ever hit; with a disk that takes no time it never strikes.
    """

    writing: bool = False


class Restart(_ReplicaFault, frozen=True):
    """The replica comes back with what its disk kept. Without effect when it is up."""


class Die(_ReplicaFault, frozen=True):
    """The replica stops for good: nothing brings it back, not even the end of all faults.

    With `telling` it waits until the replica has sent its next promise, in which it tells a leader
    what it accepted and knows to be decided, and strikes then; one that promises nothing lives on.
    """

    telling: bool = False


class LoseDisk(_ReplicaFault, frozen=True):
    """The replica stops, its disk is lost, and it comes back `away_us` later with an empty one.

    It strikes as soon as nothing is lost with it: no other member has forgotten anything, and
    whatever is tentative at the replica is on the disk of another one.
    """

    away_us: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.away_us)


class Partition(_Fault, frozen=True):
    """Only replicas of one group reach each other; those not named form one more group."""

    groups: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        named = self.replicas()
        if len(set(named)) < len(named):
            raise BadValue("a partition names a replica twice: each may be in one group only")

    def replicas(self) -> tuple[int, ...]:
        return tuple(replica for group in self.groups for replica in group)


class Cut(_Fault, frozen=True):
    """Nothing gets from `sender` to `receiver`; the way back is not touched."""

    sender: int
    receiver: int

    def replicas(self) -> tuple[int, ...]:
        return (self.sender, self.receiver)


class Sever(Cut, frozen=True):
    """A cut for good: nothing mends the link, not even the end of all faults."""


class Heal(_Fault, frozen=True):
    """Every partition and cut ends."""


class _NoiseFault(_Fault, frozen=True):
    probability: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_probability(self.probability)


class Loss(_NoiseFault, frozen=True):
    """From now on each message is lost with this probability."""


class Duplication(_NoiseFault, frozen=True):
    """From now on each message arrives a second time, later, with this probability."""


class Reordering(_NoiseFault, frozen=True):
    """From now on each message takes up to `by_us` longer with this probability."""

    by_us: int = 5_000

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.by_us)


class Spike(_Fault, frozen=True):
    """For a while, messages that are sent take `factor` times as long."""

    duration_us: int
    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.duration_us)
        _check_factor(self.factor)


class ClockJump(_ReplicaFault, frozen=True):
    """The replica's clock jumps forward, or backward when `by_us` is negative."""

    by_us: int


class ClockSkew(_ReplicaFault, frozen=True):
    """The replica's clock is set to true time plus `by_us`, whatever it was before."""

    by_us: int


class SlowDisk(_ReplicaFault, frozen=True):
    """For a while, each fsync takes `by_us` longer."""

    duration_us: int
    by_us: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.duration_us)
        _check_duration(self.by_us)


class SlowCpu(_ReplicaFault, frozen=True):
    """For a while, tasks that start take `factor` times as long."""

    duration_us: int
    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.duration_us)
        _check_factor(self.factor)


class Garbage(_Fault, frozen=True):
    """For a while, a forged message comes beside a real one with this probability.

    With `flips`, forgeries may be real messages with one bit flipped: nothing that the protocol
    promises to survive.
    """

    duration_us: int
    probability: float
    flips: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.duration_us)
        _check_probability(self.probability)


class Add(_ReplicaFault, frozen=True):
    """From now on a new replica is to be a member: the next number that no replica had."""


class Remove(_ReplicaFault, frozen=True):
    """From now on the replica is not to be a member any more."""


Fault: TypeAlias = (
    Crash
    | Restart
    | Die
    | LoseDisk
    | Partition
    | Cut
    | Sever
    | Heal
    | Loss
    | Duplication
    | Reordering
    | Spike
    | ClockJump
    | ClockSkew
    | SlowDisk
    | SlowCpu
    | Garbage
    | Add
    | Remove
)


def check_faults(faults: Sequence[Fault], replicas: int) -> None:
    """Refuse a schedule that names a replica which a cluster of `replicas` does not have, or that
    leaves it without a majority for good. Those that are added are numbered on."""
    added = [fault.replica for fault in faults if isinstance(fault, Add)]
    if sorted(added) != list(range(replicas, replicas + len(added))):
        raise BadValue(f"replicas that are added are numbered from {replicas} on, not {added}")
    removed = {fault.replica for fault in faults if isinstance(fault, Remove)}
    if added and removed.issuperset(range(replicas)):
        raise BadValue("one of the first replicas must stay: it is where those added find others")
    dead = {fault.replica for fault in faults if isinstance(fault, Die)}
    if len(dead) > (replicas - 1) // 2:
        raise BadValue(f"{len(dead)} of {replicas} replicas die: a majority must stay")
    if any(isinstance(fault, LoseDisk) for fault in faults):
        if replicas == 1:
            raise BadValue("a disk is lost, and nobody else is there who could tell what it held")
        if any(isinstance(fault, Add | Remove | Die | Sever) for fault in faults):
            raise BadValue(
                "a disk is lost, and members change, die or are severed from others: "
                "who comes back with an empty disk waits until each of the first ones has told it "
                "what it knows"
            )
    severed = {frozenset(fault.replicas()) for fault in faults if isinstance(fault, Sever)}
    alive = [each for each in range(replicas) if each not in dead]
    if severed and not any(
        all(frozenset(pair) not in severed for pair in combinations(majority, 2))
        for majority in combinations(alive, replicas // 2 + 1)
    ):
        raise BadValue("the links that are severed leave no majority that is connected both ways")
    for fault in faults:
        for replica in fault.replicas():
            if not 0 <= replica < replicas + len(added):
                raise BadValue(
                    f"a {_fault_name(fault)} names replica {replica}, which does not exist: "
                    f"replicas are 0 to {replicas + len(added) - 1}"
                )


def _fault_name(fault: Fault) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(fault).__name__).lower()


def _check_probability(probability: float) -> None:
    if not 0 <= probability <= 1:
        raise BadValue(f"a probability of {probability}: it must be between 0 and 1")


def _check_duration(duration_us: int) -> None:
    if duration_us < 0:
        raise BadValue(f"a duration of {duration_us} us: it must not be negative")


def _check_factor(factor: float) -> None:
    if not 0 < factor <= 1_000_000:
        raise BadValue(f"a factor of {factor}: it must be above 0 and at most 1000000")
