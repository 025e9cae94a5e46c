"""Reasons for rejecting a call, a client connection or an HTTP request.

`RejectReason` is the only place that assigns properties to a reason. The values are part of the
wire protocol, of problem documents and of the metric `creek_rejected_total`, and never change.
Messages carry a reason as a string, since a newer replica may send one that is not declared here.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Self

_RETRY_LATER: Final = 503


class RejectRule(NamedTuple):
    """Properties of one reason."""

    text: str
    http_status: int | None = None
    """Status of the HTTP response; None if no HTTP request is rejected for this reason."""
    retry_elsewhere: bool = False
    """True if the client retries the call at another replica, which may accept it."""
    is_certain: bool = True
    """True if the call certainly takes no effect. A message may report another value."""

    @property
    def is_temporary(self) -> bool:
        """True if the same replica may accept the same call or connection later."""
        return self.http_status == _RETRY_LATER


_UNDECLARED_REASON: Final = RejectRule("Unknown reason")


class RejectReason(StrEnum):
    """Encoded value of a reason, with its properties."""

    rule: RejectRule

    def __new__(cls, value: str, rule: RejectRule = _UNDECLARED_REASON) -> Self:
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.rule = rule
        return reason

    MALFORMED = "malformed", RejectRule("The request is malformed", 400)
    TOKEN = "token", RejectRule("A token is required", 401)
    FOREIGN_ORIGIN = (
        "foreign_origin",
        RejectRule("Pages of other sites must not send requests", 403),
    )
    UNKNOWN_PATH = "not_found", RejectRule("The path does not exist", 404)
    UNKNOWN_OPERATION = "unknown_operation", RejectRule("The operation does not exist", 404)
    UNKNOWN_TABLE = "unknown_table", RejectRule("The table does not exist", 404)
    UNKNOWN_CALL = "unknown_call", RejectRule("The call is unknown to this replica", 404)
    STATE_NOT_COMMITTED = (
        "state_not_committed",
        RejectRule("The state is not committed on this replica yet", 404),
    )
    UNSUPPORTED_METHOD = (
        "unsupported_method",
        RejectRule("The path does not support this method", 405),
    )
    BODY_TIMEOUT = "body_timeout", RejectRule("The body did not arrive in time", 408)
    OPERATION_RAISED = (
        "operation_raised",
        RejectRule("The operation was executed and raised an error", 409, is_certain=False),
    )
    UNKNOWN_OUTCOME = (
        "response_unavailable",
        RejectRule(
            "The call was executed, but its response is no longer available", 410, is_certain=False
        ),
    )
    STATE_EXPIRED = "state_expired", RejectRule("The state is no longer retained", 410)
    CHANGES_EXPIRED = "changes_expired", RejectRule("The changes are no longer kept", 410)
    POSITION_IN_FUTURE = (
        "position_in_future",
        RejectRule("The position is after the last change of this replica", 404),
    )
    FOREIGN_POSITION = (
        "foreign_position",
        RejectRule("The position belongs to another cluster", 409),
    )
    CHANGES_OFF = "changes_off", RejectRule("The replica keeps no changes", 404)
    TOO_LARGE = "too_large", RejectRule("The body is too large", 413)
    MEDIA_TYPE = "media_type", RejectRule("The body is not JSON", 415)
    BAD_ARGUMENTS = "bad_arguments", RejectRule("The arguments do not match the operation", 422)
    DEADLINE = "deadline", RejectRule("The dependencies of the call did not arrive in time", 424)
    HEADER_TOO_LARGE = (
        "header_too_large",
        RejectRule("The request line or the headers are too large", 431),
    )
    INTERNAL_ERROR = (
        "internal_error",
        RejectRule("Internal error of this replica", 500, is_certain=False),
    )
    BUSY = "busy", RejectRule("The replica is overloaded", _RETRY_LATER)
    DISK = (
        "disk",
        RejectRule("The replica cannot write to its disk", _RETRY_LATER, retry_elsewhere=True),
    )
    STOPPING = "stopping", RejectRule("The replica is stopping", _RETRY_LATER, retry_elsewhere=True)
    NO_MAJORITY = (
        "no_majority",
        RejectRule(
            "Too many calls wait for unreachable replicas", _RETRY_LATER, retry_elsewhere=True
        ),
    )
    NOT_READY = "not_ready", RejectRule("The replica is not ready", _RETRY_LATER)
    DIFFERENT_CODE = (
        "different_code",
        RejectRule("Replicas have different code for the operation", _RETRY_LATER),
    )
    VERSION = "version", RejectRule("The versions of the wire protocol do not match")
    DATATYPE = "datatype", RejectRule("The cluster replicates another data type")
    UNEXPECTED_TLS = "unexpected_tls", RejectRule("The port does not use TLS")
    UNEXPECTED_HTTP = "unexpected_http", RejectRule("The port does not serve HTTP")
    UNREACHABLE = "unreachable", RejectRule("No replica was found")
    CLOSED = "closed", RejectRule("The connection is closed")


REJECT_RULES: Final[Mapping[str, RejectRule]] = {reason: reason.rule for reason in RejectReason}


def reject_rule(reason: str) -> RejectRule:
    """Return the properties of a received reason, which a newer replica may have declared."""
    return REJECT_RULES.get(reason, _UNDECLARED_REASON)
