"""How much may wait for a majority that cannot be reached.

Weak calls are answered all the same, and strong ones tentatively; but what they leave behind stays
until the others are back. So both are bounded, and beyond that clients are told why.

What a replica takes on at present, and what it has to refuse.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from creekdb.protocol.effects import CheckpointInstalled, Event
from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.runtime.startup import must_be_replaced

if TYPE_CHECKING:
    from creekdb.server.runtime.server import Server

TENTATIVE_REQUESTS_MAX: Final = 1_000_000
"""Requests that are not committed yet, whoever issued them."""


class PendingStrongCalls:
    """The strong calls of this replica's clients that have no stable answer yet."""

    def __init__(self, most: int) -> None:
        self._limit = most
        self._ids: set[Dot] = set()

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, id: Dot) -> None:
        self._ids.add(id)

    def remove(self, id: Dot) -> None:
        """Stably."""
        self._ids.discard(id)

    def remove_installed(self, events: tuple[Event, ...]) -> None:
        """What a checkpoint brought is answered now, or never."""
        for event in events:
            if type(event) is CheckpointInstalled:
                self._ids = {id for id in self._ids if id not in event.ids}

    def rejection(
        self, strong: bool, tentative: int, reach: Callable[[], tuple[int, int]]
    ) -> tuple[str, str] | None:
        """Why another call cannot be taken, as (reason, message). `reach`: how many others there
        is a connection to, and how many members there are."""
        if strong and len(self._ids) >= self._limit:
            what = f"{len(self._ids)} strong calls wait for a stable answer"
        elif tentative >= TENTATIVE_REQUESTS_MAX:
            what = f"{tentative} requests wait to be committed"
        else:
            return None
        connected, members = reach()
        if connected + 1 <= members // 2:
            reached = f"this replica reaches {connected} of {members - 1} others: no majority"
            return "no_majority", f"{what}, and {reached}. Ask another one, or try again later"
        return "busy", f"{what}: try again later"


BACKLOG_MAX: Final = 20_000
"""Tasks and batches that wait: beyond that, clients are told that it is busy."""
UNWRITTEN_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes that wait for the disk: beyond that, it is as if nothing could be heard."""
TICK_INTERVAL_MAX_S: Final = 0.25
"""Of the time between two ticks no more counts: one that was stopped for long was not busy."""
TICK_AVERAGE_WINDOW: Final = 10
"""Of how many, or so, it is the mean that counts."""


class AdmissionControl:
    def __init__(self, server: "Server") -> None:
        self._server = server
        self._tick_interval_s = server.config.tick_ms / 1000

    def record_tick(self, elapsed_s: float) -> None:
        """A tick came so long after the one before it: later than it should where there is too
        much to do."""
        self._tick_interval_s += (
            min(elapsed_s, TICK_INTERVAL_MAX_S) - self._tick_interval_s
        ) / TICK_AVERAGE_WINDOW

    def can_write(self) -> bool:
        """One that hangs, and does not say so, must not fill the memory."""
        server = self._server
        return (
            server.journal.pending_bytes <= UNWRITTEN_BYTES_MAX
            and server.driver.pending_batches <= BACKLOG_MAX
        )

    def rejection(self, strong: bool, alone: bool) -> tuple[str, str] | None:
        """Why a call cannot be taken, as (reason, message). `alone`: it needs neither records nor
        messages."""
        server = self._server
        driver, desk = server.driver, server.dispatcher
        if server.failure is not None:
            return "stopping", f"this replica had to stop, ask another one: {server.failure}"
        if server.is_stopping:
            return "stopping", "this replica is being stopped: ask another one"
        if not server.membership.is_member and desk.startup_barrier is None:
            return "stopping", "this replica is no member of its cluster: ask another one"
        if desk.startup_barrier is not None and must_be_replaced(driver.replica):
            return "stopping", desk.expiry_message(desk.startup_barrier)
        failed = server.journal.fault
        if failed is not None and (not alone or driver.has_volatile_request):
            return "disk", f"this replica cannot write: {failed}"
        if not self.can_write() and not alone:
            return "disk", "the disk of this replica does not keep up: ask another one"
        if driver.backlog > BACKLOG_MAX or self._is_overloaded():
            return "busy", "this replica has more to do than it can: try again later"
        tentative = driver.replica.tentative_length()
        return server.pending_strong_calls.rejection(strong, tentative, self._reachability)

    def can_run_leader_tasks(self) -> bool:
        """Is it the one to do what is done once for all, however busy it is? That is little, and
        if it never came to it, what it has to keep would grow."""
        replica = self._server.driver.replica
        if replica.leader() != replica.index or replica.awaited_members() is not None:
            return False
        refusal = self.rejection(False, False)
        return refusal is None or refusal[0] == "busy"

    def _is_overloaded(self) -> bool:
        """Not for one that is stopped, or carries out one long operation: those who waited for that
        are soon gone. For more that comes than can be carried out."""
        waited_s = self._server.driver.replica.queue_delay_ticks() * self._tick_interval_s
        return waited_s > self._server.config.busy_after

    def _reachability(self) -> tuple[int, int]:
        server = self._server
        return len(server.peers.connected_members()), len(server.membership.configuration.members)
