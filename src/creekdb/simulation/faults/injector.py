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
from typing import NamedTuple

from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.messages import CheckpointRecord, Promised
from creekdb.simulation.faults.fault_types import Fault, LoseDisk, MemberChange, RollbackDisk
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
    return any(
        isinstance(each, Promised)
        or (isinstance(each, CheckpointRecord) and each.promised != NO_BALLOT)
        for each in disk.read_durable()
    )


class _TemporarySetting(NamedTuple):
    """An attribute with a normal value and any number of temporary ones; the worst one applies."""

    owner: object
    attribute: str
    normal: float
    active: list[float]

    def apply(self) -> None:
        setattr(self.owner, self.attribute, max(self.active, default=self.normal))

    def drop(self, value: float) -> None:
        self.active.remove(value)
        self.apply()


class ReplicaControl(NamedTuple):
    """Control over the replicas of the simulated cluster."""

    crash: Callable[[int], None]
    lose_disk: Callable[[int], None]
    copy_disk: Callable[[int], Callable[[], None]]
    """Copies the durable records. The returned function puts the copy in place of the disk of a
    replica that is down."""
    restart: Callable[[int], None]
    change_members: Callable[[MemberChange], None]


class FaultInjector:
    """Schedules the faults. `Fault.inject` calls the other public methods."""

    def __init__(
        self,
        heap: EventHeap,
        network: Network,
        nodes: Sequence[Node],
        control: ReplicaControl,
        absent: Iterable[int] = (),
    ) -> None:
        """Create an injector. Replicas in `absent` are not started before they are added."""
        self._heap = heap
        self.network = network
        self.nodes = nodes
        self.control = control
        self._scheduled: list[EventHandle] = []
        self._is_healed = False
        self.absent_replicas: set[int] = set(absent)
        """Replicas that have stopped permanently or are not added yet."""
        self.pending_disk_losses: list[LoseDisk] = []
        """Disk losses that wait until the cluster can survive them."""
        self._disk_copies: dict[RollbackDisk, Callable[[], None]] = {}
        """For each rollback whose copy has been made, the function that puts it in place."""
        self._settings: dict[tuple[int, str], _TemporarySetting] = {}
        """Settings that faults have changed, by the identity of the owner and by attribute."""

    def schedule(self, faults: Sequence[Fault]) -> None:
        self._scheduled += [
            self._heap.schedule_at(fault.at_us, fault.inject, self) for fault in faults
        ]
        self._scheduled += [
            self._heap.schedule_at(fault.at_us - fault.by_us, self._copy_disk, fault)
            for fault in faults
            if isinstance(fault, RollbackDisk)
        ]

    def heal_all(self) -> None:
        """Heal every fault except death and severed links, and cancel all scheduled faults."""
        self._is_healed = True
        for handle in self._scheduled:
            self._heap.cancel(handle)
        self.pending_disk_losses.clear()
        for setting in self._settings.values():
            setting.active.clear()
            setting.apply()
        self.network.heal()
        self.network.on_promise_sent.clear()
        self.network.noise.reset()
        for node in self.nodes:
            node.disk.on_next_fsync = None
            self.restart(node.index)

    def tick(self) -> None:
        for fault in self.pending_disk_losses:
            node = self.nodes[fault.replica]
            if can_lose_disk(node, self.nodes):
                self.pending_disk_losses.remove(fault)
                self.control.lose_disk(node.index)
                self._schedule_after(fault.away_us, self.restart, node.index)
                return

    def crash(self, replica: int) -> None:
        """Crash the replica. No effect if it is down or all faults are healed."""
        if self.nodes[replica].replica is not None and not self._is_healed:
            self.control.crash(replica)

    def restart(self, replica: int) -> None:
        """Restart the replica. No effect if it is up or absent."""
        if self.nodes[replica].replica is None and replica not in self.absent_replicas:
            self.control.restart(replica)

    def roll_back_disk(self, fault: RollbackDisk) -> None:
        """Put the copy of the disk in place, and restart the replica later."""
        self.crash(fault.replica)
        if fault in self._disk_copies:
            self._disk_copies.pop(fault)()
            self._schedule_after(fault.away_us, self.restart, fault.replica)

    def _copy_disk(self, fault: RollbackDisk) -> None:
        self._disk_copies[fault] = self.control.copy_disk(fault.replica)

    def stop_permanently(self, replica: int) -> None:
        if not self._is_healed:
            self.absent_replicas.add(replica)
            self.crash(replica)

    def set_for(self, duration_us: int, owner: object, attribute: str, value: float) -> None:
        """Set the attribute of a model for a duration.

        The highest value applies if several faults set the attribute. `heal_all` resets it.
        """
        new = _TemporarySetting(owner, attribute, getattr(owner, attribute), [])
        setting = self._settings.setdefault((id(owner), attribute), new)
        setting.active.append(value)
        setting.apply()
        self._schedule_after(duration_us, setting.drop, value)

    def _schedule_after(
        self, duration_us: int, action: Callable[..., None], argument: object
    ) -> None:
        self._scheduled.append(self._heap.schedule_after(duration_us, action, argument))
