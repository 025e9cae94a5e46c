"""Fault types: the entries of a fault schedule.

A schedule is a tuple of faults, in any order. A fault is one class:

- The annotations of its fields state how each is written, after which word, and which values are
  valid. The constructor rejects an invalid value, such as a negative time or a probability above 1.
- The decorator `form` states the name of the fault with an example for the help.
- `inject` applies the fault to a simulated cluster. A docstring states what the forms do not.

`check_faults` rejects faults that do not fit the cluster, such as an unknown replica.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from itertools import combinations
from operator import or_
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, get_type_hints

import msgspec

from creekdb.errors import BadValue
from creekdb.simulation.faults.fields import (
    Duration,
    Factor,
    FieldKind,
    Groups,
    Increase,
    Offset,
    Probability,
    ReplicaNumber,
    Sender,
    Time,
)

if TYPE_CHECKING:
    from creekdb.simulation.faults.injector import FaultInjector


class BaseFault(msgspec.Struct, frozen=True, tag=lambda name: name.lower()):
    at_us: Time

    def __post_init__(self) -> None:
        for name, kind in field_kinds(type(self)).items():
            kind.check(getattr(self, name))

    def replicas(self) -> tuple[int, ...]:
        """Return the replicas that the fault names."""
        return ()

    def inject(self, injector: "FaultInjector") -> None:
        raise NotImplementedError


_FaultType = TypeVar("_FaultType", bound=type[BaseFault])


class FaultForm(NamedTuple):
    """One way to write a fault. The last form of a type applies that has no flag or a set one."""

    fault_type: type[BaseFault]
    example: str
    """Begins with the name of the form."""
    meaning: str
    """Description of the example for the help; `...` continues the line above."""
    flag: str | None
    """Boolean field that this form sets."""

    @property
    def name(self) -> str:
        return self.example.split()[0]


FAULT_FORMS: list[FaultForm] = []
"""Forms of all faults, in the order of definition."""


def form(example: str, meaning: str, flag: str | None = None) -> Callable[[_FaultType], _FaultType]:
    """Return a decorator that adds a form to a fault; see `FaultForm`."""

    def add(fault_type: _FaultType) -> _FaultType:
        position = len(FAULT_FORMS) - len(forms_of(fault_type))  # decorators apply bottom-up
        FAULT_FORMS.insert(position, FaultForm(fault_type, example, meaning, flag))
        return fault_type

    return add


def forms_of(fault_type: type[BaseFault]) -> list[FaultForm]:
    return [each for each in FAULT_FORMS if each.fault_type is fault_type]


@cache
def field_kinds(fault_type: type[BaseFault]) -> dict[str, FieldKind]:
    """Return the kinds of the fields that have a textual form."""
    hints = get_type_hints(fault_type, include_extras=True)
    return {
        name: hints[name].__metadata__[0]
        for name in fault_type.__struct_fields__
        if hasattr(hints[name], "__metadata__")
    }


def clauses(fault_type: type[BaseFault]) -> dict[str, list[str]]:
    """Return the fields after each word, and the fields of the subject after an empty word."""
    fields: dict[str, list[str]] = {}
    for name, kind in field_kinds(fault_type).items():
        fields.setdefault(kind.clause, []).append(name)
    return fields


class ReplicaFault(BaseFault, frozen=True):
    replica: ReplicaNumber

    def replicas(self) -> tuple[int, ...]:
        return (self.replica,)


@form("crash 2 at 150ms", "replica 2 stops and loses everything that is not on its disk")
@form(
    "crash-writing 2 at 150ms",
    "... in the middle of its next fsync; never, if the disk has no latency",
    flag="writing",
)
class Crash(ReplicaFault, frozen=True):
    """The replica stops and loses everything that is not durable. No effect on a stopped replica.

    With `writing`, the crash waits for the next fsync and happens in the middle of it, which a
    crash at a given time would hardly ever hit. A disk without fsync latency has no such middle,
    so the crash never happens.
    """

    writing: bool = False

    def inject(self, injector: "FaultInjector") -> None:
        if self.writing:
            disk = injector.nodes[self.replica].disk
            disk.on_next_fsync = partial(injector.crash, self.replica)
        else:
            injector.crash(self.replica)


@form("restart 2 at 400ms", "replica 2 starts again with the state on its disk")
class Restart(ReplicaFault, frozen=True):
    """The replica starts again with the state on its disk. No effect on a running replica."""

    def inject(self, injector: "FaultInjector") -> None:
        injector.restart(self.replica)


@form("die 2 at 400ms", "replica 2 stops permanently and does not restart at the end")
@form("die-telling 2 at 400ms", "... right after its next promise to a leader", flag="telling")
class Die(ReplicaFault, frozen=True):
    """The replica stops permanently; it does not restart at the end of the load phase either.

    With `telling`, the replica stops right after it has sent its next promise, which reports its
    accepted and decided instances to a leader. A replica that sends no promise survives.
    """

    telling: bool = False

    def inject(self, injector: "FaultInjector") -> None:
        if self.telling:
            stop = partial(injector.stop_permanently, self.replica)
            injector.network.on_promise_sent[self.replica] = stop
        else:
            injector.stop_permanently(self.replica)


@form(
    "lose-disk 2 for 50ms at 400ms",
    "replica 2 stops once others hold its requests; 50 ms later it restarts with an empty disk",
)
class LoseDisk(ReplicaFault, frozen=True):
    """The replica stops, loses its disk, and restarts `away_us` later with an empty one.

    The fault waits until no request is lost with the disk. That is the case when every member has
    joined and another disk holds each request that is tentative at the replica.
    """

    away_us: Duration

    def inject(self, injector: "FaultInjector") -> None:
        injector.pending_disk_losses.append(self)


@form(
    "rollback-disk 2 by 200ms for 50ms at 400ms",
    "replica 2 stops; 50 ms later it restarts with the disk of 200 ms before the fault",
)
class RollbackDisk(ReplicaFault, frozen=True):
    """The replica stops, and restarts `away_us` later with the durable records of an earlier time.

    The records are those of `by_us` before the fault. Replicas exchange evidence when they connect,
    so the replica stops permanently once another one shows that it has lost data.
    """

    by_us: Increase
    away_us: Duration

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_us > self.at_us:
            raise BadValue("a disk is rolled back to a time before the start of the run")

    def inject(self, injector: "FaultInjector") -> None:
        injector.roll_back_disk(self)


@form(
    "partition 0,1|2,3 at 1s",
    "only replicas of one group reach each other; replicas not named form one more group",
)
class Partition(BaseFault, frozen=True):
    groups: Groups

    def replicas(self) -> tuple[int, ...]:
        return tuple(replica for group in self.groups for replica in group)

    def inject(self, injector: "FaultInjector") -> None:
        injector.network.partition(self.groups)


@form("cut 0>1 at 100ms", "messages from 0 to 1 are lost; the other way is unaffected")
class Cut(BaseFault, frozen=True):
    sender: Sender
    receiver: ReplicaNumber

    def replicas(self) -> tuple[int, ...]:
        return (self.sender, self.receiver)

    def inject(self, injector: "FaultInjector") -> None:
        injector.network.cut(self.sender, self.receiver)


@form("sever 0>1 at 100ms", "... permanently, even after the end of all faults")
class Sever(Cut, frozen=True):
    def inject(self, injector: "FaultInjector") -> None:
        injector.network.sever(self.sender, self.receiver)


@form("heal at 2s", "all partitions and cuts end")
class Heal(BaseFault, frozen=True):
    def inject(self, injector: "FaultInjector") -> None:
        injector.network.heal()


@form("loss 10% at 0s", "from then on, each message is lost with this probability")
class Loss(BaseFault, frozen=True):
    probability: Probability

    def inject(self, injector: "FaultInjector") -> None:
        injector.network.noise.loss = self.probability


@form("duplication 5% at 1s", "... arrives a second time, later")
class Duplication(BaseFault, frozen=True):
    probability: Probability

    def inject(self, injector: "FaultInjector") -> None:
        injector.network.noise.duplication = self.probability


@form("reordering 20% by 5ms at 1s", "... takes up to 5 ms longer")
class Reordering(BaseFault, frozen=True):
    probability: Probability
    by_us: Increase = 5_000

    def inject(self, injector: "FaultInjector") -> None:
        injector.network.noise.reordering = self.probability
        injector.network.noise.reordering_us = self.by_us


@form("spike x5 for 100ms at 1s", "for 100 ms, messages take 5 times as long")
class Spike(BaseFault, frozen=True):
    duration_us: Duration
    factor: Factor

    def inject(self, injector: "FaultInjector") -> None:
        injector.set_for(self.duration_us, injector.network, "spike_factor", self.factor)


@form("jump 3 by -1h at 1s", "the clock of replica 3 jumps, forward or backward")
class ClockJump(ReplicaFault, frozen=True):
    by_us: Offset

    def inject(self, injector: "FaultInjector") -> None:
        injector.nodes[self.replica].clock.jump(self.by_us)


@form("skew 3 by 1d at 0s", "the clock is set to true time plus one day")
class ClockSkew(ReplicaFault, frozen=True):
    """The replica's clock is set to true time plus `by_us`, regardless of its previous skew."""

    by_us: Offset

    def inject(self, injector: "FaultInjector") -> None:
        injector.nodes[self.replica].clock.skew_us = self.by_us


@form("slow-disk 1 by 20ms for 300ms at 1s", "for 300 ms, fsyncs take 20 ms longer")
class SlowDisk(ReplicaFault, frozen=True):
    duration_us: Duration
    by_us: Increase

    def inject(self, injector: "FaultInjector") -> None:
        disk = injector.nodes[self.replica].disk
        injector.set_for(self.duration_us, disk, "extra_fsync_us", self.by_us)


@form("fail-disk 1 for 300ms at 1s", "for 300 ms, nothing can be written to the disk of replica 1")
class FailDisk(ReplicaFault, frozen=True):
    """For `duration_us`, every write to the disk fails.

    The replica keeps its records in memory and retries. Meanwhile it rejects calls other than
    reads, and drops messages.
    """

    duration_us: Duration

    def inject(self, injector: "FaultInjector") -> None:
        injector.set_for(self.duration_us, injector.nodes[self.replica].disk, "failing", 1)


@form("slow-cpu 1 x10 for 300ms at 1s", "for 300 ms, tasks take 10 times as long")
class SlowCpu(ReplicaFault, frozen=True):
    """For `duration_us`, tasks that start take `factor` times as long."""

    duration_us: Duration
    factor: Factor

    def inject(self, injector: "FaultInjector") -> None:
        cpu = injector.nodes[self.replica].cpu
        injector.set_for(self.duration_us, cpu, "slowdown_factor", self.factor)


@form(
    "garbage 5% for 200ms at 1s",
    "for 200 ms, a forged message accompanies a real one with this probability",
)
@form(
    "flips 5% for 200ms at 1s",
    "... or a real one with a bit flipped, which Creek does not guarantee to tolerate",
    flag="flips",
)
class Garbage(BaseFault, frozen=True):
    """For `duration_us`, a forged message accompanies a real one with this probability.

    With `flips`, a forgery may be a real message with one bit flipped. The protocol does not
    guarantee to tolerate such messages.
    """

    duration_us: Duration
    probability: Probability
    flips: bool = False

    def inject(self, injector: "FaultInjector") -> None:
        noise = injector.network.noise
        noise.can_flip_bits = self.flips
        injector.set_for(self.duration_us, noise, "garbage", self.probability)


class MemberChange(ReplicaFault, frozen=True):
    def inject(self, injector: "FaultInjector") -> None:
        injector.control.change_members(self)


@form("add 5 at 1s", "a new replica becomes a member; it has the next unused number")
class Add(MemberChange, frozen=True):
    pass


@form("remove 2 at 2s", "replica 2 is removed from the members and then stops")
class Remove(MemberChange, frozen=True):
    pass


if TYPE_CHECKING:
    Fault: TypeAlias = BaseFault
else:
    Fault = reduce(
        or_, [each.fault_type for each in FAULT_FORMS]
    )  # decoders need the union of the tagged types


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
    dead = {fault.replica for fault in faults if isinstance(fault, Die | RollbackDisk)}
    if len(dead) > (replicas - 1) // 2:
        raise BadValue(f"{len(dead)} of {replicas} replicas die: a majority must survive")
    if any(isinstance(fault, LoseDisk) for fault in faults):
        if replicas == 1:
            raise BadValue("a cluster of 1 replica loses its disk: no other replica has its state")
        if any(isinstance(fault, MemberChange | Die | Sever) for fault in faults):
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
