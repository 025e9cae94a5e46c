"""The driver of a live replica: feeds it inputs, and carries out its effects.

Rules it keeps, as `creek.protocol.effects` asks:

- What a batch sends and answers leaves only when its records, and all before them, are durable. So
  it leaves in order. (Where tentative answers need not survive a crash, they leave at once.)
- Tasks are run in turns, and a turn ends after a while: messages, ticks and other clients come in
  between, however much there is to execute.

A replica whose disk fails takes no further part until it works again: for the others it is as if
the network were broken.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from creek.cluster.recorder import Recorder, steady_us
from creek.errors import StorageFault
from creek.protocol.dots import Dot
from creek.protocol.effects import Digest, Effects, Event, Kind, Response, Send, Task
from creek.protocol.messages import Message, Record
from creek.protocol.request import Operation
from creek.schemes.contract import Replica

TURN_S: Final = 0.004
"""How long tasks are run before others have their turn."""


class Log(Protocol):
    """What the driver needs of a journal."""

    durable: int
    failed: StorageFault | None

    def append(self, records: Sequence[Record]) -> int: ...


class _Held(NamedTuple):
    position: int
    send: tuple[Send, ...]
    respond: tuple[Response, ...]


class Driver:
    def __init__(
        self,
        replica: Replica,
        journal: Log,
        *,
        send: Callable[[tuple[int, ...], Message], None],
        respond: Callable[[Response], None],
        observe: Callable[[tuple[Event, ...]], None],
        compare: Callable[[Digest], None],
        tentative_at_once: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        """`observe` and `recorder` see everything before anybody else can know of it; `compare`
        gets the digests of the state."""
        self.replica = replica
        self._journal = journal
        self._send = send
        self._respond = respond
        self._observe = observe
        self._compare = compare
        self._tentative_at_once = tentative_at_once
        self._recorder = recorder
        self._end = journal.durable
        """The position behind the last record."""
        self._held: deque[_Held] = deque()
        self._tasks: deque[Task] = deque()
        self._working = False
        self._halted = False
        self._loop = asyncio.get_running_loop()
        self.executions = 0
        self.executing_s = 0.0

    # --- inputs -------------------------------------------------------------------------------

    def recover(self, records: Iterable[Record]) -> None:
        self.replica.recover(records)
        self._carry_out()

    def invoke(self, operation: Operation, strong: bool, session: int) -> Dot:
        at_us = steady_us()
        id = self.replica.invoke(operation, strong, session, now_us())
        if self._recorder is not None:
            self._recorder.invoked(at_us, id, operation, strong, session)
        self._carry_out()
        return id

    def receive(self, message: Message, sender: int) -> None:
        if self._journal.failed is None and not self._halted:
            self.replica.receive(message, sender, now_us())
            self._carry_out()

    def tick(self) -> None:
        if self._journal.failed is None and not self._halted:
            self.replica.tick(now_us())
            self._carry_out()

    def halt(self) -> None:
        """Take no further part, and let nothing leave any more."""
        self._halted = True
        self._held.clear()
        self._tasks.clear()

    @property
    def backlog(self) -> int:
        """Tasks that wait for their turn, and batches that wait for the disk."""
        return len(self._tasks) + len(self._held)

    # --- effects ------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        effects, recorder = self.replica.take_effects(), self._recorder
        if effects.events:
            if recorder is not None:
                recorder.happened(effects.events)
            self._observe(effects.events)
        if effects.persist:
            self._end = self._journal.append(effects.persist)
        if recorder is not None and effects.events:
            recorder.until(self._end)
        for digest in effects.digests:
            self._compare(digest)
        if effects.send or effects.respond:
            self._let_go(effects)
        if effects.tasks:
            self._tasks.extend(effects.tasks)
            if not self._working:
                self._working = True
                self._loop.call_soon(self._work)

    def _let_go(self, effects: Effects) -> None:
        respond = effects.respond
        if self._tentative_at_once and respond:
            at_once = tuple([each for each in respond if each.kind is Kind.TENTATIVE])
            self._answer(at_once)
            respond = tuple([each for each in respond if each.kind is not Kind.TENTATIVE])
        if self._end <= self._journal.durable:
            self._leave(effects.send, respond)
        else:
            self._held.append(_Held(self._end, effects.send, respond))

    def release(self) -> None:
        """More has become durable."""
        held, durable = self._held, self._journal.durable
        if self._recorder is not None:
            self._recorder.durable(durable)
        while held and held[0].position <= durable:
            batch = held.popleft()
            self._leave(batch.send, batch.respond)

    def _leave(self, send: tuple[Send, ...], respond: tuple[Response, ...]) -> None:
        if self._recorder is not None:
            self._recorder.durable(self._journal.durable)
        for each in send:
            self._send(each.to, each.message)
        if respond:
            self._answer(respond)

    def _answer(self, responses: tuple[Response, ...]) -> None:
        if self._recorder is not None:
            self._recorder.answered(responses)
        for response in responses:
            self._respond(response)

    # --- execution ----------------------------------------------------------------------------

    def _work(self) -> None:
        """A turn."""
        replica, tasks = self.replica, self._tasks
        begun = now = time.monotonic()
        while tasks:
            task = tasks.popleft()
            replica.completed(task, replica.run(task), now_us())
            self.executions += 1
            self._carry_out()
            now = time.monotonic()
            if now >= begun + TURN_S:
                break
        self.executing_s += now - begun
        self._working = bool(tasks)
        if self._working:
            self._loop.call_soon(self._work)


def now_us() -> int:
    return time.time_ns() // 1000
