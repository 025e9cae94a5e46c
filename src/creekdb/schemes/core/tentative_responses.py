"""Conditions for sending a tentative response from the version store.

A tentative response must not depend on a rolled-back request that awaits re-execution. The same
holds for the session's earlier requests and for the declared dependencies of the call. Until then
the response is blocked by the request that must be executed first.
"""

from creekdb.execution.mvcc.entry import END_POSITION, ExecutionPhase, Read, RequestEntry
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.stable_prefix import StablePrefix
from creekdb.schemes.core.versioned import VersionedExecution


class TentativeResponses:
    def __init__(
        self,
        variables: ReplicaVariables,
        execution: VersionedExecution,
        stable_prefix: StablePrefix,
    ) -> None:
        self._order = variables.order
        self._responses = variables.responses
        self._execution = execution
        self._store = execution.store
        self._scheduler = execution.scheduler
        self._stable_prefix = stable_prefix
        self._pending_by_session: dict[int, int] = {}
        """Number of requests of each session that are not executed, or are rolled back."""
        self.blocker_of: dict[RequestEntry, RequestEntry] = {}
        """Executed entries whose response waits, each with the entry that must execute first."""
        self._blocked_by: dict[RequestEntry, list[RequestEntry]] = {}
        """Inverse of `blocker_of`. May still list entries that are no longer blocked."""

    def clear(self) -> None:
        self.blocker_of.clear()
        self._blocked_by.clear()
        self._pending_by_session.clear()

    def count_pending(self, entry: RequestEntry) -> None:
        """Count an entry of a session that is not executed, or is rolled back."""
        self.blocker_of.pop(entry, None)
        if entry.session is not None:
            self._pending_by_session[entry.session] = (
                self._pending_by_session.get(entry.session, 0) + 1
            )

    def respond_after_execution(self, entry: RequestEntry) -> None:
        """Respond to the entry, and to those that it blocked."""
        if entry.session is not None:
            self._pending_by_session[entry.session] -= 1
            if not self._pending_by_session[entry.session]:
                del self._pending_by_session[entry.session]
            self._respond_or_block(entry)
        self.respond_blocked_by(entry)

    def respond_after_commit(self, requests: list[Request]) -> None:
        """Check blocked requests again, whose positions have changed."""
        if self.blocker_of:
            for request in requests:
                if (entry := self._execution.entries[request.id]) in self.blocker_of:
                    self._respond_or_block(entry)

    def respond_blocked_by(self, blocker: RequestEntry) -> None:
        for entry in self._blocked_by.pop(blocker, ()):
            if self.blocker_of.get(entry) is blocker:
                self._respond_or_block(entry)

    def block(self, entry: RequestEntry, blocker: RequestEntry) -> None:
        self.blocker_of[entry] = blocker
        self._blocked_by.setdefault(blocker, []).append(entry)

    def _respond_or_block(self, entry: RequestEntry) -> None:
        """Send the tentative response, or block it until its dependencies are executed."""
        self.blocker_of.pop(entry, None)
        if entry.phase is ExecutionPhase.WAITING:  # a local read, which is executed again
            self._scheduler.add(entry)
            return
        blocker = self.find_blocker(entry, entry.effective_reads)
        if blocker is not None:
            self.block(entry, blocker)
        else:
            self._respond(entry)

    def _respond(self, entry: RequestEntry) -> None:
        request = entry.request
        awaiting = self._responses.awaiting.get(request.id)
        if awaiting is None or (request.strong and request.id in self._order.committed_ids):
            return
        assert entry.outcome is not None
        observed = self._stable_prefix.observe(request)
        self._responses.respond_tentative(request.id, awaiting, entry.outcome, observed)

    def find_blocker(self, entry: RequestEntry, reads: dict[Key, Read]) -> RequestEntry | None:
        """Return a request that must be executed before the response is sent, or None."""
        assert entry.session is not None
        blocker = self._store.pending_rollbacks.find_pending_writer(reads)
        for dependency in entry.dependencies:
            if blocker is None and dependency.position < entry.position:
                # The dependency's session is unknown here, so everything before it counts too.
                blocker = self._scheduler.first_pending_up_to(
                    dependency.position
                ) or self._find_predecessor_blocker(dependency, entry)
        if self._store.is_valid_up_to(END_POSITION) and not self._pending_by_session.get(
            entry.session
        ):
            return blocker
        predecessor = entry.session_predecessor
        while (
            blocker is None
            and predecessor is not None
            and predecessor.phase is not ExecutionPhase.STABLE
        ):
            blocker = self._find_predecessor_blocker(predecessor, entry)
            predecessor = predecessor.session_predecessor
        return blocker

    def _find_predecessor_blocker(
        self, predecessor: RequestEntry, entry: RequestEntry
    ) -> RequestEntry | None:
        """Return a request that must be executed before a response that depends on `predecessor`.

        Return None if `predecessor` has a later position than the entry by now.
        """
        if predecessor.position > entry.position:
            return None
        if not predecessor.is_executed:
            return predecessor
        return self._store.pending_rollbacks.find_pending_writer(predecessor.effective_reads)
