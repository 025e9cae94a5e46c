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
from creekdb.execution.result import Execution
from creekdb.protocol.checkpoint.stream import (
    Array,
    Brought,
    DrawnImage,
    ImageDraft,
    Intake,
    SnapshotDraft,
    encoded,
)
from creekdb.protocol.durability import Proposals, needed
from creekdb.protocol.effects import Effects, Event, Response, Send, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import REGISTER
from creekdb.protocol.messages import Message, Record, Snapshot, decode_message, decode_record
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.simulation.kernel.seeds import derive
from creekdb.simulation.kernel.simulated_time import Clock, EventHeap, Handle
from creekdb.simulation.models.cpu import Cost, Cpu
from creekdb.simulation.models.disk import Disk
from creekdb.simulation.models.network import Network
from creekdb.simulation.models.parameters import DiskModel
from creekdb.simulation.observation.counters import Tally
from creekdb.simulation.observation.recorder import Recorder
from creekdb.simulation.observation.trace import (
    COMPLETED,
    CRASH,
    INVOKE,
    RECEIVE,
    RECOVER,
    TICK,
    Trace,
)

PART: Final = 3
"""Registers at a time."""


def brought(snapshot: Snapshot, intake: Intake) -> Brought:
    checkpoint = snapshot.checkpoint
    held, deleted = Array(), Array()
    for first in range(0, len(checkpoint.state), PART):
        some = checkpoint.state[first : first + PART]
        intake.add(some, ())
        held.extend(some)
    for first in range(0, len(checkpoint.deleted), PART):
        gone = checkpoint.deleted[first : first + PART]
        intake.add((), gone)
        deleted.extend(gone)
    members = tuple([item for item in checkpoint.state if item[0] == REGISTER])
    bare = msgspec.structs.replace(checkpoint, state=members, deleted=())
    return Brought(bare, intake, held, deleted)


DRAWING_US_MAX: Final = 20_000
"""How long it takes, at most, to go through some registers."""
DRAWN_AT_ONCE: Final = (1, 8, 64)
GIVEN_UP: Final = 0.02
"""Of the looks at an image, how many are the last."""

_encode = msgspec.msgpack.Encoder().encode


class _Held(NamedTuple):
    position: int
    """What the disk has to reach before anyone may know of the rest."""
    events: tuple[Event, ...]
    send: Sequence[Send]
    respond: tuple[Response, ...]


class _Drawing(NamedTuple):
    draft: ImageDraft | SnapshotDraft
    position: int
    """Of an image, where it is to be; of a snapshot, what must be durable before it leaves."""
    held: Array
    deleted: Array


class Node:
    __slots__ = (
        "_answers_after",
        "_drawing",
        "_heap",
        "_held",
        "_in_parts",
        "_issued",
        "_lost_disk",
        "_make_replica",
        "_network",
        "_proposals",
        "_recorder",
        "_respond",
        "_tally",
        "_trace",
        "_turn",
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
        cost: Cost,
        disk: DiskModel,
        turn_us: int = 0,
        in_parts: bool = False,
        clock: Clock,
        recorder: Recorder,
        trace: Trace,
        tally: Tally,
        issued: Callable[[int, Dot], None],
        respond: Callable[[Response], None],
    ) -> None:
        self.index = index
        self._heap = heap
        self._make_replica = make_replica
        self._network = network
        self.cpu = Cpu(heap, cores, cost, self._run_task, self._task_done)
        self.disk = Disk(heap, disk, derive(seed, "disk", index), self._release)
        self._turn_us = turn_us
        self._in_parts = in_parts
        """Do snapshots come in parts, as they do live?"""
        self._turn: Handle | None = None
        """When effects are taken next, if there are any."""
        self.clock = clock
        self._recorder = recorder
        self._trace = trace
        self._tally = tally
        self._issued = issued
        self._respond = respond
        self._held: deque[_Held] = deque()
        self._answers_after = 0
        """The position behind the last record that is not a decision: no answer waits for those."""
        self._proposals = Proposals()
        self._drawing = derive(seed, "drawing", index)
        self.replica: Replica | None = None
        self.incarnation = -1
        self._lost_disk = False
        """Was it, since the replica was last up?"""

    # --- inputs -------------------------------------------------------------------------------

    def start(self, found: Record | None = None) -> None:
        """`found`: what is on its disk when it is started for the first time."""
        assert self.replica is None, "a replica that is up cannot be started"
        self.incarnation += 1
        if found is not None:
            self.disk.begin_with(found)
        replica = self.replica = self._make_replica(self.index)
        self._recorder.started(self.index, self.incarnation, replica.terms, self._lost_disk)
        if self.incarnation or found is not None:
            self._trace.add(self._heap.now, 0, self.index, RECOVER, b"".join(self.disk.contents()))
            if not self._lost_disk:
                replica.recover(self.disk.read())
        self._lost_disk = False
        self._end_turn()

    def crash(self) -> None:
        assert self.replica is not None, "a replica that is down cannot crash"
        self._trace.add(self._heap.now, 0, self.index, CRASH)
        self._recorder.crashed(self.index)
        self._tally.add(self.replica)
        self.replica = None
        if self._turn is not None:
            self._heap.cancel(self._turn)
            self._turn = None
        self._held.clear()
        self.cpu.reset()
        self.disk.crash()
        self._answers_after = self.disk.end
        self._proposals = Proposals()
        self._network.sender_crashed(self.index)

    def lose_disk(self) -> None:
        self.crash()
        self.disk.lose()
        self._answers_after = self.disk.end
        self._network.disk_lost(self.index)
        self._lost_disk = True

    def invoke(self, operation: Operation, strong: bool, session: int) -> None:
        replica = self.replica
        assert replica is not None, "clients of a replica that is down cannot reach it"
        heap = self._heap
        now = self.clock.read(heap.now)
        content = _encode((operation, strong, session))
        self._trace.add(heap.now, now, self.index, INVOKE, content)
        id = replica.invoke(operation, strong, session, now)
        self._recorder.invoked(self.index, session, id, operation, strong)
        self._issued(session, id)
        self._proceed()

    def receive(self, sender: int, data: bytes, message: Message | None) -> None:
        replica = self.replica
        if replica is None:
            self._network.lost += 1
            return
        if message is None:
            try:
                message = decode_message(data)
            except MalformedMessage:
                self._tally.malformed += 1
                return
        now_us = self._heap.now
        now = self.clock.read(now_us)
        self._trace.add(now_us, now, self.index, RECEIVE, data, sender)
        if type(message) is Snapshot and self._in_parts:
            replica.receive(brought(message, replica.intake()), sender, now)
        else:
            replica.receive(message, sender, now)
        self._proceed()

    def tick(self) -> None:
        replica = self.replica
        if replica is None:
            return
        now = self.clock.read(self._heap.now)
        self._trace.add(self._heap.now, now, self.index, TICK)
        replica.tick(now)
        self._proceed()

    # --- effects ------------------------------------------------------------------------------

    def _proceed(self) -> None:
        if not self._turn_us:
            self._end_turn()
        elif self._turn is None:
            self._turn = self._heap.after(self._turn_us, self._end_turn)

    def end_turn_now(self) -> None:
        """Whoever wants to know whether it is at rest must see all that it does."""
        if self._turn is not None:
            self._heap.cancel(self._turn)
            self._end_turn()

    def _end_turn(self) -> None:
        self._turn = None
        assert self.replica is not None
        self._carry_out(self.replica.take_effects())

    def _carry_out(self, effects: Effects) -> None:
        if effects.events:
            self._recorder.logged(self.index, effects.events)
        disk = self.disk
        if effects.images:
            self._append_around(effects.images, effects.persist)
        elif effects.persist:
            count = needed(effects.persist)
            if count:
                self._answers_after = disk.end + count
            disk.append(effects.persist)
        for draft in effects.snapshots:
            self._later(_Drawing(draft, disk.end, Array(), Array()))
        if effects.send or effects.respond or effects.events:
            if disk.durable == disk.end:
                self._leave(effects.events, effects.send, effects.respond)
            else:
                self._hold(effects)
        for task in effects.tasks:
            self.cpu.submit(task)

    def _append_around(
        self, images: tuple[ImageDraft | DrawnImage, ...], records: tuple[Record, ...]
    ) -> None:
        done = 0
        for draft in images:
            if done < draft.after:
                self.disk.append(records[done : draft.after])
                done = draft.after
            if isinstance(draft, DrawnImage):
                self.disk.append((decode_record(b"".join(draft.pieces())),))
                continue
            self._later(_Drawing(draft, self.disk.leave_room(), Array(), Array()))
        if done < len(records):
            self.disk.append(records[done:])
        self._answers_after = self.disk.end

    def _later(self, drawing: _Drawing) -> None:
        delay_us = self._drawing.randint(0, DRAWING_US_MAX)
        self._heap.after(delay_us, self._draw, self.incarnation, drawing)

    def _draw(self, incarnation: int, drawing: _Drawing) -> None:
        if self.replica is None or incarnation != self.incarnation:
            return
        draft, position, held, deleted = drawing
        if isinstance(draft, ImageDraft) and self._drawing.random() < GIVEN_UP:
            draft.registers.close()
            return
        found = draft.registers.take(self._drawing.choice(DRAWN_AT_ONCE))
        if found is not None:
            held.extend(found[0])
            deleted.extend(found[1])
            self._later(drawing)
        elif isinstance(draft, SnapshotDraft):
            snapshot = decode_message(b"".join(encoded(draft.snapshot, held, deleted)))
            self._held.append(_Held(position, (), (Send((draft.to,), snapshot),), ()))
            self._release()
        elif self.disk.durable > position:
            self.disk.put_image(position, b"".join(encoded(draft.image, held, deleted)))
        else:
            self._later(drawing)

    def _hold(self, effects: Effects) -> None:
        at_once, send = self._proposals.first(effects.send, self.disk.end, self.disk.durable)
        self._leave((), at_once, ())
        if effects.respond:
            self._held.append(_Held(self._answers_after, (), (), effects.respond))
        self._held.append(_Held(self.disk.end, effects.events, send, ()))
        self._release()

    def _release(self) -> None:
        durable, held = self.disk.durable, self._held
        while held and held[0].position <= durable:
            batch = held.popleft()
            self._leave(batch.events, batch.send, batch.respond)

    def _leave(
        self, events: tuple[Event, ...], send: Sequence[Send], respond: tuple[Response, ...]
    ) -> None:
        if events:
            self._recorder.became_known(self.index, events)
        for each in send:
            self._network.send(self.index, each.to, each.message)
        for response in respond:
            self._recorder.answered(self.index, response)
            self._respond(response)

    # --- execution ----------------------------------------------------------------------------

    def _run_task(self, task: Task) -> Execution:
        assert self.replica is not None
        return self.replica.run(task)

    def _task_done(self, task: Task, execution: Execution) -> None:
        replica = self.replica
        assert replica is not None
        now = self.clock.read(self._heap.now)
        outcome = self._trace.encoded(execution.outcome)
        content = _encode((task.number, task.work, task.request.id, outcome))
        self._trace.add(self._heap.now, now, self.index, COMPLETED, content)
        replica.completed(task, execution, now)
        if self._turn_us:
            for each in replica.take_tasks():
                self.cpu.submit(each)
        self._proceed()

    # --- what it waits for --------------------------------------------------------------------

    def unsettled(self) -> str | None:
        """Why this node has not come to rest, or None."""
        replica = self.replica
        if replica is None:
            return "is down"
        if not replica.idle() or not self.cpu.idle():
            return "is executing"
        if replica.waits_for() is not None:
            return "does not take part yet"
        if self._held or self.disk.durable != self.disk.end:
            return "waits for its disk"
        if tentative := len(replica.tentative_ids()):
            return f"has {tentative} tentative requests"
        return None
