"""Admission control: the calls that a replica accepts at present, and the reasons for rejections.

Without a reachable majority, weak calls still receive responses, and strong calls tentative ones.
But their requests are retained until the other members return. Both kinds are therefore bounded,
and a call above the bound is rejected with the reason.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from creekdb.protocol.effects import CheckpointInstalled, Event
from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.runtime.startup import must_be_replaced
from creekdb.wire.reject_reason import RejectReason

if TYPE_CHECKING:
    from creekdb.server.runtime.server import Server

TENTATIVE_REQUESTS_MAX: Final = 1_000_000
"""Upper bound for the requests of all replicas that are not committed."""


class PendingStrongCalls:
    """Strong calls of this replica's clients that have no stable response yet."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ids: set[Dot] = set()

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, id: Dot) -> None:
        self._ids.add(id)

    def remove(self, id: Dot) -> None:
        """Remove a call that has received its stable response."""
        self._ids.discard(id)

    def remove_installed(self, events: tuple[Event, ...]) -> None:
        """Remove the calls that an installed checkpoint covers. They get no later response."""
        for event in events:
            if type(event) is CheckpointInstalled:
                self._ids = {id for id in self._ids if id not in event.ids}

    def rejection(
        self, strong: bool, tentative: int, reachability: Callable[[], tuple[int, int]]
    ) -> tuple[RejectReason, str] | None:
        """Return the reason and message of a rejection, or None to admit the call.

        `reachability()` returns the number of connected peers and the number of members.
        """
        if strong and len(self._ids) >= self._limit:
            cause = f"{len(self._ids)} strong calls await a stable response"
        elif tentative >= TENTATIVE_REQUESTS_MAX:
            cause = f"{tentative} requests are not committed"
        else:
            return None
        connected, members = reachability()
        if connected + 1 <= members // 2:
            reach = f"this replica reaches {connected} of {members - 1} peers, not a majority"
            return (
                RejectReason.NO_MAJORITY,
                f"{cause}: {reach}; call another replica or retry later",
            )
        return RejectReason.BUSY, f"{cause}; retry later"


BACKLOG_MAX: Final = 20_000
"""Upper bound for pending tasks and batches. Above it, calls are rejected with `busy`."""
UNWRITTEN_BYTES_MAX: Final = 256 * 1024 * 1024
"""Upper bound for bytes that wait for the disk. Above it, the replica drops peer messages and
rejects calls other than local reads."""
TICK_INTERVAL_MAX_S: Final = 0.25
"""Upper bound for one measured tick interval, in seconds. A longer interval means that the process
was suspended, not that it was busy."""
TICK_AVERAGE_WINDOW: Final = 10
"""Approximate number of ticks in the moving average of the tick interval."""


class AdmissionControl:
    def __init__(self, server: "Server") -> None:
        self._server = server
        self._tick_interval_s = server.config.tick_ms / 1000

    def record_tick(self, elapsed_s: float) -> None:
        """Add a tick interval to the moving average. Overload makes ticks late."""
        self._tick_interval_s += (
            min(elapsed_s, TICK_INTERVAL_MAX_S) - self._tick_interval_s
        ) / TICK_AVERAGE_WINDOW

    def can_write(self) -> bool:
        """True if the disk keeps up. A disk that hangs without an error must not fill memory."""
        server = self._server
        return (
            server.journal.pending_bytes <= UNWRITTEN_BYTES_MAX
            and server.driver.pending_batches <= BACKLOG_MAX
        )

    def rejection(self, strong: bool, local_read: bool) -> tuple[RejectReason, str] | None:
        """Return the reason and message of a rejection, or None to admit the call.

        `local_read` is True for a call that needs neither records nor messages.
        """
        server = self._server
        driver, dispatcher = server.driver, server.dispatcher
        if server.failure is not None:
            return (
                RejectReason.STOPPING,
                f"this replica has failed: {server.failure}; call another replica",
            )
        if server.is_stopping:
            return RejectReason.STOPPING, "this replica is stopping; call another replica"
        if not server.membership.is_member and dispatcher.startup_barrier is None:
            return (
                RejectReason.STOPPING,
                "this replica is not a member of its cluster; call another replica",
            )
        if dispatcher.startup_barrier is not None and must_be_replaced(driver.replica.view):
            return RejectReason.STOPPING, dispatcher.expiry_message(dispatcher.startup_barrier)
        fault = server.journal.fault
        if fault is not None and (not local_read or driver.has_volatile_request):
            return RejectReason.DISK, f"this replica cannot write: {fault}"
        if not self.can_write() and not local_read:
            return (
                RejectReason.DISK,
                "the disk of this replica does not keep up; call another replica",
            )
        if driver.backlog > BACKLOG_MAX or self._is_overloaded():
            return RejectReason.BUSY, "this replica is overloaded; retry later"
        tentative = driver.replica.view.tentative_length()
        return server.pending_strong_calls.rejection(strong, tentative, self._reachability)

    def can_run_leader_tasks(self) -> bool:
        """True if this replica is the leader and may run leader tasks, even while it is busy.

        Leader tasks are small. If a busy leader skipped them, retained state would grow.
        """
        replica = self._server.driver.replica.view
        if replica.leader() != replica.index or replica.awaited_members() is not None:
            return False
        rejection = self.rejection(False, False)
        return rejection is None or rejection[0] == RejectReason.BUSY

    def _is_overloaded(self) -> bool:
        """True if calls arrive faster than this replica executes them.

        A suspended process or a single long operation does not count: its queue drains soon.
        """
        delay_s = self._server.driver.replica.view.queue_delay_ticks() * self._tick_interval_s
        return delay_s > self._server.config.busy_after

    def _reachability(self) -> tuple[int, int]:
        server = self._server
        return len(server.peers.connected_members()), len(server.membership.configuration.members)
