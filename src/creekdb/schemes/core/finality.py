"""Finality of outcomes by footprints: which committed requests may have their stable response.

Without footprints, the outcome of a committed request is final once every request before it that
may write is executed. With footprints, it does not wait for requests that it cannot depend on.

A tracked request is *final* or *open*. It becomes final when

1. it is executed,
2. no open request before it may write what it may touch, and
3. it reads no version that a merged run will write again.

Read-only requests write nothing, so no other request waits for them.

Why the outcome of a final request never changes. Let R be final, and let D be the requests before R
from which a chain of overlaps leads to R: each may write what the next one may touch. Rule 2 makes
every request of D final before R. So a rule for direct overlaps covers the chains, too. A chain
cannot be left out: a request between two disjoint ones passes on what the first one writes.

An execution reads only registers of its footprint, and only requests with such a register in their
own footprint write it. So every version that a request of D, or R, reads was written by a request
of D. The positions of D are final, no request can be committed before them, and all of D is
executed and valid. By induction over the positions, each execution in D and that of R read what a
sequential execution of `committed` reads at the same position.

Rule 3 is for splits. The readers of a split run are validated only after its last member is
executed again, although the members that they depend on may be final before.

A final request can be scheduled again in one case: a merged run is split, which executes all its
members again, and possibly their readers. The outcome will be the same, but the versions are
missing in between. The request is therefore open again until its new execution is final. Requests
that are final already stay so.
"""

from collections.abc import Callable

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import MergedRun, RequestEntry
from creekdb.execution.mvcc.footprint_index import FootprintIndex
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.protocol.probes import Probe


class FinalityTracker:
    """Open committed requests, and the requests that each of them waits for."""

    def __init__(
        self,
        store: VersionStore,
        datatype: DataType,
        readonly: frozenset[str],
        on_final: Callable[[RequestEntry, Probe], None],
    ) -> None:
        """`on_final` receives each request that becomes final, and the probe of the event."""
        self._store = store
        self._readonly = readonly
        self._on_final = on_final
        self._open: dict[RequestEntry, None] = {}
        self._writers = FootprintIndex(datatype.footprint)
        """Open requests that may write."""
        self._blocker_of: dict[RequestEntry, RequestEntry] = {}
        """Executed open requests, each with an open request or a split run that it waits for."""
        self._blocked_by: dict[RequestEntry, list[RequestEntry]] = {}
        """Inverse of `_blocker_of`."""

    def commit(self, entry: RequestEntry, probe: Probe) -> None:
        """Track a request. Requests are tracked in the order of `committed`."""
        if (
            entry.is_executed
            and not self._writers.has_before(entry.position)
            and self._store.is_valid_up_to(entry.position)
        ):
            self._on_final(entry, probe)  # the usual case, which needs no footprint
            return
        self.reopen(entry)
        self._advance([entry], probe)

    def execute(self, entry: RequestEntry, probe: Probe) -> None:
        """Continue after an execution of the request, which may not be tracked."""
        if entry in self._open and entry not in self._blocker_of:
            self._advance([entry], probe)

    def reopen(self, entry: RequestEntry) -> None:
        """Open a tracked request, because it will be executed again."""
        request = entry.request
        may_write = request.operation.name not in self._readonly
        if entry in self._open or not (may_write or request.strong):
            return  # no response waits for a weak read-only request
        self._open[entry] = None
        if may_write:
            self._writers.add(entry)

    def finish_split(self, run: MergedRun, probe: Probe) -> None:
        """Continue with the requests that read versions of a split run, now validated."""
        self._advance(self._take_blocked_by(run), probe)

    def has_open_writer_before(self, entry: RequestEntry) -> bool:
        """True if a request before the entry that may write is open."""
        return self._writers.has_before(entry.position)

    def clear(self) -> None:
        self._open.clear()
        self._writers.clear()
        self._blocker_of.clear()
        self._blocked_by.clear()

    def _advance(self, entries: list[RequestEntry], probe: Probe) -> None:
        """Make these entries final, and those that wait for them, or find what they wait for."""
        while entries:
            entry = entries.pop()
            if entry not in self._open or not entry.is_executed:
                continue
            blocker = self._find_blocker(entry)
            if blocker is not None:
                self._blocker_of[entry] = blocker
                self._blocked_by.setdefault(blocker, []).append(entry)
                continue
            del self._open[entry]
            if entry.request.operation.name not in self._readonly:
                self._writers.remove(entry)
            self._on_final(entry, probe)
            entries += self._take_blocked_by(entry)

    def _find_blocker(self, entry: RequestEntry) -> RequestEntry | None:
        blocker = self._writers.find_overlap(entry)
        if blocker is None:
            blocker = self._store.pending_rollbacks.find_pending_writer(entry.effective_reads)
        return blocker

    def _take_blocked_by(self, blocker: RequestEntry) -> list[RequestEntry]:
        """Return the requests that wait for `blocker`, last one first, and let them continue."""
        blocked = self._blocked_by.pop(blocker, [])
        for entry in blocked:
            del self._blocker_of[entry]
        blocked.reverse()
        return blocked
