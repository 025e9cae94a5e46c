"""The driver of a live replica: feeds it inputs, and carries out its effects.

Rules it keeps, as `creekdb.protocol.effects` asks:

- What a batch sends and answers leaves only when its records, and all before them, are durable, but
  for what `creekdb.protocol.durability` tells. So it leaves in order. (Where tentative answers need
  not survive a crash, they leave at once.)
- Records that nothing waits for yet are in no hurry: they are synced with the next that something
  waits for, or at the next tick.
- Inputs that come in one turn of the loop have their effects taken together. That is as if they had
  been taken one by one: each kind stays in order, and what leaves, leaves after the records.
- Tasks are run by an `Executor`, which may use the replica in another thread: whatever else uses it
  holds the executor's gate. When one is completed the next is asked for at once, and what came of
  the first is carried out with what comes of others.
- Images and snapshots are drawn in turns of their own; an image is written beside the records that
  come after it, and nothing waits for it. But one of a state that was brought is drawn already: all
  that comes after it waits for it, as for any record.
- What the replica raises, unless it refuses what it is asked, is a bug: it takes no further part.

A replica whose disk fails takes no further part until it works again: for the others it is as if
the network were broken. What only reads is answered meanwhile, unless it could show what was issued
here and is not durable: that may be lost, and nobody must have seen it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from creekdb.errors import CreekError, StorageFault
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import (
    EncodedCheckpoint,
    IncomingMessage,
    LazyCheckpoint,
    StreamedCheckpoint,
)
from creekdb.protocol.durability import ProposalFilter, required_record_count
from creekdb.protocol.effects import Digest, Effects, Event, Response, ResponseKind, Send, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast, Message, Record
from creekdb.protocol.request import Operation, Request
from creekdb.schemes.core.replica import Replica
from creekdb.server.observability.recorder import RecordingWriter, monotonic_us
from creekdb.server.runtime.executors import Executor, NoLock
from creekdb.server.storage.checkpoint_writer import CheckpointWriter, EncodedSnapshot
from creekdb.server.storage.segment_writer import CheckpointSlot

CAST_REQUESTS_MAX: Final = 256
"""Requests in one message."""

_Result = TypeVar("_Result")


class JournalPort(Protocol):
    """What the driver needs of a journal."""

    durable_position: int
    fault: StorageFault | None

    def append(self, records: Sequence[Record], hurry: bool = True) -> int: ...

    def request_sync(self) -> None: ...

    def append_checkpoint(self, pieces: Iterable[bytes]) -> int: ...

    def reserve_checkpoint(self) -> CheckpointSlot: ...

    def write_checkpoint(
        self, room: CheckpointSlot, pieces: Iterable[bytes], over: Callable[[], None]
    ) -> None: ...


class _PendingBatch(NamedTuple):
    position: int
    send: Sequence[Send]
    respond: Sequence[Response]
    snapshot: EncodedSnapshot | None = None


class Driver:
    def __init__(
        self,
        replica: Replica,
        journal: JournalPort,
        executor: Executor,
        *,
        send: Callable[[tuple[int, ...], Message], None],
        send_snapshot: Callable[[EncodedSnapshot], None],
        respond: Callable[[Sequence[Response]], None],
        observe: Callable[[tuple[Event, ...]], None],
        compare: Callable[[Digest], None],
        broke: Callable[[Exception], None],
        tentative_at_once: bool = False,
        recorder: RecordingWriter | None = None,
    ) -> None:
        """`observe` and `recorder` see everything before anybody else can know of it; `compare`
        gets the digests of the state; `broke` is called when there is a bug."""
        self.replica = replica
        self._journal = journal
        self._send = send
        self._send_snapshot = send_snapshot
        self._checkpoint_writer = CheckpointWriter(journal, executor.lock, self._release_snapshot)
        self._respond = respond
        self._observe = observe
        self._compare = compare
        self._on_internal_error = broke
        self._responds_before_durable = tentative_at_once
        self._recorder = recorder
        self._end_position = journal.durable_position
        """The position behind the last record."""
        self._response_position = self._end_position
        """The same, but for decisions that it ends with: no answer waits for those."""
        self._proposals = ProposalFilter()
        self._released_position = self._end_position
        """The position up to which everything has left."""
        self._has_unjournaled_request = False
        """Is a request issued here whose records are not with the journal yet?"""
        self._issued_position = self._end_position
        """The position behind the last record of a request that was issued here."""
        self._pending: deque[_PendingBatch] = deque()
        self._is_halted = False
        self._is_apply_scheduled = False
        self._loop = asyncio.get_running_loop()
        self.task_observer: Callable[[tuple[Task, ...]], None] | None = None
        """Sees them before they run, where somebody looks on."""
        self.executor = executor
        self._lock = None if isinstance(executor.lock, NoLock) else executor.lock
        """None: the replica is shared with nobody, as mostly, and each step is spared a gate."""
        executor.start(replica, self._completed)

    # --- inputs -------------------------------------------------------------------------------

    def recover(self, records: Iterable[Record]) -> None:
        self._step(self.replica.recover, records)
        self.apply_effects()

    def invoke(
        self, operation: Operation, strong: bool, session: int, after: tuple[Dot, ...] = ()
    ) -> Dot:
        recorder = self._recorder
        at_us = 0 if recorder is None else monotonic_us()
        id = self._step(self.replica.invoke, operation, strong, session, wall_clock_us(), after)
        self._has_unjournaled_request = self._has_unjournaled_request or id.event > 0
        if recorder is not None:
            recorder.record_invocation(at_us, id, operation, strong, session)
        self._schedule_apply()
        return id

    def receive(self, message: IncomingMessage, sender: int) -> None:
        if self._journal.fault is None and not self._is_halted:
            self._step(self.replica.receive, message, sender, wall_clock_us())
            self._schedule_apply()

    def tick(self) -> None:
        if self._journal.fault is None and not self._is_halted:
            self._step(self.replica.tick, wall_clock_us())
            self._schedule_apply()

    def lazy_checkpoint(self) -> LazyCheckpoint:
        """Whoever takes registers of it holds the gate of the executor."""
        with self.executor.lock:
            return self.replica.lazy_checkpoint()

    def _completed(self, task: Task, execution: ExecutionResult) -> None:
        if not self._is_halted:
            self._submit(self._step(self._complete, task, execution, wall_clock_us()))
            if self.executor.pending_count():
                self._schedule_apply()
            else:
                self.apply_effects()

    def _complete(self, task: Task, execution: ExecutionResult, now: int) -> tuple[Task, ...]:
        self.replica.completed(task, execution, now)
        return self.replica.take_tasks()

    def _step(self, step: Callable[..., _Result], *arguments: object) -> _Result:
        gate = self._lock
        try:
            if gate is None:
                return step(*arguments)
            with gate:
                return step(*arguments)
        except CreekError:
            raise
        except Exception as error:
            self._on_internal_error(error)
            raise

    def halt(self) -> None:
        """Take no further part, and let nothing leave any more."""
        self._is_halted = True
        self._pending.clear()
        self._checkpoint_writer.halt()
        self.executor.halt()

    @property
    def executions(self) -> int:
        return self.executor.executions

    @property
    def execution_time_s(self) -> float:
        return self.executor.execution_time_s

    @property
    def backlog(self) -> int:
        """What is to be carried out in this turn, tasks that wait for theirs, and batches that wait
        for the disk: with none of them, the replica has done all that it can."""
        return self._is_apply_scheduled + self.executor.pending_count() + len(self._pending)

    @property
    def pending_batches(self) -> int:
        """Batches that wait for the disk."""
        return len(self._pending)

    # --- effects ------------------------------------------------------------------------------

    def _schedule_apply(self) -> None:
        """Carry out together what all inputs of this turn of the loop ask for."""
        if not self._is_apply_scheduled:
            self._is_apply_scheduled = True
            self._loop.call_soon(self.apply_effects)

    def apply_effects(self) -> None:
        self._is_apply_scheduled = False
        if self._is_halted:
            return
        effects, recorder = self._step(self.replica.take_effects), self._recorder
        if effects.events:
            if recorder is not None:
                recorder.record_events(effects.events)
            self._observe(effects.events)
        if effects.persist or effects.checkpoints:
            self._append(effects)
        if self._has_unjournaled_request:
            self._has_unjournaled_request, self._issued_position = False, self._end_position
        if recorder is not None and effects.events:
            recorder.mark_position(self._end_position)
        for digest in effects.digests:
            self._compare(digest)
        for draft in effects.snapshots:
            self._checkpoint_writer.add_snapshot(draft, self._end_position)
        if effects.send or effects.respond:
            self._release_or_hold(effects.send, effects.respond)
        self._submit(effects.tasks)

    def _submit(self, tasks: tuple[Task, ...]) -> None:
        if tasks:
            if self.task_observer is not None:
                self.task_observer(tasks)
            self.executor.submit(tasks)

    def _append(self, effects: Effects) -> None:
        hurry = bool(effects.send or effects.respond or effects.snapshots)
        if effects.checkpoints:
            self._append_with_checkpoints(effects.checkpoints, effects.persist)
            self._response_position = self._end_position
            return
        count = required_record_count(effects.persist)
        if count:
            self._response_position = self._end_position + count
        self._end_position = self._journal.append(effects.persist, hurry)

    def _append_with_checkpoints(
        self, images: Sequence[StreamedCheckpoint | EncodedCheckpoint], records: Sequence[Record]
    ) -> None:
        done = 0
        for draft in images:
            if done < draft.preceding_records:
                self._journal.append(records[done : draft.preceding_records])
                done = draft.preceding_records
            if isinstance(draft, EncodedCheckpoint):
                self._end_position = self._journal.append_checkpoint(draft.chunks())
                continue
            room = self._journal.reserve_checkpoint()
            self._end_position = room.position + 1
            self._checkpoint_writer.add_checkpoint(draft, room)
        if done < len(records):
            self._end_position = self._journal.append(records[done:])

    def _release_snapshot(self, position: int, snapshot: EncodedSnapshot) -> None:
        if self._is_halted:
            return
        if position <= self._journal.durable_position:
            self._send_snapshot(snapshot)
        else:
            self._pending.append(_PendingBatch(position, (), (), snapshot))
            self._journal.request_sync()

    def _release_or_hold(self, send: Sequence[Send], respond: Sequence[Response]) -> None:
        if self._responds_before_durable and respond:
            self._send_responses([each for each in respond if each.kind is ResponseKind.TENTATIVE])
            respond = [each for each in respond if each.kind is not ResponseKind.TENTATIVE]
        durable = self._journal.durable_position
        # What is held may be durable by now, before anybody said so: nothing overtakes it.
        if not self._pending and self._end_position <= durable:
            self._released_position = self._end_position
            self._transmit(send, respond)
            return
        at_once, rest = self._proposals.split(send, self._end_position, durable)
        if self._journal.fault is not None:
            respond = self._respond_to_reads(respond)
        else:
            send = rest
            answers: Sequence[Response] = ()
            if not self._pending and self._response_position <= durable:
                answers, respond = respond, ()
            if at_once or answers:
                self._transmit(at_once, answers)
        if respond:
            self._pending.append(_PendingBatch(self._response_position, (), respond))
        if send:
            self._pending.append(_PendingBatch(self._end_position, send, ()))
        self._journal.request_sync()

    @property
    def has_volatile_request(self) -> bool:
        """Was something issued here that is not durable, and must not be seen before it is?"""
        if self._responds_before_durable:
            return False
        return self._has_unjournaled_request or self._issued_position > self._released_position

    def release_reads(self) -> None:
        """What only reads need not wait for it."""
        self._pending = deque(
            [held._replace(respond=self._respond_to_reads(held.respond)) for held in self._pending]
        )

    def _respond_to_reads(self, respond: Sequence[Response]) -> Sequence[Response]:
        """Answers what the disk has nothing to do with, and gives back the others."""
        if not respond or self.has_volatile_request:
            return respond
        self._send_responses([each for each in respond if each.id.event < 0])
        return [each for each in respond if each.id.event > 0]

    def release(self) -> None:
        """More has become durable."""
        held, durable = self._pending, self._journal.durable_position
        self._released_position = durable
        if self._recorder is not None:
            self._recorder.record_durable(durable)
        send: list[Send] = []
        respond: list[Response] = []
        while held and held[0].position <= durable:
            batch = held.popleft()
            send += batch.send
            respond += batch.respond
            if batch.snapshot is not None:
                self._send_snapshot(batch.snapshot)
        self._transmit(send, respond)

    def _transmit(self, send: Sequence[Send], respond: Sequence[Response]) -> None:
        if self._recorder is not None:
            self._recorder.record_durable(self._journal.durable_position)
        if respond:
            self._send_responses(respond)
        for each in merge_casts(send) if len(send) > 1 else send:
            self._send(each.to, each.message)

    def _send_responses(self, responses: Sequence[Response]) -> None:
        if self._recorder is not None:
            self._recorder.record_responses(responses)
        self._respond(responses)


def merge_casts(sends: Sequence[Send]) -> Iterator[Send]:
    """The same, with requests that are cast to the same replicas in one message."""
    casts: dict[tuple[int, ...], list[Request]] = {}
    others: list[Send] = []
    for each in sends:
        if type(each.message) is Cast:
            casts.setdefault(each.to, []).extend(each.message.requests)
        else:
            others.append(each)
    for to, requests in casts.items():
        for first in range(0, len(requests), CAST_REQUESTS_MAX):
            yield Send(to, Cast(tuple(requests[first : first + CAST_REQUESTS_MAX])))
    yield from others


def wall_clock_us() -> int:
    return time.time_ns() // 1000
