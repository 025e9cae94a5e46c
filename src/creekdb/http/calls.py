"""Calls under way, and those who follow them.

What is kept is bounded: of the calls the last, by number and by the size of their answers, and of a
call's answers the last. Who follows a call that is forgotten hears that it is over.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from creekdb.http.backend import BackendEvent
from creekdb.http.schema import to_json
from creekdb.wire.messages import CallIssued, CallResponse, Rejected

CALLS_MAX: Final = 16_384
RESPONSE_BYTES_MAX: Final = 64 * 1024 * 1024
RESPONSES_MAX: Final = 64
LAST_KINDS: Final = frozenset(("stable", "final"))
"""Kinds of answers that never change."""

_encode = msgspec.msgpack.Encoder().encode


def response_body(answer: CallResponse) -> dict[str, Any]:
    return {
        "kind": answer.kind,
        "value": to_json(answer.value),
        "error": answer.error,
        "changed": answer.changed,
    }


class HttpCall:
    def __init__(self, operation: str, strong: bool, has_one_answer: bool) -> None:
        """`has_one_answer`: it only reads, weakly."""
        self.operation = operation
        self.strong = strong
        self.has_single_response = has_one_answer
        self.id = ""
        self.responses: list[CallResponse] = []
        self.dropped_responses = 0
        """How many answers came before those."""
        self.rejection: Rejected | None = None
        """Why there is no answer; or, if it was issued, no last one."""
        self.is_finished = False
        self.response_bytes = 0
        """Of its answers."""
        self.on_growth: Callable[[int], None] = lambda size: None
        self.unsubscribe: Callable[[], None] = lambda: None
        self._changed = asyncio.Event()

    def receive(self, said: BackendEvent) -> None:
        match said:
            case CallIssued(id=id):
                self.id = str(id)
            case CallResponse(kind=kind):
                self.responses.append(said)
                more = _encoded_size(said)
                if len(self.responses) > RESPONSES_MAX:
                    more -= _encoded_size(self.responses.pop(0))
                    self.dropped_responses += 1
                self.response_bytes += more
                self.on_growth(more)
                self.is_finished = kind in LAST_KINDS or self.has_single_response
            case Rejected():
                self.rejection = said
                self.is_finished = True
        self._notify()

    def close(self) -> None:
        """Nothing more will be heard."""
        self.is_finished = True
        self.unsubscribe()
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def body(self) -> dict[str, Any]:
        return {
            "call": self.id,
            "operation": self.operation,
            "consistency": "strong" if self.strong else "weak",
            "over": self.is_finished,
            "answers": [response_body(each) for each in self.responses],
        }

    async def wait_changed(self) -> None:
        await self._changed.wait()

    async def wait_issued(self) -> None:
        while not (self.id or self.is_finished):
            await self.wait_changed()

    async def wait_first_response(self, kinds: frozenset[str]) -> CallResponse | None:
        """The first answer of these kinds that is known, once there is one; None if none comes."""
        while True:
            found = self.first_response(kinds)
            if found is not None or self.is_finished:
                return found
            await self.wait_changed()

    def first_response(self, kinds: frozenset[str]) -> CallResponse | None:
        """The same, as far as it is known now."""
        return next((each for each in self.responses if each.kind in kinds), None)

    async def follow(self, beat_s: float) -> AsyncIterator[CallResponse | None]:
        """Its answers, from the first that is kept on; None when nothing came for a while."""
        told = 0
        while True:
            told = max(told, self.dropped_responses)
            while told < self.dropped_responses + len(self.responses):
                yield self.responses[told - self.dropped_responses]
                told = max(told + 1, self.dropped_responses)
            if self.is_finished:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(beat_s):
                    await self.wait_changed()
                continue
            yield None


class CallRegistry:
    """The last ones, by their identifiers."""

    def __init__(self) -> None:
        self._calls: dict[str, HttpCall] = {}
        self.response_bytes = 0
        """Of all their answers."""

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: HttpCall) -> None:
        self._calls[call.id] = call
        call.on_growth = self._add_bytes
        self._add_bytes(call.response_bytes)

    def remove(self, call: HttpCall) -> None:
        if self._calls.pop(call.id, None) is None:
            return  # it was the oldest meanwhile
        self.response_bytes -= call.response_bytes
        call.on_growth = lambda size: None

    def _add_bytes(self, size: int) -> None:
        self.response_bytes += size
        while len(self._calls) > CALLS_MAX or (
            self.response_bytes > RESPONSE_BYTES_MAX and len(self._calls) > 1
        ):
            oldest = next(iter(self._calls.values()))
            self.remove(oldest)
            oldest.close()

    def get(self, id: str) -> HttpCall | None:
        return self._calls.get(id)

    def close_all(self) -> None:
        for call in self._calls.values():
            call.close()


def _encoded_size(answer: CallResponse) -> int:
    return len(_encode(answer.value))
