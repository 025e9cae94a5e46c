"""Admission control: the calls that a replica accepts at present, and the reasons for rejections.

Without a reachable majority, weak calls still receive responses, and strong calls tentative ones.
But their requests are retained until the other members return. Both kinds are therefore bounded,
and a call above the bound is rejected with the reason.

`OperationResolver` decides which operations clients may call at all, `AdmissionControl` whether the
replica accepts a call now.
"""

from collections import deque
from typing import Any, Final, NamedTuple, Protocol

from creekdb.errors import BadValue, StorageFault, UnknownName
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica
from creekdb.schemes.core.view import ReplicaView
from creekdb.server.calls.capabilities import Capabilities
from creekdb.server.calls.staged_rows import called_rows, resolve_staging
from creekdb.server.membership.changes import ADD_MEMBER, REMOVE_MEMBER
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.batches import BATCH, BATCH_CALLS_MAX, checked_calls, is_batch
from creekdb.wire.deduplication import (
    DEDUPLICATED_CALL,
    INTERNAL_PREFIX,
    QUERY_OUTCOME,
    wrap_call,
)
from creekdb.wire.messages import (
    APPLICATION_BYTES_FEATURE,
    BATCH_FEATURE,
    STAGING_FEATURE,
    CallRequest,
)
from creekdb.wire.reject_reason import RejectReason
from creekdb.wire.sink_ledgers import APPLICATION_BYTES_MAX
from creekdb.wire.staging import APPLY, CLIENT_STAGING_OPERATIONS, bounded_application

TENTATIVE_REQUESTS_MAX: Final = 1_000_000
"""Upper bound for the requests of all replicas that are not committed."""
DEPENDENCIES_MAX: Final = 64
"""Upper bound for the dependencies of one call."""
TICK_INTERVAL_MAX_S: Final = 0.5
"""Upper bound for one measured tick interval, in seconds. A longer interval means that the process
was suspended, not that it was busy."""


TARGET_SHARE: Final = 0.25
"""Target waiting time in each queue, as a share of `busy_after`. A call waits in several queues:
in buffers of connections, for its first response, and for its stable or final response."""

STALL_SHARE: Final = 0.5
"""Time without a served call after which a queue is stalled, as a share of the target."""
LONG_STALL_TARGETS: Final = 4
"""Duration of a long stall, in target waiting times. Even an overloaded cluster commits some calls
within that time, so the cause is another one, such as links that fail in one direction."""
UNCOMMITTED_MIN: Final = 256
"""Number of calls without a stable or final response that is never an overload."""
AUDIBLE_S: Final = 0.25
"""Silence after which a member counts as unreachable, in seconds. Two tick intervals are added,
because an overloaded process receives and sends late."""


class CallQueue:
    """Calls that await a response, in the order of their arrival, bounded by waiting time.

    The queue is *congested* while its oldest call has waited longer than the target. A congested
    queue has space for as many calls as were served within the last target time. A call that is
    admitted then waits about as long as the target. So the queue of an overloaded replica stays
    short, and is empty soon after the load ends. The age of the oldest call alone would be too late
    a signal: by then, an overload of three times has filled the queue for three times as long.

    The time of the queue stands still while the queue is stalled: calls then wait for something
    that fewer calls would not change, such as a missing majority. During a long stall, the queue
    always has space, and the calls that wait then do not count against the space later.
    """

    def __init__(self, target_s: float, length_min: int = 0) -> None:
        """A queue of at most `length_min` calls is never congested."""
        self._target_s = target_s
        self._length_min = length_min
        self._now_s = 0.0
        self._arrivals: dict[Dot, float] = {}
        self._served = 0
        """Number of calls served since the last tick."""
        self._served_by_tick: deque[tuple[float, int]] = deque()
        """End of each tick interval, and the number of calls served in it."""
        self._served_recently = 0
        """Sum of the numbers in `_served_by_tick`."""
        self._stalled_s = 0.0
        """Time since the last tick in which a call was served."""
        self._exempt = 0
        """Number of the oldest calls that do not count against the space."""
        self._is_stalled_long = False

    def __len__(self) -> int:
        return len(self._arrivals)

    def add(self, id: Dot) -> None:
        self._arrivals[id] = self._now_s

    def serve(self, id: Dot) -> None:
        """Remove a call that has its response, or will never get one."""
        if self._arrivals.pop(id, None) is not None:
            self._served += 1
            if self._exempt:
                self._exempt -= 1

    def serve_all(self, ids: Dots) -> None:
        for id in [id for id in self._arrivals if id in ids]:
            self.serve(id)

    @property
    def is_stalled(self) -> bool:
        """True if calls wait and none was served for a while."""
        return bool(self._arrivals) and self._stalled_s > self._target_s * STALL_SHARE

    def tick(self, elapsed_s: float, can_progress: bool = False) -> None:
        """End a tick interval. `can_progress` is True if only a long stall counts as one."""
        elapsed_s = min(elapsed_s, TICK_INTERVAL_MAX_S)
        self._stalled_s = 0.0 if self._served else self._stalled_s + elapsed_s
        self._is_stalled_long = (
            self.is_stalled and self._stalled_s > LONG_STALL_TARGETS * self._target_s
        )
        if self._is_stalled_long:
            self._exempt = len(self._arrivals)
            return
        if self.is_stalled and not can_progress:
            return
        self._now_s += elapsed_s
        self._served_by_tick.append((self._now_s, self._served))
        self._served_recently += self._served
        self._served = 0
        while self._served_by_tick[0][0] <= self._now_s - self._target_s:
            self._served_recently -= self._served_by_tick.popleft()[1]

    def has_space(self) -> bool:
        """True if a call that is added now is likely to be served within about the target time."""
        arrivals = self._arrivals
        if self._is_stalled_long or len(arrivals) <= self._length_min:
            return True
        if len(arrivals) - self._exempt <= self._served_recently:
            return True
        return self._now_s - next(iter(arrivals.values())) <= self._target_s


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

    def can_commit(self, silence_s_max: float) -> bool:
        """True if neither the leader nor a majority has been silent for so long."""

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
        target_s = config.busy_after * TARGET_SHARE
        self.pending = CallQueue(target_s)
        """Calls of this replica's clients that have no response yet."""
        self.uncommitted = CallQueue(target_s, UNCOMMITTED_MIN)
        """Calls of this replica's clients that have no stable or final response yet."""
        self.pending_strong: set[Dot] = set()
        """Strong calls of this replica's clients that have no stable response yet."""
        self._closing_message = ""
        """Rejection of all calls. Empty until this replica stops."""

    def close(self, message: str) -> None:
        """Reject all calls from now on."""
        self._closing_message = message

    def record_tick(self, elapsed_s: float) -> None:
        """End a tick interval.

        A replica that is suspended or executes one long operation does not respond at all, and
        without its leader or a majority nothing is committed. Neither is an overload.
        """
        self.pending.tick(elapsed_s)
        can_progress = (
            len(self.uncommitted) > 0  # an empty queue is not stalled
            and not self.pending.is_stalled
            and self._membership.can_commit(AUDIBLE_S + 2 * elapsed_s)
        )
        self.uncommitted.tick(elapsed_s, can_progress)

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
        if (
            driver.backlog > self._backlog_max
            or not self.pending.has_space()
            or not (local_read or self.uncommitted.has_space())
        ):
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
        if name == BATCH:
            return self._resolve_batch(request, client)
        if name in CLIENT_STAGING_OPERATIONS:
            operation = resolve_staging(self.datatype, request)
            if name == APPLY:
                return bounded_application(operation, self._application_bytes_max())
            return operation
        if name.startswith(INTERNAL_PREFIX):
            known = self.datatype.operations
            raise UnknownName(f"operation of {self.datatype.name}", name, known)
        if len(request.after) > DEPENDENCIES_MAX:
            raise BadValue(
                f"too many dependencies: the call names {len(request.after)}, at most "
                f"{DEPENDENCIES_MAX} are allowed"
            )
        arguments = self.datatype.checked_arguments(name, request.arguments)
        if not client or self.datatype.is_readonly(name):
            return Operation(name, arguments)
        return Operation(DEDUPLICATED_CALL, (client, request.number, name, arguments))

    def _application_bytes_max(self) -> int:
        """Return the bound for the writes of an application, or 0 if a member may lack it.

        A member of an earlier version would execute the application without the bound.
        """
        members = self._membership.configuration.replica_ids
        is_supported = self._capabilities.is_supported(APPLICATION_BYTES_FEATURE, members)
        return APPLICATION_BYTES_MAX if is_supported else 0

    def _resolve_batch(self, request: CallRequest, client: str) -> Operation:
        calls = request.arguments
        if not is_batch(calls):
            raise BadValue(
                f"a batch has 1 to {BATCH_CALLS_MAX} calls, each a name and a list of arguments"
            )
        operation = Operation(BATCH, checked_calls(calls, self._checked_arguments))
        return wrap_call(client, request.number, operation) if client else operation

    def _checked_arguments(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a call in a batch, as `DataType.checked_arguments` does."""
        if name.startswith(INTERNAL_PREFIX):
            raise BadValue(f"'{name}' cannot be called in a batch")
        return self.datatype.checked_arguments(name, arguments)

    def rejection(self, request: CallRequest) -> tuple[RejectReason, str] | None:
        """Return a rejection if a connected replica could not execute the call."""
        if request.operation == BATCH:
            return self._batch_rejection(request)
        if request.operation in CLIENT_STAGING_OPERATIONS:
            return self._staging_rejection(request)
        return self._incapable_rejection(request.operation, len(request.arguments))

    def _batch_rejection(self, request: CallRequest) -> tuple[RejectReason, str] | None:
        rejection = self._feature_rejection(BATCH_FEATURE, "batches")
        if rejection is not None:
            return rejection
        for name, arguments in request.arguments if is_batch(request.arguments) else ():
            rejection = self._incapable_rejection(name, len(arguments))
            if rejection is not None:
                return rejection
        return None

    def _staging_rejection(self, request: CallRequest) -> tuple[RejectReason, str] | None:
        rejection = self._feature_rejection(STAGING_FEATURE, "staged rows")
        if rejection is not None:
            return rejection
        called = called_rows(request)
        if called is None:
            return None
        name, leading, rows = called
        counts = {len(leading) + len(row) for row in rows}
        rejections = (self._incapable_rejection(name, count) for count in counts)
        return next((each for each in rejections if each is not None), None)

    def _feature_rejection(self, feature: str, text: str) -> tuple[RejectReason, str] | None:
        """Return a rejection if a connected replica lacks a feature."""
        lacking = self._capabilities.peers_without[feature]
        for replica in self._membership.connected_members() if lacking else ():
            if replica in lacking:
                message = f"replica {replica} does not support {text}; upgrade it, then retry"
                return RejectReason.UNKNOWN_OPERATION, message
        return None

    def _incapable_rejection(self, name: str, count: int) -> tuple[RejectReason, str] | None:
        capabilities = self._capabilities
        if not capabilities.missing_by_peer and not capabilities.differing_by_peer:
            return None
        connected = self._membership.connected_members()
        replica = capabilities.find_differing(name, connected)
        if replica is not None:
            engines = capabilities.describe_engines(replica)
            return RejectReason.DIFFERENT_CODE, (
                f"replica {replica} has other code for '{name}' than this replica, and equal "
                "operations are required; restart one of them with the module of the other"
                if engines is None
                else f"replica {replica} would execute '{name}' otherwise: {engines}; "
                "install the same version of creekdb[sql] everywhere, then retry"
            )
        replica = capabilities.find_incapable(name, count, connected)
        if replica is None:
            return None
        return (
            RejectReason.UNKNOWN_OPERATION,
            f"replica {replica} does not support '{name}' with these arguments; "
            "restart it with the module of this replica, then retry",
        )
