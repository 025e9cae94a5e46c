"""Fault types: the entries of a fault schedule.

A schedule is a tuple of faults, in any order. The constructor rejects an invalid entry, such as a
negative time or a probability above 1. `check_faults` rejects faults that do not fit the cluster,
such as an unknown replica. `FaultInjector` injects the faults.
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
        """Return the replicas that the fault names."""
        return ()


class _ReplicaFault(_Fault, frozen=True):
    replica: int

    def replicas(self) -> tuple[int, ...]:
        return (self.replica,)


class Crash(_ReplicaFault, frozen=True):
    """The replica stops and loses everything that is not durable. No effect on a stopped replica.

    With `writing`, the crash waits for the next fsync and happens in the middle of it, which a
    crash at a given time would hardly ever hit. A disk without fsync latency has no such middle,
    so the crash never happens.
    """

    writing: bool = False


class Restart(_ReplicaFault, frozen=True):
    """The replica starts again with the state on its disk. No effect on a running replica."""


class Die(_ReplicaFault, frozen=True):
    """The replica stops permanently; it does not restart at the end of the load phase either.

    With `telling`, the replica stops right after it has sent its next promise, which reports its
    accepted and decided instances to a leader. A replica that sends no promise survives.
    """

    telling: bool = False


class LoseDisk(_ReplicaFault, frozen=True):
    """The replica stops, loses its disk, and restarts `away_us` later with an empty one.

    The fault waits until no request is lost with the disk. That is the case when every member has
    joined and another disk holds each request that is tentative at the replica.
    """

    away_us: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.away_us)


class Partition(_Fault, frozen=True):
    """Only replicas of one group reach each other; replicas not named form one more group."""

    groups: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        named = self.replicas()
        if len(set(named)) < len(named):
            raise BadValue("a partition names a replica twice: each may be in one group only")

    def replicas(self) -> tuple[int, ...]:
        return tuple(replica for group in self.groups for replica in group)


class Cut(_Fault, frozen=True):
    """All messages from `sender` to `receiver` are lost; the opposite direction is unaffected."""

    sender: int
    receiver: int

    def replicas(self) -> tuple[int, ...]:
        return (self.sender, self.receiver)


class Sever(Cut, frozen=True):
    """A permanent cut; it is not healed at the end of the load phase either."""


class Heal(_Fault, frozen=True):
    """All partitions and cuts end."""


class _NoiseFault(_Fault, frozen=True):
    probability: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_probability(self.probability)


class Loss(_NoiseFault, frozen=True):
    """From then on, each message is lost with this probability."""


class Duplication(_NoiseFault, frozen=True):
    """From then on, each message arrives a second time, later, with this probability."""


class Reordering(_NoiseFault, frozen=True):
    """From then on, each message takes up to `by_us` longer with this probability."""

    by_us: int = 5_000

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.by_us)


class Spike(_Fault, frozen=True):
    """For `duration_us`, messages take `factor` times as long."""

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
    """The replica's clock is set to true time plus `by_us`, regardless of its previous skew."""

    by_us: int


class SlowDisk(_ReplicaFault, frozen=True):
    """For `duration_us`, each fsync takes `by_us` longer."""

    duration_us: int
    by_us: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.duration_us)
        _check_duration(self.by_us)


class SlowCpu(_ReplicaFault, frozen=True):
    """For `duration_us`, tasks that start take `factor` times as long."""

    duration_us: int
    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.duration_us)
        _check_factor(self.factor)


class Garbage(_Fault, frozen=True):
    """For `duration_us`, a forged message accompanies a real one with this probability.

    With `flips`, a forgery may be a real message with one bit flipped. The protocol does not
    guarantee to tolerate such messages.
    """

    duration_us: int
    probability: float
    flips: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_duration(self.duration_us)
        _check_probability(self.probability)


class Add(_ReplicaFault, frozen=True):
    """From then on, a new replica is to be a member. It has the next unused number."""


class Remove(_ReplicaFault, frozen=True):
    """From then on, the replica is not to be a member any more."""


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
    """Reject a schedule that a cluster of `replicas` cannot run.

    A schedule must name existing replicas, number added replicas consecutively, and leave a
    connected majority at the end.
    """
    added = [fault.replica for fault in faults if isinstance(fault, Add)]
    if sorted(added) != list(range(replicas, replicas + len(added))):
        raise BadValue(f"replicas {added} are added: their numbers must continue from {replicas}")
    removed = {fault.replica for fault in faults if isinstance(fault, Remove)}
    if added and removed.issuperset(range(replicas)):
        raise BadValue("every initial replica is removed: added replicas need one of them to join")
    dead = {fault.replica for fault in faults if isinstance(fault, Die)}
    if len(dead) > (replicas - 1) // 2:
        raise BadValue(f"{len(dead)} of {replicas} replicas die: a majority must survive")
    if any(isinstance(fault, LoseDisk) for fault in faults):
        if replicas == 1:
            raise BadValue("a cluster of 1 replica loses its disk: no other replica has its state")
        if any(isinstance(fault, Add | Remove | Die | Sever) for fault in faults):
            raise BadValue(
                "a disk loss cannot be combined with add, remove, die or sever: "
                "a replica with an empty disk must receive the state of every initial member"
            )
    severed = {frozenset(fault.replicas()) for fault in faults if isinstance(fault, Sever)}
    survivors = [each for each in range(replicas) if each not in dead]
    if severed and not any(
        all(frozenset(pair) not in severed for pair in combinations(majority, 2))
        for majority in combinations(survivors, replicas // 2 + 1)
    ):
        raise BadValue("the severed links leave no majority that is connected both ways")
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
