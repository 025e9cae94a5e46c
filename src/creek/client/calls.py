"""One call: what it asked for, and what was answered so far."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from typing import Any, NamedTuple

from creek.client.errors import CallFailed, OperationFailed, Unknown
from creek.cluster import wire
from creek.protocol.dots import Dot

TENTATIVE, STABLE, FINAL = "tentative", "stable", "final"


class Final(NamedTuple):
    """How a weak call ended."""

    value: Any
    changed: bool
    """Is it another answer than was given first?"""


class Call:
    """Awaited, it gives what was asked for: of a weak call the first answer, of a strong one the
    stable one. `tentative`, `stable` and `final` wait for just that; iterated over, it gives all
    answers as they come."""

    def __init__(self, message: wire.Call, timeout: float | None) -> None:
        self.message = message
        self.id: Dot | None = None
        """Once a replica has issued it: for calls that are to come `after` this one."""
        self.sent = False
        self._answers: list[wire.Answer] = []
        self._failure: CallFailed | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._timeout = timeout

    def __await__(self) -> Generator[Any, None, Any]:
        return (self.stable if self.message.strong else self.tentative).__await__()

    @property
    def tentative(self) -> Coroutine[Any, Any, Any]:
        """The first answer, of whatever kind."""
        return self._value_of(TENTATIVE, STABLE, FINAL)

    @property
    def stable(self) -> Coroutine[Any, Any, Any]:
        return self._value_of(STABLE, FINAL)

    @property
    def final(self) -> Coroutine[Any, Any, Final]:
        return self._final()

    @property
    def is_over(self) -> bool:
        """Will no more answers come?"""
        if self._failure is not None:
            return True
        return bool(self._answers) and self._answers[-1].kind in (STABLE, FINAL)

    async def __aiter__(self) -> AsyncIterator[wire.Answer]:
        told = 0
        while True:
            while told < len(self._answers):
                told += 1
                yield self._answers[told - 1]
            if self.is_over:
                return
            await self._more()

    # --- what the connection tells it -----------------------------------------------------------

    def answered(self, answer: wire.Answer) -> None:
        self._answers.append(answer)
        self._wake()

    def failed(self, failure: CallFailed) -> None:
        if not self.is_over:
            self._failure = failure
            self._wake()

    # --- inside ---------------------------------------------------------------------------------

    async def _value_of(self, *kinds: str) -> Any:
        answer = await self._first(kinds)
        if answer.error is not None:
            raise OperationFailed(answer.error)
        return answer.value

    async def _final(self) -> Final:
        answer = await self._first((STABLE, FINAL))
        if answer.error is not None:
            raise OperationFailed(answer.error)
        return Final(answer.value, answer.changed)

    async def _first(self, kinds: tuple[str, ...]) -> wire.Answer:
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    for answer in self._answers:
                        if answer.kind in kinds:
                            return answer
                    if self._failure is not None:
                        raise self._failure
                    await self._more()
        except TimeoutError:
            what = f"{self.message.operation} had no {kinds[0]} answer in {self._timeout:g} s"
            raise Unknown(what) from None

    async def _more(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
