"""Driver of one simulated replica: feeds it inputs and applies its effects.

Rules, as `creekdb.protocol.effects` requires:

- Sends and responses leave when `creekdb.driver.release` allows it: after the records before them
  are durable. Events become visible when all records before them are durable.
- With a `turn_us`, inputs that arrive within that time have their effects taken together, as in one
  turn of the event loop of a live replica.
- Tasks go to the cores at once. With a `turn_us`, so do the tasks that follow from a completed
  task, before its other effects are taken.
- Streamed checkpoints and snapshots take simulated time (`creekdb.driver.checkpoint_writer`). No
  effect waits for such a checkpoint.
- A replica whose disk fails drops messages and ticks, as if its network were broken, and accepts
  only reads, until a write succeeds.
- A crash loses the replica, its tasks and every held output; the disk keeps its durable
  records. A restart is a new incarnation: a new replica that recovers from the disk.
- With `has_snapshot_parts`, a received snapshot is loaded in parts, as live replicas load it.

The driver depends on the contract of `Replica` only, not on a scheme or a data type.
"""

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from creekdb.driver.checkpoint_writer import CheckpointWriter
from creekdb.driver.release import ReleaseRule
from creekdb.driver.snapshot_parts import SnapshotAssembler, snapshot_payloads
from creekdb.errors import MalformedMessage
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    AssembledSnapshot,
    EncodedSnapshot,
    RegisterLoader,
    SnapshotPart,
    encode_chunks,
)
from creekdb.protocol.effects import DataLost, Effects, Event, Response, Send, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Message, Record, Snapshot, decode_message
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.kernel.simulated_time import EventHandle, EventHeap
from creekdb.simulation.models.cpu import Cpu
from creekdb.simulation.models.disk import Disk
from creekdb.simulation.models.network import Network
from creekdb.simulation.observation.recorder import HistoryRecorder
from creekdb.simulation.observation.samples import ReplicaCounters
from creekdb.simulation.observation.trace import (
    COMPLETED,
    CRASH,
    INVOKE,
    RECEIVE,
    RECOVER,
    TICK,
    WAKE,
    TraceHash,
)

REGISTERS_PER_PART: Final = 3
"""Number of registers per part of a received snapshot."""
STREAM_STEP_US_MAX: Final = 20_000
"""Upper bound for the time before a turn of the checkpoint writer, in microseconds."""
REGISTERS_PER_TURN_MAX: Final = (1, 8, 64)
"""Limits for the registers of one turn of the checkpoint writer. A replica draws one."""

_encode = msgspec.msgpack.Encoder().encode
_decode_part = msgspec.msgpack.Decoder(SnapshotPart).decode


def load_in_parts(
    snapshot: Snapshot, new_loader: Callable[[], RegisterLoader]
) -> Snapshot | AssembledSnapshot:
    """Split a snapshot into small parts and load these, as live replicas do."""
    checkpoint = snapshot.checkpoint
    live, deleted = ArrayEncoder(), ArrayEncoder()
    for encoder, items in ((live, checkpoint.state), (deleted, checkpoint.deleted)):
        for first in range(0, len(items), REGISTERS_PER_PART):
            encoder.extend(items[first : first + REGISTERS_PER_PART])
    bare = Snapshot(msgspec.structs.replace(checkpoint, state=(), deleted=()))
    encoded = EncodedSnapshot(0, bare, live, deleted)
    *parts, last = snapshot_payloads(encoded, sys.maxsize, part_bytes=1)
    assembler = SnapshotAssembler(new_loader)
    for part in parts:
        assembler.add(_decode_part(part))
    assembled_from = decode_message(last)
    assert isinstance(assembled_from, Snapshot)
    return assembler.assemble(assembled_from)


class Node:
    def __init__(
        self,
        index: int,
        scenario: Scenario,
        *,
        heap: EventHeap,
        make_replica: Callable[[int], Replica],
        network: Network,
        recorder: HistoryRecorder,
        trace: TraceHash,
        counters: ReplicaCounters,
        on_issued: Callable[[int, Dot], None],
        on_response: Callable[[Response], None],
        on_data_lost: Callable[[int, DataLost], None] | None = None,
    ) -> None:
        """Create a node. Without `on_data_lost`, a replica that lost data is an error."""
        self.index = index
        self._heap = heap
        self._make_replica = make_replica
        self._network = network
        cpu = scenario.cpu
        self.cpu = Cpu(heap, cpu.cores, cpu.cost, self._run_task, self._task_done)
        random = derive_generator(scenario.seed, "disk", index)
        self.disk = Disk(heap, scenario.disk, random, self._release, self._release_reads)
        self._turn_us = scenario.turn_us
        self._has_snapshot_parts = bool(scenario.settings.get("drafts"))
        """True if snapshots are loaded in parts, as by live replicas."""
        self._responds_before_durable = scenario.durability == "memory"
        self._turn_timer: EventHandle | None = None
        """Event that ends the current turn, or None."""
        self._wake_timer: EventHandle | None = None
        """Event of the wake that the replica requested, or None."""
        self.clock = scenario.clock.make_clock(index)
        self._recorder = recorder
        self._trace = trace
        self._counters = counters
        self._on_issued = on_issued
        self._on_response = on_response
        self._on_data_lost = on_data_lost
        self._rule = ReleaseRule(index, 0)
        self._volatile_events: deque[tuple[int, tuple[Event, ...]]] = deque()
        """Events, each with the disk position from which on other replicas may depend on them."""
        self._stream_random = derive_generator(scenario.seed, "drawing", index)
        self._checkpoint_writer = self._new_checkpoint_writer()
        self.replica: Replica | None = None
        self.incarnation = -1
        self._has_lost_disk = False
        """True if the disk was lost since the replica was last up."""

    # --- inputs -------------------------------------------------------------------------------

    def start(self, initial_record: Record | None = None) -> None:
        """Start the replica. `initial_record` is written to the disk before its first start."""
        assert self.replica is None, "a replica that is up cannot be started"
        self.incarnation += 1
        if initial_record is not None:
            self.disk.write_initial(initial_record)
        self._rule = ReleaseRule(self.index, self.disk.end_position, self._responds_before_durable)
        self._checkpoint_writer = self._new_checkpoint_writer()
        replica = self.replica = self._make_replica(self.index)
        self._recorder.record_start(
            self.index, self.incarnation, replica.guarantees, self._has_lost_disk
        )
        if self.incarnation or initial_record is not None:
            self._trace.add(
                self._heap.now_us, 0, self.index, RECOVER, b"".join(self.disk.encoded_records())
            )
            if not self._has_lost_disk:
                replica.recover(self.disk.read())
        self._has_lost_disk = False
        self._end_turn()

    def _new_checkpoint_writer(self) -> CheckpointWriter[int]:
        return CheckpointWriter(
            self.disk,
            self._offer_snapshot,
            self._schedule_turn,
            registers_max=self._stream_random.choice(REGISTERS_PER_TURN_MAX),
        )

    def crash(self) -> None:
        assert self.replica is not None, "a replica that is down cannot crash"
        self._trace.add(self._heap.now_us, 0, self.index, CRASH)
        self._recorder.record_crash(self.index)
        self._counters.add(self.replica.view)
        self.replica = None
        if self._turn_timer is not None:
            self._heap.cancel(self._turn_timer)
            self._turn_timer = None
        if self._wake_timer is not None:
            self._heap.cancel(self._wake_timer)
            self._wake_timer = None
        self._rule.clear()
        self._checkpoint_writer.halt()
        self._volatile_events.clear()
        self.cpu.reset()
        self.disk.crash()
        self._network.record_crash(self.index)

    def lose_disk(self) -> None:
        """Erase the disk of a replica that is down."""
        self.disk.erase()
        self._network.record_disk_loss(self.index)
        self._has_lost_disk = True

    def replace_disk(self, copy: list[bytes]) -> None:
        """Replace the disk of a replica that is down by an older copy."""
        self.disk.replace(copy)
        self._network.record_disk_loss(self.index)

    def can_accept(self, operation: Operation, strong: bool) -> bool:
        """True if the replica accepts the call. With a fault of the disk, it accepts only reads."""
        replica = self.replica
        assert replica is not None, "a replica that is down cannot accept a call"
        return not self.disk.has_fault or (
            replica.view.can_respond_locally(operation, strong)
            and not self._rule.has_volatile_request
        )

    def invoke(self, operation: Operation, strong: bool, session: int) -> None:
        replica = self.replica
        assert replica is not None, "a replica that is down cannot accept a call"
        heap = self._heap
        now = self.clock.read(heap.now_us)
        content = _encode((operation, strong, session))
        self._trace.add(heap.now_us, now, self.index, INVOKE, content)
        id = replica.invoke(operation, strong, session, now)
        self._recorder.record_invocation(self.index, session, id, operation, strong)
        if id.event > 0:
            self._rule.record_issue()
        self._on_issued(session, id)
        self._schedule_effects()

    def receive(self, sender: int, data: bytes, message: Message | None) -> None:
        replica = self.replica
        if replica is None or self.disk.has_fault:
            self._network.lost_messages += 1
            return
        if message is None:
            try:
                message = decode_message(data)
            except MalformedMessage:
                self._counters.malformed += 1
                return
        now_us = self._heap.now_us
        now = self.clock.read(now_us)
        self._trace.add(now_us, now, self.index, RECEIVE, data, sender)
        if type(message) is Snapshot and self._has_snapshot_parts:
            replica.receive(load_in_parts(message, replica.view.new_state_loader), sender, now)
        else:
            replica.receive(message, sender, now)
        self._schedule_effects()

    def tick(self) -> None:
        replica = self.replica
        if replica is None or self.disk.has_fault:
            return
        now = self.clock.read(self._heap.now_us)
        self._trace.add(self._heap.now_us, now, self.index, TICK)
        replica.tick(now)
        self._schedule_effects()

    def _wake(self) -> None:
        self._wake_timer = None
        replica = self.replica
        assert replica is not None, "a crash cancels the wake"
        if self.disk.has_fault:
            return
        now = self.clock.read(self._heap.now_us)
        self._trace.add(self._heap.now_us, now, self.index, WAKE)
        replica.wake(now)
        self._schedule_effects()

    # --- effects ------------------------------------------------------------------------------

    def _schedule_effects(self) -> None:
        if not self._turn_us:
            self._end_turn()
        elif self._turn_timer is None:
            self._turn_timer = self._heap.schedule_after(self._turn_us, self._end_turn)

    def flush_turn(self) -> None:
        """End the current turn at once, so that `pending_work` sees all effects."""
        if self._turn_timer is not None:
            self._heap.cancel(self._turn_timer)
            self._end_turn()

    def _end_turn(self) -> None:
        self._turn_timer = None
        assert self.replica is not None
        self._apply_effects(self.replica.take_effects())

    def _apply_effects(self, effects: Effects) -> None:
        if effects.data_lost is not None:
            assert self._on_data_lost is not None, f"replica {self.index}: {effects.data_lost}"
            self._on_data_lost(self.index, effects.data_lost)
            return
        disk, rule = self.disk, self._rule
        if effects.events:
            self._recorder.record_events(self.index, effects.events)
        if effects.checkpoints:
            self._checkpoint_writer.append(effects.persist, effects.checkpoints)
        elif effects.persist:
            disk.append(effects.persist)
        send, respond = rule.offer(effects, disk.durable_position, disk.has_fault)
        for snapshot in effects.snapshots:
            self._checkpoint_writer.add_snapshot(snapshot, rule.end_position)
        if effects.events:
            self._volatile_events.append((rule.end_position, effects.events))
            self._record_visible()
        self._transmit(send, respond)
        for task in effects.tasks:
            self.cpu.submit(task)
        if effects.wake_at is not None:
            self._schedule_wake(effects.wake_at)

    def _schedule_wake(self, wake_at: int) -> None:
        if self._wake_timer is not None:
            self._heap.cancel(self._wake_timer)
        delay_us = wake_at - self.clock.read(self._heap.now_us)
        self._wake_timer = self._heap.schedule_after(max(delay_us, 0), self._wake)

    def _schedule_turn(self, run: Callable[[], None]) -> None:
        """Run a turn of the checkpoint writer later."""
        self._heap.schedule_after(self._stream_random.randint(0, STREAM_STEP_US_MAX), run)

    def _offer_snapshot(self, encoded: EncodedSnapshot, position: int) -> None:
        if self._rule.offer_snapshot(encoded, position, self.disk.durable_position):
            self._send_snapshot(encoded)

    def _release(self) -> None:
        """Release what waited for the records that have just become durable."""
        self._record_visible()
        send, respond, snapshots = self._rule.release(self.disk.durable_position)
        self._transmit(send, respond)
        for snapshot in snapshots:
            self._send_snapshot(snapshot)

    def _release_reads(self) -> None:
        self._transmit((), self._rule.release_reads())

    def _record_visible(self) -> None:
        volatile, durable_position = self._volatile_events, self.disk.durable_position
        while volatile and volatile[0][0] <= durable_position:
            self._recorder.record_durable(self.index, volatile.popleft()[1])

    def _transmit(self, send: Sequence[Send], respond: Sequence[Response]) -> None:
        for each in send:
            self._network.send(self.index, each.to, each.message)
        for response in respond:
            self._recorder.record_response(self.index, response)
            self._on_response(response)

    def _send_snapshot(self, encoded: EncodedSnapshot) -> None:
        chunks = encode_chunks(encoded.snapshot, encoded.live, encoded.deleted)
        self._network.send(self.index, (encoded.to,), decode_message(b"".join(chunks)))

    # --- execution ----------------------------------------------------------------------------

    def _run_task(self, task: Task) -> ExecutionResult:
        assert self.replica is not None
        return self.replica.run(task)

    def _task_done(self, task: Task, execution: ExecutionResult) -> None:
        replica = self.replica
        assert replica is not None
        now = self.clock.read(self._heap.now_us)
        outcome = self._trace.encode_outcome(execution.outcome)
        content = _encode((task.number, task.kind, task.request.id, outcome))
        self._trace.add(self._heap.now_us, now, self.index, COMPLETED, content)
        replica.completed(task, execution, now)
        if self._turn_us:
            for each in replica.take_tasks():
                self.cpu.submit(each)
        self._schedule_effects()

    # --- quiescence ---------------------------------------------------------------------------

    def pending_work(self) -> str | None:
        """Return why this node is not quiescent, or None."""
        if self.replica is None:
            return "is down"
        replica = self.replica.view
        if not replica.is_idle() or not self.cpu.is_idle():
            return "is executing"
        if replica.awaited_members() is not None:
            return "has not joined yet"
        has_pending_output = self._rule.held_count or self._volatile_events
        if has_pending_output or self.disk.durable_position != self.disk.end_position:
            return "waits for its disk"
        if tentative := len(replica.tentative_ids()):
            return f"has {tentative} tentative requests"
        return None
