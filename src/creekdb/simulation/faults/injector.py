"""When a disk may be lost: what a cluster survives, and what nobody could.

A replica that comes back with nothing hears from all others what it has forgotten
(`creekdb.protocol.membership.disk_loss_recovery`). So none of them may have forgotten anything as
well, and be about to hear it. And a weak request that only the lost disk held is gone, as it is in
a live cluster: whatever is tentative there must be somewhere else, too.

The injector: makes the faults of a schedule happen, and undoes them all at the end.

It alone turns the knobs of the models. Faults that last a while may overlap: the worst one that is
under way counts. Clocks are left as they are by `heal_all`: a wrong clock must not cost liveness.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import assert_never

from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.messages import CheckpointRecord, Promised
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
    LoseDisk,
    Loss,
    Partition,
    Remove,
    Reordering,
    Restart,
    Sever,
    SlowCpu,
    SlowDisk,
    Spike,
)
from creekdb.simulation.kernel.node import Node
from creekdb.simulation.kernel.simulated_time import EventHandle, EventHeap
from creekdb.simulation.models.disk import Disk
from creekdb.simulation.models.network import Network


def can_lose_disk(node: Node, nodes: Sequence[Node]) -> bool:
    others = [each for each in nodes if each is not node]
    if node.replica is None or not all(_has_joined(each.disk) for each in nodes):
        return False
    safe = [each.replica for each in others if each.disk.durable_position == each.disk.end_position]
    kept = [replica for replica in safe if replica is not None]
    return all(
        any(replica.has_request(id) for replica in kept) for id in node.replica.tentative_ids()
    )


def _has_joined(disk: Disk) -> bool:
    """Does it say, in what is durable, that its replica does?"""
    for record in disk.read_durable():
        match record:
            case Promised():
                return True
            case CheckpointRecord(promised=promised) if promised != NO_BALLOT:
                return True
            case _:
                pass
    return False


class _TemporarySetting:
    """A setting with a normal value and a list of temporary ones, of which the worst counts."""

    __slots__ = ("_active", "_apply", "_normal")

    def __init__(self, normal: float, turn: Callable[[float], None]) -> None:
        self._normal = normal
        self._apply = turn
        self._active: list[float] = []

    def push(self, value: float) -> None:
        self._active.append(value)
        self._apply(max(self._active))

    def drop(self, value: float) -> None:
        self._active.remove(value)
        self._apply(max(self._active, default=self._normal))

    def reset(self) -> None:
        self._active.clear()
        self._apply(self._normal)


class FaultInjector:
    def __init__(
        self,
        heap: EventHeap,
        network: Network,
        nodes: Sequence[Node],
        crash: Callable[[int], None],
        lose_disk: Callable[[int], None],
        restart: Callable[[int], None],
        change_members: Callable[[Add | Remove], None],
        absent: Iterable[int] = (),
    ) -> None:
        """Those who are `absent` are not started before they are added."""
        self._heap = heap
        self._network = network
        self._nodes = nodes
        self._crash = crash
        self._lose_disk = lose_disk
        self._restart = restart
        self._change_members = change_members
        self._scheduled: list[EventHandle] = []
        self._is_healed = False
        self.absent_replicas: set[int] = set(absent)
        """Replicas that never come back, or are not there yet."""
        self._pending_disk_losses: list[LoseDisk] = []
        """Disks that are lost when nothing is lost by that."""
        self._spike = _TemporarySetting(1.0, self._set_spike)
        self._garbage = _TemporarySetting(0.0, self._set_garbage)
        self._disks = [_TemporarySetting(0, _disk_setter(node)) for node in nodes]
        self._cpus = [_TemporarySetting(1.0, _cpu_setter(node)) for node in nodes]

    def schedule(self, faults: Sequence[Fault]) -> None:
        self._scheduled += [
            self._heap.schedule_at(fault.at_us, self.inject, fault) for fault in faults
        ]

    def heal_all(self) -> None:
        """Undo every fault, but for death and severed links, and drop those still to come."""
        self._is_healed = True
        for handle in self._scheduled:
            self._heap.cancel(handle)
        self._pending_disk_losses.clear()
        for knob in (self._spike, self._garbage, *self._disks, *self._cpus):
            knob.reset()
        self._network.heal()
        self._network.on_promise_sent.clear()
        self._network.noise.reset()
        for node in self._nodes:
            node.disk.on_next_fsync = None
            if node.replica is None and node.index not in self.absent_replicas:
                self._restart(node.index)

    def inject(self, fault: Fault) -> None:
        network, nodes = self._network, self._nodes
        match fault:
            case Crash(replica=replica, writing=True):
                nodes[replica].disk.on_next_fsync = partial(self._crash_if_up, replica)
            case Crash(replica=replica):
                self._crash_if_up(replica)
            case Restart(replica=replica):
                if nodes[replica].replica is None and replica not in self.absent_replicas:
                    self._restart(replica)
            case Die(replica=replica, telling=True):
                network.on_promise_sent[replica] = partial(self._stop_permanently, replica)
            case Die(replica=replica):
                self._stop_permanently(replica)
            case LoseDisk():
                self._pending_disk_losses.append(fault)
            case Partition(groups=groups):
                network.partition(groups)
            case Sever(sender=sender, receiver=receiver):
                network.sever(sender, receiver)
            case Cut(sender=sender, receiver=receiver):
                network.cut(sender, receiver)
            case Heal():
                network.heal()
            case Loss(probability=probability):
                network.noise.loss = probability
            case Duplication(probability=probability):
                network.noise.duplication = probability
            case Reordering(probability=probability, by_us=by_us):
                network.noise.reordering = probability
                network.noise.reordering_us = by_us
            case Spike(duration_us=duration_us, factor=factor):
                self._apply_temporarily(self._spike, factor, duration_us)
            case ClockJump(replica=replica, by_us=by_us):
                nodes[replica].clock.jump(by_us)
            case ClockSkew(replica=replica, by_us=by_us):
                nodes[replica].clock.skew_us = by_us
            case SlowDisk(replica=replica, duration_us=duration_us, by_us=by_us):
                self._apply_temporarily(self._disks[replica], by_us, duration_us)
            case SlowCpu(replica=replica, duration_us=duration_us, factor=factor):
                self._apply_temporarily(self._cpus[replica], factor, duration_us)
            case Garbage(duration_us=duration_us, probability=probability, flips=flips):
                network.noise.can_flip_bits = flips
                self._apply_temporarily(self._garbage, probability, duration_us)
            case Add() | Remove():
                self._change_members(fault)
            case _:
                assert_never(fault)

    def tick(self) -> None:
        for fault in self._pending_disk_losses:
            node = self._nodes[fault.replica]
            if can_lose_disk(node, self._nodes):
                self._pending_disk_losses.remove(fault)
                self._lose_disk(node.index)
                restart = Restart(self._heap.now_us + fault.away_us, node.index)
                self.schedule((restart,))
                return

    def _crash_if_up(self, replica: int) -> None:
        if self._nodes[replica].replica is not None and not self._is_healed:
            self._crash(replica)

    def _stop_permanently(self, replica: int) -> None:
        if not self._is_healed:
            self.absent_replicas.add(replica)
            self._crash_if_up(replica)

    def _apply_temporarily(self, knob: _TemporarySetting, value: float, duration_us: int) -> None:
        knob.push(value)
        self._scheduled.append(self._heap.schedule_after(duration_us, knob.drop, value))

    def _set_spike(self, factor: float) -> None:
        self._network.spike_factor = factor

    def _set_garbage(self, probability: float) -> None:
        self._network.noise.garbage = probability


def _disk_setter(node: Node) -> Callable[[float], None]:
    def turn(extra_us: float) -> None:
        node.disk.extra_fsync_us = int(extra_us)

    return turn


def _cpu_setter(node: Node) -> Callable[[float], None]:
    def turn(factor: float) -> None:
        node.cpu.slowdown_factor = factor

    return turn
