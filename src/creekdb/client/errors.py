"""What can come of a call other than an answer.

CallFailed
├── OperationFailed    the operation was carried out, and raised: that is its answer
├── NotDone            it was certainly not done: asking again is safe
└── Unknown            it may have been done, or may be yet
"""

from creekdb.errors import CreekError


class CallFailed(CreekError):
    """A call has no answer, or its answer is an error."""


class OperationFailed(CallFailed):
    """The operation raised. Like any answer, this may be tentative."""


class NotDone(CallFailed):
    """`reason` is `unknown_operation`, `bad_arguments`, `too_large`, `busy`, `disk`, `deadline`,
    `stopping`, `no_majority`, `token`, `unreachable` or `closed`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Unknown(CallFailed):
    """No answer came in time, or none can come any more. It is not asked for again."""


def not_connected_error() -> NotDone:
    return NotDone("closed", "not connected: calls are made inside 'with connect(…) as db:'")
