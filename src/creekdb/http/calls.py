"""Calls in progress, and the subscribers to their responses.

Memory is bounded. The registry retains the latest calls, limited by their number and by the size of
their responses, and each call retains its latest responses. Evicting a call ends its event streams.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.calls.dispatcher import CallDispatcher, ClientCalls
from creekdb.wire.json_values import tag_integers, to_json
from creekdb.wire.messages import CallRequest, Rejected
from creekdb.wire.reject_reason import RejectReason

RESPONSES_MAX: Final = 64
LAST_KINDS: Final = frozenset((ResponseKind.STABLE, ResponseKind.FINAL))
"""Response kinds that end a call."""

_encode = msgspec.msgpack.Encoder().encode


class HttpCall:
    """One call, and the `ResponseSink` that its responses are sent to."""

    def __init__(
        self,
        client: str,
        request: CallRequest,
        has_single_response: bool,
        has_tagged_integers: bool = False,
    ) -> None:
        """`has_single_response`: True for a weak read-only call. `has_tagged_integers`: True if
        large integers of the responses are tagged (`creekdb.wire.json_values`)."""
        self.client = client
        self.token = ""  # HTTP calls cannot change the membership
        self.not_joined_reason = RejectReason.NOT_READY
        self.request = request
        self.has_single_response = has_single_response
        self._has_tagged_integers = has_tagged_integers
        self.id = ""
        self.responses: list[Response] = []
        self.dropped_responses = 0
        """Number of responses that preceded the retained ones."""
        self.rejection: Rejected | None = None
        """Reason why no response, or after issuing no last response, will arrive."""
        self.is_finished = False
        self.response_bytes = 0
        """Encoded size of the retained responses, in bytes."""
        self._on_growth: Callable[[int], None] | None = None
        self._calls: ClientCalls | None = None
        self._changed = asyncio.Event()

    def start(self, dispatcher: CallDispatcher) -> None:
        """Issue the call.

        A retry with the same client name and number is the same call. Without a name, every
        request is a new call.
        """
        self._calls = ClientCalls(dispatcher, self)
        self._calls.submit(self.request)

    def observe_growth(self, on_growth: Callable[[int], None] | None) -> None:
        """Report the size of each further response, in bytes. None ends the reports."""
        self._on_growth = on_growth

    def send_issued(self, number: int, id: Dot) -> None:
        self.id = str(id)
        self._notify()

    def send_response(self, number: int, response: Response) -> None:
        self.responses.append(response)
        added_bytes = _encoded_size(response)
        if len(self.responses) > RESPONSES_MAX:
            added_bytes -= _encoded_size(self.responses.pop(0))
            self.dropped_responses += 1
        self.response_bytes += added_bytes
        if self._on_growth is not None:
            self._on_growth(added_bytes)
        self.is_finished = response.kind in LAST_KINDS or self.has_single_response
        self._notify()

    def send_rejection(self, rejected: Rejected) -> None:
        self.rejection = rejected
        self.is_finished = True
        self._notify()

    def close(self) -> None:
        """End the subscription and all event streams of the call."""
        self.is_finished = True
        if self._calls is not None:
            self._calls.cancel_all()
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def body(self) -> dict[str, Any]:
        return {
            "call": self.id,
            "operation": self.request.operation,
            "consistency": "strong" if self.request.strong else "weak",
            "over": self.is_finished,
            "responses": [self.response_body(each) for each in self.responses],
        }

    def response_body(self, response: Response) -> dict[str, Any]:
        """Return one of the responses as JSON."""
        value = to_json(response.outcome.value)
        return {
            "kind": response.kind,
            "value": tag_integers(value) if self._has_tagged_integers else value,
            "error": response.outcome.error,
            "changed": response.changed,
        }

    async def wait_changed(self) -> None:
        await self._changed.wait()

    async def wait_issued(self) -> None:
        while not (self.id or self.is_finished):
            await self.wait_changed()

    async def wait_first_response(self, kinds: frozenset[ResponseKind]) -> Response | None:
        """Wait for the first response of these kinds; return None if the call ends without one."""
        while True:
            response = self.first_response(kinds)
            if response is not None or self.is_finished:
                return response
            await self.wait_changed()

    def first_response(self, kinds: frozenset[ResponseKind]) -> Response | None:
        """Return the first retained response of these kinds, or None."""
        return next((each for each in self.responses if each.kind in kinds), None)

    async def follow(self, keepalive_s: float) -> AsyncIterator[Response | None]:
        """Iterate over the responses from the first retained one.

        Yields None after `keepalive_s` seconds without a response.
        """
        position = 0
        while True:
            while position < self.dropped_responses + len(self.responses):
                position = max(position, self.dropped_responses)
                yield self.responses[position - self.dropped_responses]
                position += 1
            if self.is_finished:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(keepalive_s):
                    await self.wait_changed()
                continue
            yield None


class CallRegistry:
    """Latest calls by identifier."""

    def __init__(self, calls_max: int, response_bytes_max: int) -> None:
        self._calls_max = calls_max
        self._response_bytes_max = response_bytes_max
        self._calls: dict[str, HttpCall] = {}
        self.response_bytes = 0
        """Encoded size of all retained responses, in bytes."""

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: HttpCall) -> None:
        self._calls[call.id] = call
        call.observe_growth(self._add_bytes)
        self._add_bytes(call.response_bytes)

    def remove(self, call: HttpCall) -> None:
        if self._calls.pop(call.id, None) is None:
            return  # the registry has evicted it already
        self.response_bytes -= call.response_bytes
        call.observe_growth(None)

    def _add_bytes(self, size: int) -> None:
        self.response_bytes += size
        while len(self._calls) > self._calls_max or (
            self.response_bytes > self._response_bytes_max and len(self._calls) > 1
        ):
            oldest = next(iter(self._calls.values()))
            self.remove(oldest)
            oldest.close()

    def get(self, id: str) -> HttpCall | None:
        return self._calls.get(id)

    def close_all(self) -> None:
        for call in self._calls.values():
            call.close()


def _encoded_size(response: Response) -> int:
    return len(_encode(response.outcome.value))
