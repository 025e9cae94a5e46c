"""One call: what it asked for, and what was answered so far."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from math import inf
from typing import Any, NamedTuple

from creekdb.client.errors import CallFailed, NotDone, OperationFailed, Unknown
from creekdb.errors import UsageError
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome
from creekdb.wire.deduplication import described
from creekdb.wire.messages import Answer
from creekdb.wire.messages import Call as CallMessage

TENTATIVE, STABLE, FINAL = "tentative", "stable", "final"


class Final(NamedTuple):
    """How a weak call ended."""

    value: Any
    """What it answered in the place that it has for good."""
    changed: bool
    """Is it another answer than was given first?"""


class Call:
    """Awaited, it gives what was asked for: of a weak call the first answer, of a strong one the
    stable one. `tentative`, `stable` and `final` wait for just that; iterated over, it gives all
    answers as they come."""

    __slots__ = (
        "_answers",
        "_failure",
        "_waiting",
        "asked",
        "elsewhere",
        "id",
        "is_answered",
        "is_over",
        "message",
        "refusal",
        "refused_by",
        "timeout",
        "until",
    )

    def __init__(self, message: CallMessage, timeout: float | None) -> None:
        self.message = message
        self.id: Dot | None = None
        """Once a replica has issued it: for calls that are to come `after` this one."""
        self.asked = 0
        """At how many replicas it may have been done."""
        self.refused_by: frozenset[int] = frozenset()
        """Replicas that did not want it, and sent it elsewhere."""
        self.refusal: NotDone | None = None
        """What the last of them said."""
        self.elsewhere: Callable[[], Awaitable[Any]] | None = None
        """Once its replica is gone: asks another one how it ended, as (value, error); or None."""
        self.timeout = timeout
        self.until = inf
        """When it is too late for the answer that was asked for, in the time of the loop."""
        self.is_answered = False
        """Is there what was asked for?"""
        self.is_over = False
        """Will no more answers come?"""
        self._answers: list[Answer] = []
        self._failure: CallFailed | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        how = "strong" if self.message.strong else "weak"
        told = "no answer yet"
        if self._failure is not None:
            told = f"{type(self._failure).__name__}: {self._failure}"
        elif self._answers:
            last = self._answers[-1]
            told = f"{repr(last.value) if last.error is None else last.error}, {last.kind}"
        called = described(Operation(self.message.operation, self.message.arguments))
        return f"<{how} call {called}: {told}>"

    def __await__(self) -> Generator[Any, None, Any]:
        while not self.is_answered:
            if self._failure is not None:
                raise self._failure
            yield from self._next()
        return _value(self._answers[-1 if self.message.strong else 0])

    @property
    def tentative(self) -> Coroutine[Any, Any, Any]:
        """The first answer, of whatever kind."""
        return self._value_of(TENTATIVE, STABLE, FINAL)

    @property
    def stable(self) -> Coroutine[Any, Any, Any]:
        """The answer that does not change any more."""
        return self._value_of(STABLE, FINAL)

    @property
    def final(self) -> Coroutine[Any, Any, Final]:
        """The same, with whether it is another than the first one."""
        return self._final()

    @property
    def was_local(self) -> bool:
        """Did it only read, weakly? Then there is one answer and no more."""
        return self.id is not None and self.id.event < 0

    async def __aiter__(self) -> AsyncIterator[Answer]:
        told = 0
        while True:
            while told < len(self._answers):
                told += 1
                yield self._answers[told - 1]
            if self._failure is not None:
                await self._ended(self._failure)
                continue
            if self.is_over:
                return
            await self._next()

    # --- what the connection tells it -----------------------------------------------------------

    def answered(self, answer: Answer) -> None:
        self._answers.append(answer)
        is_last = answer.kind != TENTATIVE
        if is_last or not self.message.strong:
            self.is_answered = True
        if is_last or self.was_local:
            self.is_over = True
        if self._waiting:
            self._wake()

    def failed(self, failure: CallFailed) -> None:
        if not self.is_over:
            self._failure = failure
            self.is_over = True
            self._wake()

    # --- inside ---------------------------------------------------------------------------------

    async def _value_of(self, *kinds: str) -> Any:
        return _value(await self._first(kinds))

    async def _final(self) -> Final:
        answer = await self._first((FINAL, STABLE))
        return Final(_value(answer), answer.changed)

    async def _first(self, kinds: tuple[str, ...]) -> Answer:
        """For the answer that was asked for, the connection decides when it is too late. Whoever
        wants to know how a weak call ended, waits as long for that, from now on."""
        is_more = TENTATIVE not in kinds and not self.message.strong
        try:
            async with asyncio.timeout(self.timeout if is_more else None):
                while True:
                    for answer in self._answers:
                        if answer.kind in kinds:
                            return answer
                    if self._failure is not None:
                        return await self._ended(self._failure)
                    if self.is_over:
                        raise UsageError(
                            f"{self.message.operation} only reads: called weakly it has one "
                            f"answer, and none that is {kinds[0]}; call it strongly for that"
                        )
                    await self._next()
        except TimeoutError:
            what = f"{self.message.operation} had no {kinds[0]} answer in {self.timeout:g} s"
            raise Unknown(what) from None

    async def _ended(self, failure: CallFailed) -> Answer:
        """As another replica knows it; or raise why its own one does not tell."""
        if self.elsewhere is None:
            raise failure
        try:
            found = await self.elsewhere()
        except CallFailed:
            found = None
        if found is None:
            raise failure
        if self._failure is not None:  # nobody else has asked meanwhile
            ended, first = Outcome(*found), self._answers[0]
            changed = not ended.same_as(Outcome(first.value, first.error))
            self._failure = None
            self.answered(Answer(self.message.number, FINAL, ended.value, ended.error, changed))
        return self._answers[-1]

    def _next(self) -> "asyncio.Future[None]":
        """Until there is more."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def _value(answer: Answer) -> Any:
    if answer.error is not None:
        raise OperationFailed(answer.error)
    return answer.value
