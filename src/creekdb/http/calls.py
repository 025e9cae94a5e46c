"""Calls under way, and those who follow them.

What is kept is bounded: of the calls the last, by number and by the size of their answers, and of a
call's answers the last. Who follows a call that is forgotten hears that it is over.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from creekdb.http.backend import Said
from creekdb.http.schema import to_json
from creekdb.wire.messages import Answer, Issued, Refused

CALLS_MAX: Final = 16_384
BYTES_MAX: Final = 64 * 1024 * 1024
ANSWERS_MAX: Final = 64
LAST: Final = frozenset(("stable", "final"))
"""Kinds of answers that never change."""

_encode = msgspec.msgpack.Encoder().encode


def answer_body(answer: Answer) -> dict[str, Any]:
    return {
        "kind": answer.kind,
        "value": to_json(answer.value),
        "error": answer.error,
        "changed": answer.changed,
    }


class Call:
    def __init__(self, operation: str, strong: bool, has_one_answer: bool) -> None:
        """`has_one_answer`: it only reads, weakly."""
        self.operation = operation
        self.strong = strong
        self.has_one_answer = has_one_answer
        self.id = ""
        self.answers: list[Answer] = []
        self.dropped = 0
        """How many answers came before those."""
        self.refused: Refused | None = None
        """Why there is no answer; or, if it was issued, no last one."""
        self.is_over = False
        self.size = 0
        """Of its answers."""
        self.grew: Callable[[int], None] = lambda size: None
        self.enough: Callable[[], None] = lambda: None
        self._changed = asyncio.Event()

    def hear(self, said: Said) -> None:
        match said:
            case Issued(id=id):
                self.id = str(id)
            case Answer(kind=kind):
                self.answers.append(said)
                more = _size(said)
                if len(self.answers) > ANSWERS_MAX:
                    more -= _size(self.answers.pop(0))
                    self.dropped += 1
                self.size += more
                self.grew(more)
                self.is_over = kind in LAST or self.has_one_answer
            case Refused():
                self.refused = said
                self.is_over = True
        self._tell()

    def end(self) -> None:
        """Nothing more will be heard."""
        self.is_over = True
        self.enough()
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def body(self) -> dict[str, Any]:
        return {
            "call": self.id,
            "operation": self.operation,
            "consistency": "strong" if self.strong else "weak",
            "over": self.is_over,
            "answers": [answer_body(each) for each in self.answers],
        }

    async def change(self) -> None:
        await self._changed.wait()

    async def until_begun(self) -> None:
        while not (self.id or self.is_over):
            await self.change()

    async def first(self, kinds: frozenset[str]) -> Answer | None:
        """The first answer of these kinds that is known, once there is one; None if none comes."""
        while True:
            found = self.found(kinds)
            if found is not None or self.is_over:
                return found
            await self.change()

    def found(self, kinds: frozenset[str]) -> Answer | None:
        """The same, as far as it is known now."""
        return next((each for each in self.answers if each.kind in kinds), None)

    async def follow(self, beat_s: float) -> AsyncIterator[Answer | None]:
        """Its answers, from the first that is kept on; None when nothing came for a while."""
        told = 0
        while True:
            told = max(told, self.dropped)
            while told < self.dropped + len(self.answers):
                yield self.answers[told - self.dropped]
                told = max(told + 1, self.dropped)
            if self.is_over:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(beat_s):
                    await self.change()
                continue
            yield None


class Calls:
    """The last ones, by their identifiers."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self.size = 0
        """Of all their answers."""

    def __len__(self) -> int:
        return len(self._calls)

    def keep(self, call: Call) -> None:
        self._calls[call.id] = call
        call.grew = self._grow
        self._grow(call.size)

    def drop(self, call: Call) -> None:
        if self._calls.pop(call.id, None) is None:
            return  # it was the oldest meanwhile
        self.size -= call.size
        call.grew = lambda size: None

    def _grow(self, size: int) -> None:
        self.size += size
        while len(self._calls) > CALLS_MAX or (self.size > BYTES_MAX and len(self._calls) > 1):
            oldest = next(iter(self._calls.values()))
            self.drop(oldest)
            oldest.end()

    def find(self, id: str) -> Call | None:
        return self._calls.get(id)

    def end(self) -> None:
        for call in self._calls.values():
            call.end()


def _size(answer: Answer) -> int:
    return len(_encode(answer.value))
