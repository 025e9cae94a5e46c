"""Server-sent events, as bytes.

Everything that can go wrong, as RFC 9457 has it: `application/problem+json`.

Each says whether the operation was certainly not done: then asking again is safe. Otherwise it may
have been done, or may be yet; with a client's name and a number, asking again is safe all the same.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from creekdb.errors import CreekError

EVENT_STREAM: Final = "text/event-stream"


def sse_event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()


PROBLEM_CONTENT_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1


class ProblemKind(NamedTuple):
    status: int
    title: str


PROBLEM_KINDS: Final = {
    "malformed": ProblemKind(400, "The request makes no sense"),
    "token": ProblemKind(401, "A token is needed"),
    "origin": ProblemKind(403, "Pages of other sites may not ask"),
    "not_found": ProblemKind(404, "There is nothing under this path"),
    "unknown_operation": ProblemKind(404, "There is no such operation"),
    "unknown_call": ProblemKind(404, "No such call is known here"),
    "state_to_come": ProblemKind(404, "As much is not committed here yet"),
    "method": ProblemKind(405, "This cannot be done with this path"),
    "slow": ProblemKind(408, "The body did not arrive in time"),
    "operation_raised": ProblemKind(409, "The operation was carried out, and raised"),
    "untold": ProblemKind(410, "It was done, and what came of it is not known here"),
    "state_gone": ProblemKind(410, "This state is not held any more"),
    "too_large": ProblemKind(413, "The body is too large"),
    "media_type": ProblemKind(415, "The body is no JSON"),
    "bad_arguments": ProblemKind(422, "The operation cannot take these arguments"),
    "deadline": ProblemKind(424, "What it should come after did not arrive"),
    "internal": ProblemKind(500, "A mistake of this replica"),
    "busy": ProblemKind(503, "The replica has too much to do"),
    "disk": ProblemKind(503, "The replica cannot write"),
    "stopping": ProblemKind(503, "The replica is being stopped"),
    "no_majority": ProblemKind(503, "Too much waits for replicas that cannot be reached"),
    "not_ready": ProblemKind(503, "The replica is not ready"),
}


class HttpProblem(CreekError):
    """`more`: further members of the answer."""

    def __init__(
        self,
        name: str,
        detail: str,
        *,
        certainly_not_done: bool = True,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.name = name
        self.kind = PROBLEM_KINDS[name]
        self.certainly_not_done = certainly_not_done
        self.extra = more or {}

    def body(self) -> dict[str, Any]:
        return {
            "type": f"urn:creek:problem:{self.name}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": str(self),
            "certainly_not_done": self.certainly_not_done,
            **self.extra,
        }

    def headers(self) -> dict[str, str]:
        if self.kind.status == 503:
            return {"Retry-After": str(RETRY_AFTER_S)}
        return {"WWW-Authenticate": "Bearer"} if self.name == "token" else {}
