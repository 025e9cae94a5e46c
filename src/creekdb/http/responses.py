"""Responses: JSON, server-sent events, and problems of RFC 9457 (`application/problem+json`).

`certainly_not_done` is true if the operation was not and will not be executed, so that a retry is
safe. Otherwise the operation may have been executed, or may be executed later. A retry is then safe
only with a client name and a call number.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web

from creekdb.errors import CreekError
from creekdb.wire.messages import Rejected
from creekdb.wire.reject_reason import RejectReason

EVENT_STREAM: Final = "text/event-stream"
COMMON_HEADERS: Final = {
    "Server": "creek",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every response."""


def sse_event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()


PROBLEM_CONTENT_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1


class HttpProblem(CreekError):
    """A request that fails.

    `certainly_not_done` overrides the value that belongs to the reason. `extra` contains further
    members of the problem document.
    """

    def __init__(
        self,
        reason: RejectReason,
        detail: str,
        *,
        certainly_not_done: bool | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        # Headers of a request may contain bytes that are not UTF-8, as surrogates.
        super().__init__(detail.encode(errors="backslashreplace").decode())
        status, is_certain = reason.rule.http_status, reason.rule.is_certain
        assert status is not None, f"no HTTP request is rejected with '{reason}'"
        self.reason = reason
        self.status = status
        self.certainly_not_done = is_certain if certainly_not_done is None else certainly_not_done
        self.extra = extra or {}

    @property
    def is_counted(self) -> bool:
        """True if the problem counts as a rejected request."""
        return self.reason is not RejectReason.OPERATION_RAISED

    def body(self) -> dict[str, Any]:
        return {
            "type": f"urn:creek:problem:{self.reason}",
            "title": self.reason.rule.text,
            "status": self.status,
            "detail": str(self),
            "certainly_not_done": self.certainly_not_done,
            **self.extra,
        }

    def headers(self) -> dict[str, str]:
        if self.reason.rule.is_temporary:
            return {"Retry-After": str(RETRY_AFTER_S)}
        return {"WWW-Authenticate": "Bearer"} if self.reason is RejectReason.TOKEN else {}


class RejectedCall(HttpProblem):
    """A call that the dispatcher has rejected and counted."""

    is_counted = False

    def __init__(self, rejected: Rejected, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(
            RejectReason(rejected.reason),
            rejected.message,
            certainly_not_done=rejected.is_certain,
            extra=extra,
        )


def json_response(
    body: Any,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body) + b"\n",
        status=status,
        headers={**COMMON_HEADERS, **(headers or {}), "Content-Type": content_type},
    )


def problem_response(problem: HttpProblem, **headers: str) -> web.Response:
    headers |= problem.headers()
    return json_response(problem.body(), problem.status, headers, PROBLEM_CONTENT_TYPE)


def encode_problem(problem: HttpProblem) -> bytes:
    """Return the problem as the last response of a connection."""
    body = msgspec.json.encode(problem.body()) + b"\n"
    headers = {
        **COMMON_HEADERS,
        **problem.headers(),
        "Content-Type": PROBLEM_CONTENT_TYPE,
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "\r\n"]).encode() + body
