"""A snapshot as live replicas bring it: its registers first, a few at a time.

The driver of one replica: feeds it inputs and carries out its effects.

Rules it keeps, as `creekdb.protocol.effects` asks:

- Sends and responses of a batch leave only once every record of that batch and of all earlier ones
  is durable, but for what `creekdb.protocol.durability` tells; those that have nothing to wait for
  leave at once. So they leave in order.
- With a `turn_us`, inputs that come within so long of each other have their effects taken together,
  as in a turn of the loop of a live replica.
- Tasks go to the cores at once; with a `turn_us` also those that follow from another one, before
  anything else that follows is taken.
- Images and snapshots of which the registers are yet to be gone through are drawn in time, a few
  registers at a time. Nothing waits for such an image, and some are given up half-way, as if the
  disk had been full.
- A crash loses the replica, its tasks and every effect that was held back; the disk keeps what it
  keeps. A restart is a new replica that recovers from the disk: a new incarnation.

It knows no scheme and no data type, only the contract.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from creekdb.errors import MalformedMessage
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    AssembledSnapshot,
    EncodedCheckpoint,
    RegisterLoader,
    StreamedCheckpoint,
    StreamedSnapshot,
    encode_chunks,
)
from creekdb.protocol.durability import ProposalFilter, required_record_count
from creekdb.protocol.effects import Effects, Event, Response, Send, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import Message, Record, Snapshot, decode_message, decode_record
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.kernel.simulated_time import EventHandle, EventHeap, SkewedClock
from creekdb.simulation.models.cpu import Cpu, TaskCost
from creekdb.simulation.models.disk import Disk
from creekdb.simulation.models.network import Network
from creekdb.simulation.models.parameters import DiskModel
from creekdb.simulation.observation.counters import ReplicaCounters
from creekdb.simulation.observation.recorder import HistoryRecorder
from creekdb.simulation.observation.trace import (
    COMPLETED,
    CRASH,
    INVOKE,
    RECEIVE,
    RECOVER,
    TICK,
    TraceHash,
)

REGISTERS_PER_PART: Final = 3
"""Registers at a time."""


def load_in_parts(snapshot: Snapshot, intake: RegisterLoader) -> AssembledSnapshot:
    checkpoint = snapshot.checkpoint
    held, deleted = ArrayEncoder(), ArrayEncoder()
    for first in range(0, len(checkpoint.state), REGISTERS_PER_PART):
        some = checkpoint.state[first : first + REGISTERS_PER_PART]
        intake.add(some, ())
        held.extend(some)
    for first in range(0, len(checkpoint.deleted), REGISTERS_PER_PART):
        gone = checkpoint.deleted[first : first + REGISTERS_PER_PART]
        intake.add((), gone)
        deleted.extend(gone)
    members = tuple([item for item in checkpoint.state if item[0] == MEMBERSHIP_KEY])
    bare = msgspec.structs.replace(checkpoint, state=members, deleted=())
    return AssembledSnapshot(bare, intake, held, deleted)


STREAM_STEP_US_MAX: Final = 20_000
"""How long it takes, at most, to go through some registers."""
REGISTERS_PER_STEP: Final = (1, 8, 64)
ABANDON_PROBABILITY: Final = 0.02
"""Of the looks at an image, how many are the last."""

_encode = msgspec.msgpack.Encoder().encode


class _HeldEffects(NamedTuple):
    position: int
    """What the disk has to reach before anyone may know of the rest."""
    events: tuple[Event, ...]
    send: Sequence[Send]
    respond: tuple[Response, ...]


class _StateStream(NamedTuple):
    draft: StreamedCheckpoint | StreamedSnapshot
    position: int
    """Of an image, where it is to be; of a snapshot, what must be durable before it leaves."""
    registers: ArrayEncoder
    deleted: ArrayEncoder


class Node:
    __slots__ = (
        "_counters",
        "_has_lost_disk",
        "_has_snapshot_parts",
        "_heap",
        "_held_effects",
        "_make_replica",
        "_network",
        "_on_issued",
        "_on_response",
        "_proposals",
        "_recorder",
        "_response_position",
        "_stream_random",
        "_trace",
        "_turn_timer",
        "_turn_us",
        "clock",
        "cpu",
        "disk",
        "incarnation",
        "index",
        "replica",
    )

    def __init__(
        self,
        index: int,
        *,
        seed: int,
        heap: EventHeap,
        make_replica: Callable[[int], Replica],
        network: Network,
        cores: int,
        cost: TaskCost,
        disk: DiskModel,
        turn_us: int = 0,
        in_parts: bool = False,
        clock: SkewedClock,
        recorder: HistoryRecorder,
        trace: TraceHash,
        tally: ReplicaCounters,
        issued: Callable[[int, Dot], None],
        respond: Callable[[Response], None],
    ) -> None:
        self.index = index
        self._heap = heap
        self._make_replica = make_replica
        self._network = network
        self.cpu = Cpu(heap, cores, cost, self._run_task, self._task_done)
        self.disk = Disk(heap, disk, derive_generator(seed, "disk", index), self._release)
        self._turn_us = turn_us
        self._has_snapshot_parts = in_parts
        """Do snapshots come in parts, as they do live?"""
        self._turn_timer: EventHandle | None = None
        """When effects are taken next, if there are any."""
        self.clock = clock
        self._recorder = recorder
        self._trace = trace
        self._counters = tally
        self._on_issued = issued
        self._on_response = respond
        self._held_effects: deque[_HeldEffects] = deque()
        self._response_position = 0
        """The position behind the last record that is not a decision: no answer waits for those."""
        self._proposals = ProposalFilter()
        self._stream_random = derive_generator(seed, "drawing", index)
        self.replica: Replica | None = None
        self.incarnation = -1
        self._has_lost_disk = False
        """Was it, since the replica was last up?"""

    # --- inputs -------------------------------------------------------------------------------

    def start(self, found: Record | None = None) -> None:
        """`found`: what is on its disk when it is started for the first time."""
        assert self.replica is None, "a replica that is up cannot be started"
        self.incarnation += 1
        if found is not None:
            self.disk.write_initial(found)
        replica = self.replica = self._make_replica(self.index)
        self._recorder.record_start(
            self.index, self.incarnation, replica.guarantees, self._has_lost_disk
        )
        if self.incarnation or found is not None:
            self._trace.add(
                self._heap.now_us, 0, self.index, RECOVER, b"".join(self.disk.encoded_records())
            )
            if not self._has_lost_disk:
                replica.recover(self.disk.read())
        self._has_lost_disk = False
        self._end_turn()

    def crash(self) -> None:
        assert self.replica is not None, "a replica that is down cannot crash"
        self._trace.add(self._heap.now_us, 0, self.index, CRASH)
        self._recorder.record_crash(self.index)
        self._counters.add(self.replica)
        self.replica = None
        if self._turn_timer is not None:
            self._heap.cancel(self._turn_timer)
            self._turn_timer = None
        self._held_effects.clear()
        self.cpu.reset()
        self.disk.crash()
        self._response_position = self.disk.end_position
        self._proposals = ProposalFilter()
        self._network.record_crash(self.index)

    def lose_disk(self) -> None:
        self.crash()
        self.disk.erase()
        self._response_position = self.disk.end_position
        self._network.record_disk_loss(self.index)
        self._has_lost_disk = True

    def invoke(self, operation: Operation, strong: bool, session: int) -> None:
        replica = self.replica
        assert replica is not None, "clients of a replica that is down cannot reach it"
        heap = self._heap
        now = self.clock.read(heap.now_us)
        content = _encode((operation, strong, session))
        self._trace.add(heap.now_us, now, self.index, INVOKE, content)
        id = replica.invoke(operation, strong, session, now)
        self._recorder.record_invocation(self.index, session, id, operation, strong)
        self._on_issued(session, id)
        self._schedule_effects()

    def receive(self, sender: int, data: bytes, message: Message | None) -> None:
        replica = self.replica
        if replica is None:
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
            replica.receive(load_in_parts(message, replica.new_state_loader()), sender, now)
        else:
            replica.receive(message, sender, now)
        self._schedule_effects()

    def tick(self) -> None:
        replica = self.replica
        if replica is None:
            return
        now = self.clock.read(self._heap.now_us)
        self._trace.add(self._heap.now_us, now, self.index, TICK)
        replica.tick(now)
        self._schedule_effects()

    # --- effects ------------------------------------------------------------------------------

    def _schedule_effects(self) -> None:
        if not self._turn_us:
            self._end_turn()
        elif self._turn_timer is None:
            self._turn_timer = self._heap.schedule_after(self._turn_us, self._end_turn)

    def flush_turn(self) -> None:
        """Whoever wants to know whether it is at rest must see all that it does."""
        if self._turn_timer is not None:
            self._heap.cancel(self._turn_timer)
            self._end_turn()

    def _end_turn(self) -> None:
        self._turn_timer = None
        assert self.replica is not None
        self._apply_effects(self.replica.take_effects())

    def _apply_effects(self, effects: Effects) -> None:
        if effects.events:
            self._recorder.record_events(self.index, effects.events)
        disk = self.disk
        if effects.checkpoints:
            self._append_with_checkpoints(effects.checkpoints, effects.persist)
        elif effects.persist:
            count = required_record_count(effects.persist)
            if count:
                self._response_position = disk.end_position + count
            disk.append(effects.persist)
        for draft in effects.snapshots:
            self._schedule_stream(
                _StateStream(draft, disk.end_position, ArrayEncoder(), ArrayEncoder())
            )
        if effects.send or effects.respond or effects.events:
            if disk.durable_position == disk.end_position:
                self._dispatch_effects(effects.events, effects.send, effects.respond)
            else:
                self._hold_effects(effects)
        for task in effects.tasks:
            self.cpu.submit(task)

    def _append_with_checkpoints(
        self,
        images: tuple[StreamedCheckpoint | EncodedCheckpoint, ...],
        records: tuple[Record, ...],
    ) -> None:
        done = 0
        for draft in images:
            if done < draft.preceding_records:
                self.disk.append(records[done : draft.preceding_records])
                done = draft.preceding_records
            if isinstance(draft, EncodedCheckpoint):
                self.disk.append((decode_record(b"".join(draft.chunks())),))
                continue
            self._schedule_stream(
                _StateStream(draft, self.disk.reserve_checkpoint(), ArrayEncoder(), ArrayEncoder())
            )
        if done < len(records):
            self.disk.append(records[done:])
        self._response_position = self.disk.end_position

    def _schedule_stream(self, drawing: _StateStream) -> None:
        delay_us = self._stream_random.randint(0, STREAM_STEP_US_MAX)
        self._heap.schedule_after(delay_us, self._advance_stream, self.incarnation, drawing)

    def _advance_stream(self, incarnation: int, drawing: _StateStream) -> None:
        if self.replica is None or incarnation != self.incarnation:
            return
        draft, position, held, deleted = drawing
        if (
            isinstance(draft, StreamedCheckpoint)
            and self._stream_random.random() < ABANDON_PROBABILITY
        ):
            draft.registers.close()
            return
        found = draft.registers.take(self._stream_random.choice(REGISTERS_PER_STEP))
        if found is not None:
            held.extend(found[0])
            deleted.extend(found[1])
            self._schedule_stream(drawing)
        elif isinstance(draft, StreamedSnapshot):
            snapshot = decode_message(b"".join(encode_chunks(draft.snapshot, held, deleted)))
            self._held_effects.append(
                _HeldEffects(position, (), (Send((draft.to,), snapshot),), ())
            )
            self._release()
        elif self.disk.durable_position > position:
            self.disk.write_checkpoint(
                position, b"".join(encode_chunks(draft.record, held, deleted))
            )
        else:
            self._schedule_stream(drawing)

    def _hold_effects(self, effects: Effects) -> None:
        at_once, send = self._proposals.split(
            effects.send, self.disk.end_position, self.disk.durable_position
        )
        self._dispatch_effects((), at_once, ())
        if effects.respond:
            self._held_effects.append(
                _HeldEffects(self._response_position, (), (), effects.respond)
            )
        self._held_effects.append(_HeldEffects(self.disk.end_position, effects.events, send, ()))
        self._release()

    def _release(self) -> None:
        durable, held = self.disk.durable_position, self._held_effects
        while held and held[0].position <= durable:
            batch = held.popleft()
            self._dispatch_effects(batch.events, batch.send, batch.respond)

    def _dispatch_effects(
        self, events: tuple[Event, ...], send: Sequence[Send], respond: tuple[Response, ...]
    ) -> None:
        if events:
            self._recorder.record_durable(self.index, events)
        for each in send:
            self._network.send(self.index, each.to, each.message)
        for response in respond:
            self._recorder.record_response(self.index, response)
            self._on_response(response)

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

    # --- what it waits for --------------------------------------------------------------------

    def pending_work(self) -> str | None:
        """Why this node has not come to rest, or None."""
        replica = self.replica
        if replica is None:
            return "is down"
        if not replica.is_idle() or not self.cpu.is_idle():
            return "is executing"
        if replica.awaited_members() is not None:
            return "does not take part yet"
        if self._held_effects or self.disk.durable_position != self.disk.end_position:
            return "waits for its disk"
        if tentative := len(replica.tentative_ids()):
            return f"has {tentative} tentative requests"
        return None
