"""Admission control: the calls that a replica accepts at present, and the reasons for rejections.

Without a reachable majority, weak calls still receive responses, and strong calls tentative ones.
But their requests are retained until the other members return. Both kinds are therefore bounded,
and a call above the bound is rejected with the reason.
"""

from typing import Any, Final, NamedTuple, Protocol

from creekdb.errors import StorageFault
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import Operation
from creekdb.schemes.core.replica import Replica, ReplicaView
from creekdb.server.runtime.config import ServerConfig
from creekdb.wire.reject_reason import RejectReason

TENTATIVE_REQUESTS_MAX: Final = 1_000_000
"""Upper bound for the requests of all replicas that are not committed."""
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
