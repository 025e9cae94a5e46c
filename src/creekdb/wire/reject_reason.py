"""Reasons for rejecting a call, a client connection or an HTTP request.

`REJECT_RULES` is the only place that assigns properties to a reason. The values are part of the
wire protocol, of problem documents and of the metric `creek_refused_total`, and never change.
Messages carry a reason as a string, since a newer replica may send one that is not declared here.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

_RETRY_LATER: Final = 503


class RejectReason(StrEnum):
    MALFORMED = "malformed"
    TOKEN = "token"
    FOREIGN_ORIGIN = "origin"
    UNKNOWN_PATH = "not_found"
    UNKNOWN_OPERATION = "unknown_operation"
    UNKNOWN_CALL = "unknown_call"
    STATE_NOT_COMMITTED = "state_to_come"
    UNSUPPORTED_METHOD = "method"
    BODY_TIMEOUT = "slow"
    OPERATION_RAISED = "operation_raised"
    UNKNOWN_OUTCOME = "untold"
    STATE_EXPIRED = "state_gone"
    TOO_LARGE = "too_large"
    MEDIA_TYPE = "media_type"
    BAD_ARGUMENTS = "bad_arguments"
    DEADLINE = "deadline"
    INTERNAL_ERROR = "internal"
    BUSY = "busy"
    DISK = "disk"
    STOPPING = "stopping"
    NO_MAJORITY = "no_majority"
    NOT_READY = "not_ready"
    VERSION = "version"
    DATATYPE = "datatype"
    UNEXPECTED_TLS = "unexpected_tls"
    UNEXPECTED_HTTP = "unexpected_http"
    UNREACHABLE = "unreachable"
    CLOSED = "closed"


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


REJECT_RULES: Final[Mapping[str, RejectRule]] = {
    RejectReason.MALFORMED: RejectRule("The request is malformed", 400),
    RejectReason.TOKEN: RejectRule("A token is required", 401),
    RejectReason.FOREIGN_ORIGIN: RejectRule("Pages of other sites must not send requests", 403),
    RejectReason.UNKNOWN_PATH: RejectRule("The path does not exist", 404),
    RejectReason.UNKNOWN_OPERATION: RejectRule("The operation does not exist", 404),
    RejectReason.UNKNOWN_CALL: RejectRule("The call is unknown to this replica", 404),
    RejectReason.STATE_NOT_COMMITTED: RejectRule(
        "The state is not committed on this replica yet", 404
    ),
    RejectReason.UNSUPPORTED_METHOD: RejectRule("The path does not support this method", 405),
    RejectReason.BODY_TIMEOUT: RejectRule("The body did not arrive in time", 408),
    RejectReason.OPERATION_RAISED: RejectRule(
        "The operation was executed and raised an error", 409, is_certain=False
    ),
    RejectReason.UNKNOWN_OUTCOME: RejectRule(
        "The call was executed, but its response is no longer available", 410, is_certain=False
    ),
    RejectReason.STATE_EXPIRED: RejectRule("The state is no longer retained", 410),
    RejectReason.TOO_LARGE: RejectRule("The body is too large", 413),
    RejectReason.MEDIA_TYPE: RejectRule("The body is not JSON", 415),
    RejectReason.BAD_ARGUMENTS: RejectRule("The arguments do not match the operation", 422),
    RejectReason.DEADLINE: RejectRule("The dependencies of the call did not arrive in time", 424),
    RejectReason.INTERNAL_ERROR: RejectRule(
        "Internal error of this replica", 500, is_certain=False
    ),
    RejectReason.BUSY: RejectRule("The replica is overloaded", _RETRY_LATER),
    RejectReason.DISK: RejectRule(
        "The replica cannot write to its disk", _RETRY_LATER, retry_elsewhere=True
    ),
    RejectReason.STOPPING: RejectRule(
        "The replica is stopping", _RETRY_LATER, retry_elsewhere=True
    ),
    RejectReason.NO_MAJORITY: RejectRule(
        "Too many calls wait for unreachable replicas", _RETRY_LATER, retry_elsewhere=True
    ),
    RejectReason.NOT_READY: RejectRule("The replica is not ready", _RETRY_LATER),
    RejectReason.VERSION: RejectRule("The versions of the wire protocol do not match"),
    RejectReason.DATATYPE: RejectRule("The cluster replicates another data type"),
    RejectReason.UNEXPECTED_TLS: RejectRule("The port does not use TLS"),
    RejectReason.UNEXPECTED_HTTP: RejectRule("The port does not serve HTTP"),
    RejectReason.UNREACHABLE: RejectRule("No replica was found"),
    RejectReason.CLOSED: RejectRule("The connection is closed"),
}
_UNDECLARED_REASON: Final = RejectRule("Unknown reason")


def reject_rule(reason: str) -> RejectRule:
    """Return the properties of a received reason, which a newer replica may have declared."""
    return REJECT_RULES.get(reason, _UNDECLARED_REASON)
