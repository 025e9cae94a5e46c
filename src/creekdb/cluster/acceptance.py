"""What a replica takes on at present, and what it has to refuse."""

from typing import TYPE_CHECKING, Final

from creekdb.cluster.beginning import is_to_be_replaced

if TYPE_CHECKING:
    from creekdb.cluster.server import Server

BACKLOG_MAX: Final = 20_000
"""Tasks and batches that wait: beyond that, clients are told that it is busy."""
UNWRITTEN_MAX: Final = 256 * 1024 * 1024
"""Bytes that wait for the disk: beyond that, it is as if nothing could be heard."""
BEAT_MAX_S: Final = 0.25
"""Of the time between two ticks no more counts: one that was stopped for long was not busy."""
BEATS: Final = 10
"""Of how many, or so, it is the mean that counts."""


class Acceptance:
    def __init__(self, server: "Server") -> None:
        self._server = server
        self._beat_s = server.config.tick_ms / 1000

    def beat(self, elapsed_s: float) -> None:
        """A tick came so long after the one before it: later than it should where there is too
        much to do."""
        self._beat_s += (min(elapsed_s, BEAT_MAX_S) - self._beat_s) / BEATS

    def disk_keeps_up(self) -> bool:
        """One that hangs, and does not say so, must not fill the memory."""
        server = self._server
        return server.journal.pending_bytes <= UNWRITTEN_MAX and server.driver.held <= BACKLOG_MAX

    def refusal(self, strong: bool, alone: bool) -> tuple[str, str] | None:
        """Why a call cannot be taken, as (reason, message). `alone`: it needs neither records nor
        messages."""
        server = self._server
        driver, desk = server.driver, server.desk
        if server.failure is not None:
            return "stopping", f"this replica had to stop, ask another one: {server.failure}"
        if server.is_stopping:
            return "stopping", "this replica is being stopped: ask another one"
        if not server.company.is_member and desk.opening is None:
            return "stopping", "this replica is no member of its cluster: ask another one"
        if desk.opening is not None and is_to_be_replaced(driver.replica):
            return "stopping", desk.why_too_late(desk.opening)
        failed = server.journal.failed
        if failed is not None and (not alone or driver.may_lose_what_it_issued):
            return "disk", f"this replica cannot write: {failed}"
        if not self.disk_keeps_up() and not alone:
            return "disk", "the disk of this replica does not keep up: ask another one"
        if driver.backlog > BACKLOG_MAX or self._keeps_waiting():
            return "busy", "this replica has more to do than it can: try again later"
        tentative = driver.replica.tentative_length()
        return server.undecided.refusal(strong, tentative, self._reach)

    def leads(self) -> bool:
        """Is it the one to do what is done once for all, however busy it is? That is little, and
        if it never came to it, what it has to keep would grow."""
        replica = self._server.driver.replica
        if replica.leader() != replica.index or replica.waits_for() is not None:
            return False
        refusal = self.refusal(False, False)
        return refusal is None or refusal[0] == "busy"

    def _keeps_waiting(self) -> bool:
        """Not for one that is stopped, or carries out one long operation: those who waited for that
        are soon gone. For more that comes than can be carried out."""
        waited_s = self._server.driver.replica.kept_waiting() * self._beat_s
        return waited_s > self._server.config.busy_after

    def _reach(self) -> tuple[int, int]:
        server = self._server
        return len(server.peers.connected()), len(server.company.configuration.members)
