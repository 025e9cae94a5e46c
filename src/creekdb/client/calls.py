"""One call: what it asked for, and what was answered so far."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from math import inf
from typing import Any, NamedTuple

from creekdb.client.errors import CallFailed, NotDone, OperationFailed, Unknown
from creekdb.errors import UsageError
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome
from creekdb.wire.deduplication import describe_call
from creekdb.wire.messages import CallRequest as CallMessage
from creekdb.wire.messages import CallResponse

TENTATIVE, STABLE, FINAL = "tentative", "stable", "final"


class FinalOutcome(NamedTuple):
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
        "_failure",
        "_responses",
        "_waiters",
        "attempts",
        "deadline",
        "has_response",
        "id",
        "is_complete",
        "message",
        "query_outcome",
        "rejected_by",
        "rejection",
        "timeout_s",
    )

    def __init__(self, message: CallMessage, timeout: float | None) -> None:
        self.message = message
        self.id: Dot | None = None
        """Once a replica has issued it: for calls that are to come `after` this one."""
        self.attempts = 0
        """At how many replicas it may have been done."""
        self.rejected_by: frozenset[int] = frozenset()
        """Replicas that did not want it, and sent it elsewhere."""
        self.rejection: NotDone | None = None
        """What the last of them said."""
        self.query_outcome: Callable[[], Awaitable[Any]] | None = None
        """Once its replica is gone: asks another one how it ended, as (value, error); or None."""
        self.timeout_s = timeout
        self.deadline = inf
        """When it is too late for the answer that was asked for, in the time of the loop."""
        self.has_response = False
        """Is there what was asked for?"""
        self.is_complete = False
        """Will no more answers come?"""
        self._responses: list[CallResponse] = []
        self._failure: CallFailed | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        how = "strong" if self.message.strong else "weak"
        told = "no answer yet"
        if self._failure is not None:
            told = f"{type(self._failure).__name__}: {self._failure}"
        elif self._responses:
            last = self._responses[-1]
            told = f"{repr(last.value) if last.error is None else last.error}, {last.kind}"
        called = describe_call(Operation(self.message.operation, self.message.arguments))
        return f"<{how} call {called}: {told}>"

    def __await__(self) -> Generator[Any, None, Any]:
        while not self.has_response:
            if self._failure is not None:
                raise self._failure
            yield from self._wait_for_change()
        return _value_or_raise(self._responses[-1 if self.message.strong else 0])

    @property
    def tentative(self) -> Coroutine[Any, Any, Any]:
        """The first answer, of whatever kind."""
        return self._value_of(TENTATIVE, STABLE, FINAL)

    @property
    def stable(self) -> Coroutine[Any, Any, Any]:
        """The answer that does not change any more."""
        return self._value_of(STABLE, FINAL)

    @property
    def final(self) -> Coroutine[Any, Any, FinalOutcome]:
        """The same, with whether it is another than the first one."""
        return self._final()

    @property
    def is_local_read(self) -> bool:
        """Did it only read, weakly? Then there is one answer and no more."""
        return self.id is not None and self.id.event < 0

    async def __aiter__(self) -> AsyncIterator[CallResponse]:
        told = 0
        while True:
            while told < len(self._responses):
                told += 1
                yield self._responses[told - 1]
            if self._failure is not None:
                await self._recover_outcome(self._failure)
                continue
            if self.is_complete:
                return
            await self._wait_for_change()

    # --- what the connection tells it -----------------------------------------------------------

    def add_response(self, answer: CallResponse) -> None:
        self._responses.append(answer)
        is_last = answer.kind != TENTATIVE
        if is_last or not self.message.strong:
            self.has_response = True
        if is_last or self.is_local_read:
            self.is_complete = True
        if self._waiters:
            self._notify_waiters()

    def fail(self, failure: CallFailed) -> None:
        if not self.is_complete:
            self._failure = failure
            self.is_complete = True
            self._notify_waiters()

    # --- inside ---------------------------------------------------------------------------------

    async def _value_of(self, *kinds: str) -> Any:
        return _value_or_raise(await self._first_of_kind(kinds))

    async def _final(self) -> FinalOutcome:
        answer = await self._first_of_kind((FINAL, STABLE))
        return FinalOutcome(_value_or_raise(answer), answer.changed)

    async def _first_of_kind(self, kinds: tuple[str, ...]) -> CallResponse:
        """For the answer that was asked for, the connection decides when it is too late. Whoever
        wants to know how a weak call ended, waits as long for that, from now on."""
        is_more = TENTATIVE not in kinds and not self.message.strong
        try:
            async with asyncio.timeout(self.timeout_s if is_more else None):
                while True:
                    for answer in self._responses:
                        if answer.kind in kinds:
                            return answer
                    if self._failure is not None:
                        return await self._recover_outcome(self._failure)
                    if self.is_complete:
                        raise UsageError(
                            f"{self.message.operation} only reads: called weakly it has one "
                            f"answer, and none that is {kinds[0]}; call it strongly for that"
                        )
                    await self._wait_for_change()
        except TimeoutError:
            what = f"{self.message.operation} had no {kinds[0]} answer in {self.timeout_s:g} s"
            raise Unknown(what) from None

    async def _recover_outcome(self, failure: CallFailed) -> CallResponse:
        """As another replica knows it; or raise why its own one does not tell."""
        if self.query_outcome is None:
            raise failure
        try:
            found = await self.query_outcome()
        except CallFailed:
            found = None
        if found is None:
            raise failure
        if self._failure is not None:  # nobody else has asked meanwhile
            ended, first = Outcome(*found), self._responses[0]
            changed = not ended.same_as(Outcome(first.value, first.error))
            self._failure = None
            self.add_response(
                CallResponse(self.message.number, FINAL, ended.value, ended.error, changed)
            )
        return self._responses[-1]

    def _wait_for_change(self) -> "asyncio.Future[None]":
        """Until there is more."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiting)
        return waiting

    def _notify_waiters(self) -> None:
        waiting, self._waiters = self._waiters, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def _value_or_raise(answer: CallResponse) -> Any:
    if answer.error is not None:
        raise OperationFailed(answer.error)
    return answer.value
