"""Admission control: the calls that a replica accepts at present, and the reasons for rejections.

Without a reachable majority, weak calls still receive responses, and strong calls tentative ones.
But their requests are retained until the other members return. Both kinds are therefore bounded,
and a call above the bound is rejected with the reason.

`OperationResolver` decides which operations clients may call at all, `AdmissionControl` whether the
replica accepts a call now.
"""

from typing import Any, Final, NamedTuple, Protocol

from creekdb.errors import BadValue, StorageFault, UnknownName
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.schemes.core.view import ReplicaView
from creekdb.server.calls.capabilities import Capabilities
from creekdb.server.membership.changes import ADD_MEMBER, REMOVE_MEMBER
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.deduplication import INTERNAL_PREFIX, QUERY_OUTCOME, wrap_call
from creekdb.wire.messages import CallRequest
from creekdb.wire.reject_reason import RejectReason

TENTATIVE_REQUESTS_MAX: Final = 1_000_000
"""Upper bound for the requests of all replicas that are not committed."""
DEPENDENCIES_MAX: Final = 64
"""Upper bound for the dependencies of one call."""
TICK_INTERVAL_MAX_S: Final = 0.25
"""Upper bound for one measured tick interval, in seconds. A longer interval means that the process
was suspended, not that it was busy."""
TICK_AVERAGE_WINDOW: Final = 10
"""Approximate number of ticks in the moving average of the tick interval."""


class AdmissionLimits(NamedTuple):
    backlog_max: int = 20_000
    """Upper bound for pending tasks and batches. Above it, calls are rejected with `busy`."""
    unwritten_bytes_max: int = 256 * 1024 * 1024
    """Upper bound for bytes that wait for the disk. Above it, the replica drops peer messages and
    rejects calls other than local reads."""


class ReplicaLoad(Protocol):
    """State of the driver that decides about admission."""

    replica: Replica

    @property
    def backlog(self) -> int: ...

    @property
    def pending_batches(self) -> int: ...

    @property
    def has_volatile_request(self) -> bool: ...


class DiskState(Protocol):
    """State of the journal."""

    fault: StorageFault | None
    durable_position: int
    end_position: int
    pending_bytes: int


class MembershipPort(Protocol):
    configuration: Configuration
    is_member: bool
    accepts_calls: bool
    """False until the replica has joined. Calls wait until then."""

    def connected_members(self) -> list[int]: ...

    def blocked_reason(self) -> str | None: ...

    def validate_change(self, name: str, arguments: tuple[Any, ...]) -> Operation:
        """Return the operation for a membership change. Raise `BadValue` if it cannot succeed."""


class AdmissionControl:
    def __init__(
        self,
        config: ServerConfig,
        driver: ReplicaLoad,
        journal: DiskState,
        membership: MembershipPort,
        limits: AdmissionLimits,
    ) -> None:
        self._driver = driver
        self._replica: ReplicaView = driver.replica.view
        self._journal = journal
        self._membership = membership
        self._backlog_max = limits.backlog_max
        self._unwritten_bytes_max = limits.unwritten_bytes_max
        self._strong_max = config.strong_max
        self._busy_after_s = config.busy_after
        self._tick_interval_s = config.tick_ms / 1000
        self._closing_message = ""
        """Rejection of all calls. Empty until this replica stops."""
        self.pending_strong: set[Dot] = set()
        """Strong calls of this replica's clients that have no stable response yet."""

    def close(self, message: str) -> None:
        """Reject all calls from now on."""
        self._closing_message = message

    def record_tick(self, elapsed_s: float) -> None:
        """Add a tick interval to the moving average. Overload makes ticks late."""
        self._tick_interval_s += (
            min(elapsed_s, TICK_INTERVAL_MAX_S) - self._tick_interval_s
        ) / TICK_AVERAGE_WINDOW

    def can_write(self) -> bool:
        """True if the disk keeps up. A disk that hangs without an error must not fill memory."""
        return (
            self._journal.pending_bytes <= self._unwritten_bytes_max
            and self._driver.pending_batches <= self._backlog_max
        )

    def rejection(self, strong: bool, local_read: bool) -> tuple[RejectReason, str] | None:
        """Return the reason and message of a rejection, or None to admit the call.

        `local_read` is True for a call that needs neither records nor messages.
        """
        driver, replica, membership = self._driver, self._replica, self._membership
        if self._closing_message:
            return RejectReason.STOPPING, f"{self._closing_message}; call another replica"
        if not membership.accepts_calls:
            if replica.must_be_replaced():
                message = f"this replica has not joined yet: {membership.blocked_reason()}"
                return RejectReason.STOPPING, message
        elif not membership.is_member:
            message = "this replica is not a member of its cluster; call another replica"
            return RejectReason.STOPPING, message
        fault = self._journal.fault
        if fault is not None and (not local_read or driver.has_volatile_request):
            return RejectReason.DISK, f"this replica cannot write: {fault}"
        if not local_read and not self.can_write():
            message = "the disk of this replica does not keep up; call another replica"
            return RejectReason.DISK, message
        # A long queue means that calls arrive faster than this replica executes them. A suspended
        # process or a single long operation does not count: its queue drains soon.
        queue_delay_s = replica.queue_delay_ticks() * self._tick_interval_s
        if driver.backlog > self._backlog_max or queue_delay_s > self._busy_after_s:
            return RejectReason.BUSY, "this replica is overloaded; retry later"
        if strong and len(self.pending_strong) >= self._strong_max:
            return self._retention_rejection(
                f"{len(self.pending_strong)} strong calls await a stable response"
            )
        tentative = replica.tentative_length()
        if tentative >= TENTATIVE_REQUESTS_MAX:
            return self._retention_rejection(f"{tentative} requests are not committed")
        return None

    def can_run_leader_tasks(self) -> bool:
        """True if this replica is the leader and may run leader tasks, even while it is busy.

        Leader tasks are small. If a busy leader skipped them, retained state would grow.
        """
        replica = self._replica
        if replica.leader() != replica.index or replica.awaited_members() is not None:
            return False
        rejection = self.rejection(False, False)
        return rejection is None or rejection[0] == RejectReason.BUSY

    def _retention_rejection(self, cause: str) -> tuple[RejectReason, str]:
        """Return the rejection of a call whose request would be retained for too long."""
        connected = len(self._membership.connected_members())
        members = len(self._membership.configuration.members)
        if connected + 1 <= members // 2:
            reach = f"this replica reaches {connected} of {members - 1} peers, not a majority"
            message = f"{cause}: {reach}; call another replica or retry later"
            return RejectReason.NO_MAJORITY, message
        return RejectReason.BUSY, f"{cause}; retry later"


class OperationResolver:
    """Rules for the operations that clients may call."""

    def __init__(
        self, capabilities: Capabilities, tokens: AccessTokens, membership: MembershipPort
    ) -> None:
        self.datatype = capabilities.datatype
        self._capabilities = capabilities
        self._tokens = tokens
        self._membership = membership

    def resolve(self, request: CallRequest, client: str, token: str) -> Operation:
        """Return the operation of a call. Raise `UsageError` with the reason for a rejection.

        `client` is the client name, for the deduplication of retries, or empty.
        """
        name = request.operation
        if name in (ADD_MEMBER, REMOVE_MEMBER):
            if not self._tokens.can_administer(token):
                raise BadValue(
                    "permission denied: this token may not change the members; use an admin token"
                )
            if not request.strong:
                raise BadValue(f"{name} is a weak call: membership changes must be strong calls")
            return self._membership.validate_change(name, request.arguments)
        if name == QUERY_OUTCOME and request.strong:
            return Operation(QUERY_OUTCOME, request.arguments)
        if name.startswith(INTERNAL_PREFIX):
            known = self.datatype.operations
            raise UnknownName(f"operation of {self.datatype.name}", name, known)
        if len(request.after) > DEPENDENCIES_MAX:
            raise BadValue(
                f"too many dependencies: the call names {len(request.after)}, at most "
                f"{DEPENDENCIES_MAX} are allowed"
            )
        operation = self.datatype.call(name, *request.arguments)
        if not client or self.datatype.is_readonly(name):
            return operation
        return wrap_call(client, request.number, operation)

    def rejection(self, request: CallRequest) -> tuple[RejectReason, str] | None:
        """Return a rejection if a connected replica could not execute the call."""
        if not self._capabilities.missing_by_peer:
            return None
        name, connected = request.operation, self._membership.connected_members()
        replica = self._capabilities.find_incapable(name, len(request.arguments), connected)
        if replica is None:
            return None
        return (
            RejectReason.UNKNOWN_OPERATION,
            f"replica {replica} does not support '{name}' with these arguments; "
            "restart it with the module of this replica, then retry",
        )
