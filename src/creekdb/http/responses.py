"""Server-sent events, and problems as RFC 9457 defines them (`application/problem+json`).

`certainly_not_done` is true if the operation was not and will not be executed, so that a retry is
safe. Otherwise the operation may have been executed, or may be executed later. A retry is then safe
only with a client name and a call number.
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
    "malformed": ProblemKind(400, "The request is malformed"),
    "token": ProblemKind(401, "A token is required"),
    "origin": ProblemKind(403, "Pages of other sites must not send requests"),
    "not_found": ProblemKind(404, "The path does not exist"),
    "unknown_operation": ProblemKind(404, "The operation does not exist"),
    "unknown_call": ProblemKind(404, "The call is unknown to this replica"),
    "state_to_come": ProblemKind(404, "The state is not committed on this replica yet"),
    "method": ProblemKind(405, "The path does not support this method"),
    "slow": ProblemKind(408, "The body did not arrive in time"),
    "operation_raised": ProblemKind(409, "The operation was executed and raised an error"),
    "untold": ProblemKind(410, "The call was executed, but its response is no longer available"),
    "state_gone": ProblemKind(410, "The state is no longer retained"),
    "too_large": ProblemKind(413, "The body is too large"),
    "media_type": ProblemKind(415, "The body is not JSON"),
    "bad_arguments": ProblemKind(422, "The arguments do not match the operation"),
    "deadline": ProblemKind(424, "The dependencies of the call did not arrive in time"),
    "internal": ProblemKind(500, "Internal error of this replica"),
    "busy": ProblemKind(503, "The replica is overloaded"),
    "disk": ProblemKind(503, "The replica cannot write to its disk"),
    "stopping": ProblemKind(503, "The replica is stopping"),
    "no_majority": ProblemKind(503, "Too many calls wait for unreachable replicas"),
    "not_ready": ProblemKind(503, "The replica is not ready"),
}


class HttpProblem(CreekError):
    """A request that fails. `extra`: further members of the problem document."""

    def __init__(
        self,
        name: str,
        detail: str,
        *,
        certainly_not_done: bool = True,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.name = name
        self.kind = PROBLEM_KINDS[name]
        self.certainly_not_done = certainly_not_done
        self.extra = extra or {}

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
