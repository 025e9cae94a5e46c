"""Errors of calls to a live cluster.

    CallFailed
    ├── OperationFailed    the operation was executed and raised an error, which is its response
    ├── NotDone            the call was certainly not executed; a retry is safe
    └── Unknown            the call may have been executed, or may still be

Invalid arguments of `connect`, `after` or `within` raise a `UsageError` (`creekdb.errors`).
"""

from typing import Any

from creekdb.errors import CreekError
from creekdb.execution.operation_errors import split_error_text
from creekdb.protocol.effects import ResponseKind
from creekdb.wire.reject_reason import RejectReason


class CallFailed(CreekError):
    """Base class of call errors: the call has no response, or its response is an error."""


class OperationFailed(CallFailed):
    """The operation raised an error. Like any response, the error may be tentative.

    - `error`: name of the exception type, such as `LookupError`.
    - `message`: text of the exception, such as `no lamp left`.
    - `kind`: `tentative`, `stable` or `final`. Only a tentative error may still change.
    - `changed`: True if an earlier response of the call was a success. The user of the call then
      needs an apology.
    - `call`: the call, for its other responses and for `after`.

    The text of the error has both parts: `LookupError: no lamp left`.
    """

    def __init__(
        self,
        text: str,
        *,
        kind: ResponseKind = ResponseKind.STABLE,
        changed: bool = False,
        call: Any = None,
    ) -> None:
        super().__init__(text)
        self.error, self.message = split_error_text(text)
        self.kind = kind
        self.changed = changed
        self.call = call
        """A `Call`, or a `BlockingCall` of a blocking connection."""


class NotDone(CallFailed):
    """The call was certainly not executed. The caller may retry it.

    `reason` is the value of a `RejectReason` (`creekdb.wire.reject_reason`), such as `busy`, or a
    string that only a newer replica declares.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = str(reason)


class Unknown(CallFailed):
    """The outcome is unknown: no response arrived in time, or none can arrive any more.

    The call may have been executed, or may still be. The client does not retry it.
    """


def not_connected_error() -> NotDone:
    """Return the error for a call while the connection is closed."""
    return NotDone(
        RejectReason.CLOSED,
        "not connected: make calls inside 'with connect(…) as db:', or between open() and close()",
    )
