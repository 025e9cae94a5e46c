"""Fault injector: injects the faults of a schedule and heals them all at the end.

Only the injector changes the parameters of the models during a run. Temporary faults may overlap;
the worst active one applies. `heal_all` does not correct clocks, because a wrong clock must not
affect liveness.

A disk is lost only when the cluster can survive the loss. A replica with an empty disk recovers the
lost state from all other members (`creekdb.protocol.membership.disk_loss_recovery`), so none of
them may be recovering as well. A weak request that only the lost disk holds is lost, as in a live
cluster, so every tentative request must be on another disk.
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
    durable_replicas = [
        each.replica for each in others if each.disk.durable_position == each.disk.end_position
    ]
    up_replicas = [replica for replica in durable_replicas if replica is not None]
    return all(
        any(replica.view.has_request(id) for replica in up_replicas)
        for id in node.replica.view.tentative_ids()
    )


def _has_joined(disk: Disk) -> bool:
    """True if the durable records show that the replica has joined."""
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
    """A parameter with a normal value and any number of temporary ones; the worst one applies."""

    __slots__ = ("_active", "_apply", "_normal")

    def __init__(self, normal: float, apply: Callable[[float], None]) -> None:
        self._normal = normal
        self._apply = apply
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
        """Create an injector. Replicas in `absent` are not started before they are added."""
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
        """Replicas that have stopped permanently or are not added yet."""
        self._pending_disk_losses: list[LoseDisk] = []
        """Disk losses that wait until the cluster can survive them."""
        self._spike = _TemporarySetting(1.0, self._set_spike)
        self._garbage = _TemporarySetting(0.0, self._set_garbage)
        self._disks = [_TemporarySetting(0, _disk_setter(node)) for node in nodes]
        self._cpus = [_TemporarySetting(1.0, _cpu_setter(node)) for node in nodes]

    def schedule(self, faults: Sequence[Fault]) -> None:
        self._scheduled += [
            self._heap.schedule_at(fault.at_us, self.inject, fault) for fault in faults
        ]

    def heal_all(self) -> None:
        """Heal every fault except death and severed links, and cancel all scheduled faults."""
        self._is_healed = True
        for handle in self._scheduled:
            self._heap.cancel(handle)
        self._pending_disk_losses.clear()
        for setting in (self._spike, self._garbage, *self._disks, *self._cpus):
            setting.reset()
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

    def _apply_temporarily(
        self, setting: _TemporarySetting, value: float, duration_us: int
    ) -> None:
        setting.push(value)
        self._scheduled.append(self._heap.schedule_after(duration_us, setting.drop, value))

    def _set_spike(self, factor: float) -> None:
        self._network.spike_factor = factor

    def _set_garbage(self, probability: float) -> None:
        self._network.noise.garbage = probability


def _disk_setter(node: Node) -> Callable[[float], None]:
    def apply(extra_us: float) -> None:
        node.disk.extra_fsync_us = int(extra_us)

    return apply


def _cpu_setter(node: Node) -> Callable[[float], None]:
    def apply(factor: float) -> None:
        node.cpu.slowdown_factor = factor

    return apply
