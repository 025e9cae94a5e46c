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
from creekdb.execution.result import Execution
from creekdb.protocol.checkpoint.stream import Draft, DrawnImage, Given, ImageDraft
from creekdb.protocol.durability import Proposals, needed
from creekdb.protocol.effects import Digest, Effects, Event, Kind, Response, Send, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast, Message, Record
from creekdb.protocol.request import Operation, Request
from creekdb.schemes.core.replica import Replica
from creekdb.server.observability.recorder import Recorder, steady_us
from creekdb.server.runtime.executors import Executor, NoGate
from creekdb.server.storage.checkpoint_writer import Drawings, DrawnSnapshot
from creekdb.server.storage.segment_writer import Room

CAST_MAX: Final = 256
"""Requests in one message."""

_Given = TypeVar("_Given")


class Log(Protocol):
    """What the driver needs of a journal."""

    durable: int
    failed: StorageFault | None

    def append(self, records: Sequence[Record], hurry: bool = True) -> int: ...

    def hurry(self) -> None: ...

    def append_image(self, pieces: Iterable[bytes]) -> int: ...

    def leave_room(self) -> Room: ...

    def put_image(self, room: Room, pieces: Iterable[bytes], over: Callable[[], None]) -> None: ...


class _Held(NamedTuple):
    position: int
    send: Sequence[Send]
    respond: Sequence[Response]
    snapshot: DrawnSnapshot | None = None


class Driver:
    def __init__(
        self,
        replica: Replica,
        journal: Log,
        executor: Executor,
        *,
        send: Callable[[tuple[int, ...], Message], None],
        send_snapshot: Callable[[DrawnSnapshot], None],
        respond: Callable[[Sequence[Response]], None],
        observe: Callable[[tuple[Event, ...]], None],
        compare: Callable[[Digest], None],
        broke: Callable[[Exception], None],
        tentative_at_once: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        """`observe` and `recorder` see everything before anybody else can know of it; `compare`
        gets the digests of the state; `broke` is called when there is a bug."""
        self.replica = replica
        self._journal = journal
        self._send = send
        self._send_snapshot = send_snapshot
        self._drawings = Drawings(journal, executor.gate, self._leave_drawn)
        self._respond = respond
        self._observe = observe
        self._compare = compare
        self._broke = broke
        self._tentative_at_once = tentative_at_once
        self._recorder = recorder
        self._end = journal.durable
        """The position behind the last record."""
        self._answers_after = self._end
        """The same, but for decisions that it ends with: no answer waits for those."""
        self._proposals = Proposals()
        self._released = self._end
        """The position up to which everything has left."""
        self._issued = False
        """Is a request issued here whose records are not with the journal yet?"""
        self._issued_end = self._end
        """The position behind the last record of a request that was issued here."""
        self._held: deque[_Held] = deque()
        self._halted = False
        self._due = False
        self._loop = asyncio.get_running_loop()
        self.on_tasks: Callable[[tuple[Task, ...]], None] | None = None
        """Sees them before they run, where somebody looks on."""
        self.executor = executor
        self._gate = None if isinstance(executor.gate, NoGate) else executor.gate
        """None: the replica is shared with nobody, as mostly, and each step is spared a gate."""
        executor.begin(replica, self._completed)

    # --- inputs -------------------------------------------------------------------------------

    def recover(self, records: Iterable[Record]) -> None:
        self._step(self.replica.recover, records)
        self.carry_out()

    def invoke(
        self, operation: Operation, strong: bool, session: int, after: tuple[Dot, ...] = ()
    ) -> Dot:
        recorder = self._recorder
        at_us = 0 if recorder is None else steady_us()
        id = self._step(self.replica.invoke, operation, strong, session, now_us(), after)
        self._issued = self._issued or id.event > 0
        if recorder is not None:
            recorder.invoked(at_us, id, operation, strong, session)
        self._soon()
        return id

    def receive(self, message: Given, sender: int) -> None:
        if self._journal.failed is None and not self._halted:
            self._step(self.replica.receive, message, sender, now_us())
            self._soon()

    def tick(self) -> None:
        if self._journal.failed is None and not self._halted:
            self._step(self.replica.tick, now_us())
            self._soon()

    def draft(self) -> Draft:
        """Whoever takes registers of it holds the gate of the executor."""
        with self.executor.gate:
            return self.replica.draft()

    def _completed(self, task: Task, execution: Execution) -> None:
        if not self._halted:
            self._submit(self._step(self._complete, task, execution, now_us()))
            if self.executor.waiting():
                self._soon()
            else:
                self.carry_out()

    def _complete(self, task: Task, execution: Execution, now: int) -> tuple[Task, ...]:
        self.replica.completed(task, execution, now)
        return self.replica.take_tasks()

    def _step(self, step: Callable[..., _Given], *arguments: object) -> _Given:
        gate = self._gate
        try:
            if gate is None:
                return step(*arguments)
            with gate:
                return step(*arguments)
        except CreekError:
            raise
        except Exception as error:
            self._broke(error)
            raise

    def halt(self) -> None:
        """Take no further part, and let nothing leave any more."""
        self._halted = True
        self._held.clear()
        self._drawings.halt()
        self.executor.halt()

    @property
    def executions(self) -> int:
        return self.executor.executions

    @property
    def executing_s(self) -> float:
        return self.executor.executing_s

    @property
    def backlog(self) -> int:
        """What is to be carried out in this turn, tasks that wait for theirs, and batches that wait
        for the disk: with none of them, the replica has done all that it can."""
        return self._due + self.executor.waiting() + len(self._held)

    @property
    def held(self) -> int:
        """Batches that wait for the disk."""
        return len(self._held)

    # --- effects ------------------------------------------------------------------------------

    def _soon(self) -> None:
        """Carry out together what all inputs of this turn of the loop ask for."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.carry_out)

    def carry_out(self) -> None:
        self._due = False
        if self._halted:
            return
        effects, recorder = self._step(self.replica.take_effects), self._recorder
        if effects.events:
            if recorder is not None:
                recorder.happened(effects.events)
            self._observe(effects.events)
        if effects.persist or effects.images:
            self._append(effects)
        if self._issued:
            self._issued, self._issued_end = False, self._end
        if recorder is not None and effects.events:
            recorder.until(self._end)
        for digest in effects.digests:
            self._compare(digest)
        for draft in effects.snapshots:
            self._drawings.snapshot(draft, self._end)
        if effects.send or effects.respond:
            self._let_go(effects.send, effects.respond)
        self._submit(effects.tasks)

    def _submit(self, tasks: tuple[Task, ...]) -> None:
        if tasks:
            if self.on_tasks is not None:
                self.on_tasks(tasks)
            self.executor.submit(tasks)

    def _append(self, effects: Effects) -> None:
        hurry = bool(effects.send or effects.respond or effects.snapshots)
        if effects.images:
            self._append_around(effects.images, effects.persist)
            self._answers_after = self._end
            return
        count = needed(effects.persist)
        if count:
            self._answers_after = self._end + count
        self._end = self._journal.append(effects.persist, hurry)

    def _append_around(
        self, images: Sequence[ImageDraft | DrawnImage], records: Sequence[Record]
    ) -> None:
        done = 0
        for draft in images:
            if done < draft.after:
                self._journal.append(records[done : draft.after])
                done = draft.after
            if isinstance(draft, DrawnImage):
                self._end = self._journal.append_image(draft.pieces())
                continue
            room = self._journal.leave_room()
            self._end = room.position + 1
            self._drawings.image(draft, room)
        if done < len(records):
            self._end = self._journal.append(records[done:])

    def _leave_drawn(self, position: int, snapshot: DrawnSnapshot) -> None:
        if self._halted:
            return
        if position <= self._journal.durable:
            self._send_snapshot(snapshot)
        else:
            self._held.append(_Held(position, (), (), snapshot))
            self._journal.hurry()

    def _let_go(self, send: Sequence[Send], respond: Sequence[Response]) -> None:
        if self._tentative_at_once and respond:
            self._answer([each for each in respond if each.kind is Kind.TENTATIVE])
            respond = [each for each in respond if each.kind is not Kind.TENTATIVE]
        durable = self._journal.durable
        # What is held may be durable by now, before anybody said so: nothing overtakes it.
        if not self._held and self._end <= durable:
            self._released = self._end
            self._leave(send, respond)
            return
        at_once, rest = self._proposals.first(send, self._end, durable)
        if self._journal.failed is not None:
            respond = self._answer_reads(respond)
        else:
            send = rest
            answers: Sequence[Response] = ()
            if not self._held and self._answers_after <= durable:
                answers, respond = respond, ()
            if at_once or answers:
                self._leave(at_once, answers)
        if respond:
            self._held.append(_Held(self._answers_after, (), respond))
        if send:
            self._held.append(_Held(self._end, send, ()))
        self._journal.hurry()

    @property
    def may_lose_what_it_issued(self) -> bool:
        """Was something issued here that is not durable, and must not be seen before it is?"""
        if self._tentative_at_once:
            return False
        return self._issued or self._issued_end > self._released

    def disk_failed(self) -> None:
        """What only reads need not wait for it."""
        self._held = deque(
            [held._replace(respond=self._answer_reads(held.respond)) for held in self._held]
        )

    def _answer_reads(self, respond: Sequence[Response]) -> Sequence[Response]:
        """Answers what the disk has nothing to do with, and gives back the others."""
        if not respond or self.may_lose_what_it_issued:
            return respond
        self._answer([each for each in respond if each.id.event < 0])
        return [each for each in respond if each.id.event > 0]

    def release(self) -> None:
        """More has become durable."""
        held, durable = self._held, self._journal.durable
        self._released = durable
        if self._recorder is not None:
            self._recorder.durable(durable)
        send: list[Send] = []
        respond: list[Response] = []
        while held and held[0].position <= durable:
            batch = held.popleft()
            send += batch.send
            respond += batch.respond
            if batch.snapshot is not None:
                self._send_snapshot(batch.snapshot)
        self._leave(send, respond)

    def _leave(self, send: Sequence[Send], respond: Sequence[Response]) -> None:
        if self._recorder is not None:
            self._recorder.durable(self._journal.durable)
        if respond:
            self._answer(respond)
        for each in together(send) if len(send) > 1 else send:
            self._send(each.to, each.message)

    def _answer(self, responses: Sequence[Response]) -> None:
        if self._recorder is not None:
            self._recorder.answered(responses)
        self._respond(responses)


def together(sends: Sequence[Send]) -> Iterator[Send]:
    """The same, with requests that are cast to the same replicas in one message."""
    casts: dict[tuple[int, ...], list[Request]] = {}
    others: list[Send] = []
    for each in sends:
        if type(each.message) is Cast:
            casts.setdefault(each.to, []).extend(each.message.requests)
        else:
            others.append(each)
    for to, requests in casts.items():
        for first in range(0, len(requests), CAST_MAX):
            yield Send(to, Cast(tuple(requests[first : first + CAST_MAX])))
    yield from others


def now_us() -> int:
    return time.time_ns() // 1000
