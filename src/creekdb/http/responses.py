"""Server-sent events, as bytes.

Everything that can go wrong, as RFC 9457 has it: `application/problem+json`.

Each says whether the operation was certainly not done: then asking again is safe. Otherwise it may
have been done, or may be yet; with a client's name and a number, asking again is safe all the same.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from creekdb.errors import CreekError

EVENTS: Final = "text/event-stream"


def event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()


CONTENT_TYPE: Final = "application/problem+json"
RETRY_S: Final = 1


class Kind(NamedTuple):
    status: int
    title: str


KINDS: Final = {
    "malformed": Kind(400, "The request makes no sense"),
    "token": Kind(401, "A token is needed"),
    "origin": Kind(403, "Pages of other sites may not ask"),
    "not_found": Kind(404, "There is nothing under this path"),
    "unknown_operation": Kind(404, "There is no such operation"),
    "unknown_call": Kind(404, "No such call is known here"),
    "state_to_come": Kind(404, "As much is not committed here yet"),
    "method": Kind(405, "This cannot be done with this path"),
    "slow": Kind(408, "The body did not arrive in time"),
    "operation_raised": Kind(409, "The operation was carried out, and raised"),
    "untold": Kind(410, "It was done, and what came of it is not known here"),
    "state_gone": Kind(410, "This state is not held any more"),
    "too_large": Kind(413, "The body is too large"),
    "media_type": Kind(415, "The body is no JSON"),
    "bad_arguments": Kind(422, "The operation cannot take these arguments"),
    "deadline": Kind(424, "What it should come after did not arrive"),
    "internal": Kind(500, "A mistake of this replica"),
    "busy": Kind(503, "The replica has too much to do"),
    "disk": Kind(503, "The replica cannot write"),
    "stopping": Kind(503, "The replica is being stopped"),
    "no_majority": Kind(503, "Too much waits for replicas that cannot be reached"),
    "not_ready": Kind(503, "The replica is not ready"),
}


class Problem(CreekError):
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
        self.kind = KINDS[name]
        self.certainly_not_done = certainly_not_done
        self.more = more or {}

    def body(self) -> dict[str, Any]:
        return {
            "type": f"urn:creek:problem:{self.name}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": str(self),
            "certainly_not_done": self.certainly_not_done,
            **self.more,
        }

    def headers(self) -> dict[str, str]:
        if self.kind.status == 503:
            return {"Retry-After": str(RETRY_S)}
        return {"WWW-Authenticate": "Bearer"} if self.name == "token" else {}
