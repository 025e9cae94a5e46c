"""One call: its request, its responses so far, and its failure if there is one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from creekdb.client.errors import CallFailed, NotDone, OperationFailed, Unknown
from creekdb.errors import UsageError
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome
from creekdb.wire.deduplication import describe_call
from creekdb.wire.messages import CallRequest as CallMessage
from creekdb.wire.messages import CallResponse

Result = TypeVar("Result")


class FinalOutcome(NamedTuple, Generic[Result]):
    """Last response of a call."""

    value: Result
    """Return value of the operation at its final position in the order."""
    changed: bool
    """True if this response differs from the first one."""


class Call(msgspec.Struct, Generic[Result], eq=False):
    """A call in progress, with a response of the type `Result`.

    `await call` returns the first response of a weak call and the stable response of a strong call.
    `tentative`, `stable` and `final` wait for that response. `async for response in call` iterates
    over all responses as they arrive.

    All of these raise `OperationFailed` if the operation raised an error, `NotDone` if the call was
    not executed, and `Unknown` if its outcome is unknown. Iteration is different: an error of the
    operation is the `error` of its response.
    """

    message: CallMessage
    timeout_s: float | None
    id: Dot | None = None
    """Id of the call, for `after`; None until a replica has issued the call."""
    attempts: int = 0
    """Number of replicas that may have executed the call."""
    rejected_by: frozenset[int] = frozenset()
    """Replicas that rejected the call for a reason that other replicas may not have."""
    rejection: NotDone | None = None
    """Last of these rejections."""
    query_outcome: Callable[[], Awaitable[Any]] | None = None
    """Query for the outcome at another replica, set once the replica of the call is lost.

    Returns (value, error), or None if the cluster does not have the outcome.
    """
    deadline: float = inf
    """Time of the event loop until which the awaited response must arrive."""
    has_response: bool = False
    """True if the awaited response has arrived."""
    is_complete: bool = False
    """True if no more responses will arrive."""
    _responses: list[CallResponse] = []
    _failure: CallFailed | None = None
    _waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        level = "strong" if self.message.strong else "weak"
        state = "no response yet"
        if self._failure is not None:
            state = f"{type(self._failure).__name__}: {self._failure}"
        elif self._responses:
            last = self._responses[-1]
            state = f"{repr(last.value) if last.error is None else last.error}, {last.kind}"
        operation = describe_call(Operation(self.message.operation, self.message.arguments))
        return f"<{level} call {operation}: {state}>"

    def __await__(self) -> Generator[Any, None, Result]:
        while not self.has_response:
            if self._failure is not None:
                raise self._failure
            yield from self._wait_for_change()
        return self._value_or_raise(self._responses[-1 if self.message.strong else 0])

    @property
    def tentative(self) -> Coroutine[Any, Any, Result]:
        """First response, tentative or not. `await call.tentative` returns its value."""
        return self._value_of(ResponseKind.TENTATIVE, ResponseKind.STABLE, ResponseKind.FINAL)

    @property
    def stable(self) -> Coroutine[Any, Any, Result]:
        """Stable response, which never changes. `await call.stable` returns its value.

        For a weak call this is the final response.
        """
        return self._value_of(ResponseKind.STABLE, ResponseKind.FINAL)

    @property
    def final(self) -> Coroutine[Any, Any, FinalOutcome[Result]]:
        """Last response. `await call.final` returns its value and whether it changed."""
        return self._final()

    @property
    def latest(self) -> CallResponse | None:
        """Last response so far, or None. Does not wait."""
        return self._responses[-1] if self._responses else None

    async def __aiter__(self) -> AsyncIterator[CallResponse]:
        yielded = 0
        while True:
            while yielded < len(self._responses):
                yielded += 1
                yield self._responses[yielded - 1]
            if self._failure is not None:
                await self._recover_outcome(self._failure)
                continue
            if self.is_complete:
                return
            await self._wait_for_change()

    # --- called by the router -------------------------------------------------------------------

    def add_response(self, response: CallResponse) -> None:
        """Record a response from the replica."""
        self._responses.append(response)
        is_last = response.kind != ResponseKind.TENTATIVE
        if is_last or not self.message.strong:
            self.has_response = True
        is_local_read = self.id is not None and self.id.event < 0
        if is_last or is_local_read:  # a local read has one tentative response and no other
            self.is_complete = True
        if self._waiters:
            self._notify_waiters()

    def fail(self, failure: CallFailed) -> None:
        """Record the failure of the call, unless the call is complete."""
        if not self.is_complete:
            self._failure = failure
            self.is_complete = True
            self._notify_waiters()

    # --- waiting --------------------------------------------------------------------------------

    async def _value_of(self, *kinds: ResponseKind) -> Result:
        return self._value_or_raise(await self._first_of_kind(kinds))

    async def _final(self) -> FinalOutcome[Result]:
        response = await self._first_of_kind((ResponseKind.FINAL, ResponseKind.STABLE))
        return FinalOutcome(self._value_or_raise(response), response.changed)

    async def _first_of_kind(self, kinds: tuple[ResponseKind, ...]) -> CallResponse:
        """Wait for the first response of one of these kinds.

        The router enforces the deadline of the awaited response. The wait for the final response
        of a weak call has the same timeout again, counted from now.
        """
        is_more = ResponseKind.TENTATIVE not in kinds and not self.message.strong
        try:
            async with asyncio.timeout(self.timeout_s if is_more else None):
                while True:
                    for response in self._responses:
                        if response.kind in kinds:
                            return response
                    if self._failure is not None:
                        return await self._recover_outcome(self._failure)
                    if self.is_complete:
                        raise UsageError(
                            f"{self.message.operation} has no {kinds[0]} response: a weak read has "
                            "one tentative response only; use a strong call"
                        )
                    await self._wait_for_change()
        except TimeoutError:
            operation, timeout = self.message.operation, f"{self.timeout_s:g} s"
            raise Unknown(f"{operation}: no {kinds[0]} response within {timeout}") from None

    async def _recover_outcome(self, failure: CallFailed) -> CallResponse:
        """Query the final response at another replica; raise `failure` if it is not available."""
        if self.query_outcome is None:
            raise failure
        try:
            result = await self.query_outcome()
        except CallFailed:
            result = None
        if result is None:
            raise failure
        if self._failure is not None:  # otherwise a concurrent query has set the response
            final, first = Outcome(*result), self._responses[0]
            changed = not final.same_as(Outcome(first.value, first.error))
            self._failure = None
            self.add_response(
                CallResponse(
                    self.message.number, ResponseKind.FINAL.value, final.value, final.error, changed
                )
            )
        return self._responses[-1]

    def _wait_for_change(self) -> "asyncio.Future[None]":
        """Return a future that resolves on the next response or failure."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def _notify_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _value_or_raise(self, response: CallResponse) -> Result:
        if response.error is None:
            value: Result = response.value
            return value
        first = self._responses[0]
        raise OperationFailed(
            response.error,
            kind=ResponseKind(response.kind),
            changed=response is not first and first.error is None,
            call=self,
        )
