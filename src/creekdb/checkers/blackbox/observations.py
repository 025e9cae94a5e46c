"""Calls as their clients observed them: the only input of the black-box checkers.

An observation contains nothing that a replica recorded about itself. It can come from `creek
torture`, from a file of JSON lines, or from another system.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec


class CallStatus(StrEnum):
    OK = "ok"
    ERROR = "error"
    """The operation was executed and raised an error, which is its response."""
    REJECTED = "rejected"
    """The call was certainly not executed."""
    UNKNOWN = "unknown"
    """The client received no response. The call may take effect at any later time, or never."""


class FinalObservation(msgspec.Struct, frozen=True):
    """Final response to a weak call."""

    responded_us: int
    status: CallStatus
    value: Any
    changed: bool | None
    """True if the final response differs from the tentative one. None if it was not recorded."""


class ObservedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call. Times are in microseconds from the start of the run, on one clock.

    A client has one session. It may have several calls in progress, which then overlap in time.
    """

    client: str
    operation: str
    arguments: tuple[Any, ...] = ()
    strong: bool = True
    invoked_us: int
    responded_us: int | None
    """Time of the response, or None if there was none. It is None for unknown calls only."""
    status: CallStatus
    value: Any = None
    """Response. It is stable for a strong call and tentative for a weak call. For an error or a
    rejection it is the text."""
    final: FinalObservation | None = None
    """Final response to a weak call, if the client waited for it."""

    @property
    def has_response(self) -> bool:
        return self.status in (CallStatus.OK, CallStatus.ERROR)


class ObservedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one run, in the order of their invocations, and the final states if known."""

    datatype: str
    """Name of the data type or model."""
    calls: tuple[ObservedCall, ...]
    final_states: Mapping[str, Mapping[Any, Any]] = msgspec.field(default_factory=dict)
    """Registers by replica, as clients read them when no call and no fault remained."""
