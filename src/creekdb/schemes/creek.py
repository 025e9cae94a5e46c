"""Creek as Section 4.4 has it: versions, rollbacks only if necessary, concurrent execution.

Every request is executed at its place in `committed · tentative`, and again only if a request that
came late, or a commit that changed the order, made it wrong (`versioned`). A weak operation that
only reads is executed at the end of the order, here alone, and leaves no trace.

Rules for answers: a tentative one leaves when nothing that it rests on was withdrawn and may come
back otherwise, and likewise for everything that its session did before it, or that it was asked to
come after; a stable one when everything before it that may write is executed and committed.
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import (
    END_POSITION,
    ExecutionPhase,
    MergedRun,
    Read,
    RequestEntry,
    committed_position,
    local_position,
    tentative_position,
)
from creekdb.execution.mvcc.scheduler import QueueDelay
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import ObservedOrder, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation, OrderKey, Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.core.versioned import VersionedReplica

MERGED_RUN_MAX = 256
"""Requests in one stretch."""


class _LocalReadSet(NamedTuple):
    """What an operation that only reads saw when it ran."""

    blocker: RequestEntry | None
    """What it rests on that is not sure."""
    observed: ObservedOrder | None


class CreekReplica(VersionedReplica):
    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._last_by_session: dict[int, RequestEntry] = {}
        self._invoking_session: int | None = None
        self._invoking_dependencies: tuple[Dot, ...] = ()
        self._newly_committed: list[Request] = []
        """Committed, in their order, and to take their places at once."""
        self._local_reads: dict[Dot, RequestEntry] = {}
        """Operations that only read, and are not answered yet."""
        self._local_read_number = 0
        self._pending_by_session: dict[int, int] = {}
        """How many requests of each session are not executed, or have to be again."""
        self._queue_delay = QueueDelay()
        """What was issued here."""
        self._blocker_of: dict[RequestEntry, RequestEntry] = {}
        """Executed, and not answered yet, with what has to be executed first."""
        self._blocked_by: dict[RequestEntry, list[RequestEntry]] = {}
        """The same the other way round; who is not held by it any more may still be listed."""
        self._merged_count = 0
        """Requests that are a part of a stretch."""
        self._merged_up_to: OrderKey | None = None
        self._merge_above = settings.kept_apart
        """Requests kept apart until some are merged: more than usual after one was taken apart, so
        that it is not merged and taken apart over and over."""
        self._merge_pause = 0
        """Completed executions until the next try."""
        self._is_inside_run = False
        """Was the last request that was settled one of a stretch, and not its last?"""
        self._run_length = max(2, min(MERGED_RUN_MAX, settings.kept_apart // 2))

    # --- inputs -------------------------------------------------------------------------------

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        if self.can_respond_locally(operation, strong):
            return self._invoke_locally(operation, session, now, after)
        self._invoking_session, self._invoking_dependencies = session, after
        return super().invoke(operation, strong, session, now)

    def tick(self, now: int) -> None:
        self._queue_delay.tick()
        super().tick(now)

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        local_reads = bool(self._settings.local_reads)
        return not strong and local_reads and operation.name in self._readonly

    def run(self, task: Task) -> ExecutionResult:
        execution = super().run(task)
        entry = self._local_reads.get(task.request.id)
        if entry is None or execution.read_set is None:
            return execution
        reads: dict[Key, Read] = execution.read_set.reads
        seen = _LocalReadSet(self._find_blocker(entry, reads), self._observe(task.request))
        return msgspec.structs.replace(execution, read_set=seen)

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        self._queue_delay.completed()
        entry = self._scheduler.running.get(task.number)
        if entry is not None and task.request.id in self._local_reads:
            self._scheduler.finish(task.number)
            self._complete_locally(entry, execution)
            self._proceed()
            return
        super().completed(task, execution, now)
        self._merge_oldest()

    def _invoke_locally(
        self, operation: Operation, session: int, now: int, after: tuple[Dot, ...]
    ) -> Dot:
        """Section 4.4: no other replica hears of it."""
        self._local_read_number += 1
        id = Dot(self.index, -self._local_read_number)
        request = Request(self._stack.clock.peek(now), id, operation, strong=False)
        self._responses.expect(id, session, strong=False)
        self._local_reads[id] = self._add_local_read(request, session, after)
        self._proceed()
        return id

    def _complete_locally(self, entry: RequestEntry, execution: ExecutionResult) -> None:
        """What it saw when it ran was the state then, whatever came since; unless that was not
        sure."""
        seen: _LocalReadSet = execution.read_set
        request = entry.request
        if seen.blocker is not None:
            self._retry_local_read(entry, seen.blocker)
            return
        self.probes.hit(Probe.ANSWERED_LOCALLY)
        del self._local_reads[request.id]
        self._responses.respond_local(request.id, execution.outcome, seen.observed)

    def _retry_local_read(self, entry: RequestEntry, blocker: RequestEntry) -> None:
        entry.phase = ExecutionPhase.WAITING
        waits = not isinstance(blocker, MergedRun) and not blocker.is_executed
        if waits or blocker.hidden_versions:
            self._block(entry, blocker)
        else:
            self._scheduler.add(entry)

    def _add_local_read(
        self, request: Request, session: int | None, follows: tuple[Dot, ...]
    ) -> RequestEntry:
        assert session is not None
        entry = RequestEntry(request, local_position(-request.id.event), session)
        entry.session_predecessor = self._last_by_session.get(session)
        if follows:
            self._set_dependencies(entry, follows)
        self._scheduler.add(entry)
        return entry

    # --- the order changes --------------------------------------------------------------------

    def _on_inserted(self, request: Request) -> None:
        session, self._invoking_session = self._invoking_session, None
        follows, self._invoking_dependencies = self._invoking_dependencies, ()
        self._insert(request, session, follows)

    def _insert(self, request: Request, session: int | None, follows: tuple[Dot, ...]) -> None:
        entry = RequestEntry(request, tentative_position(request), session)
        self._entries[request.id] = entry
        if follows:
            self._set_dependencies(entry, follows)
        if session is not None:
            entry.session_predecessor = self._last_by_session.get(session)
            self._last_by_session[session] = entry
            self._pending_by_session[session] = self._pending_by_session.get(session, 0) + 1
            self._queue_delay.add(entry)
        self._scheduler.add(entry)

    def _set_dependencies(self, entry: RequestEntry, ids: tuple[Dot, ...]) -> None:
        """What is not here any more is settled."""
        found = [self._entries.get(id) for id in ids]
        entry.dependencies = tuple([each for each in found if each is not None])

    def _on_committed(self, moved: list[Request]) -> None:
        """What is delivered together takes its places together, as far as it stood in this order
        before."""
        request, length = moved[-1], self._order.length
        if self._newly_committed and _is_before(moved[0], self._newly_committed[-1]):
            first = request if _is_before(request, moved[0]) else moved[0]
            self._assign_positions(length - len(moved), first)
        self._newly_committed += moved
        if len(moved) > 1 and _is_before(request, moved[-2]):  # its context names what came later
            self._newly_committed.pop()
            self._assign_positions(length - 1, request)
            self._newly_committed.append(request)

    def _on_delivered(self) -> None:
        self._assign_positions(self._order.length)
        self._respond_to_stable_prefix(Probe.STABLE_FROM_COMMIT)

    def _assign_positions(self, end: int, overtaken: Request | None = None) -> None:
        """On `committed`, right before its place `end`. The first that stood before some of them,
        and comes behind them now, was `overtaken`.

        Who comes before all that stays tentative keeps its place among the others: only its name
        changes. Who jumps over something that stays has to be looked at."""
        moved, self._newly_committed = self._newly_committed, []
        stays = self._order.first_tentative()
        if overtaken is not None and (stays is None or _is_before(overtaken, stays)):
            stays = overtaken
        all_in_order = stays is None or _is_before(moved[-1], stays)
        for index, request in enumerate(moved, end - len(moved)):
            entry = self._entries[request.id]
            if entry.merged_run is not None:
                self._commit_in_run(entry, entry.merged_run, index, stays)
            waited = self._scheduler.remove(entry)
            if all_in_order or (stays is not None and _is_before(request, stays)):
                self._store.renumber(entry, committed_position(index))
            else:
                self._store.move(entry, committed_position(index))
            if waited:
                self._scheduler.add(entry)
            self._handle_rollbacks()
        if self._blocker_of:
            for request in moved:
                if (entry := self._entries[request.id]) in self._blocker_of:
                    self._respond_or_block(entry)

    def _on_executed(self, entry: RequestEntry) -> None:
        if entry.session is not None:
            self._count_executed(entry)
            self._respond_or_block(entry)
        self._respond_blocked_by(entry)
        if entry.merged_run is not None:
            self._replace_in_run(entry.merged_run, entry)

    def _on_rolled_back(self, entry: RequestEntry) -> None:
        if isinstance(entry, MergedRun):
            self._split_run(entry)
        else:
            self.probes.hit(Probe.ROLLED_BACK)
            self._count_rolled_back(entry)
            self._reschedule(entry)

    # --- a long list of tentative requests ----------------------------------------------------

    def _merge_oldest(self) -> None:
        """Of the oldest requests keep only what they left behind (Section 4.4: "snapshots that
        represent some prefix", from which versions can be recreated)."""
        if len(self._entries) - self._merged_count <= self._merge_above:
            return
        if self._merge_pause > 0:
            self._merge_pause -= 1
            return
        members: list[RequestEntry] = []
        for request in self._order.tentative_after(self._merged_up_to):
            entry = self._entries[request.id]
            if entry.phase is ExecutionPhase.MERGED:
                members.clear()  # too few, between two stretches: they stay apart
                self._merged_up_to = request.key
            elif entry.phase is ExecutionPhase.EXECUTED and len(members) < self._run_length:
                members.append(entry)
            else:
                break
        if len(members) == self._run_length and self._store.is_valid_up_to(members[-1].position):
            self.probes.hit(Probe.STRETCH_MERGED)
            self._store.merge(members)
            self._merged_count += len(members)
            self._merged_up_to = members[-1].request.key
            self._merge_above = self._settings.kept_apart
        else:
            self._merge_pause = self._run_length

    def _split_run(self, stretch: MergedRun) -> None:
        """Something before it changed, or inside: its members are executed again."""
        self.probes.hit(Probe.STRETCH_TAKEN_APART)
        self._merged_count -= len(stretch.entries)
        self._merge_above = len(self._entries) - self._merged_count + self._run_length
        # Committed with a late one in its midst, it may have been counted already.
        begin = stretch.entries[0].position[0] - self._order.first_position
        self._executed_count, self._written_count = (
            min(self._executed_count, begin),
            min(self._written_count, begin),
        )
        first = stretch.entries[0].request
        before = OrderKey(first.timestamp, Dot(first.id.replica, first.id.event - 1))
        if self._merged_up_to is not None and before < self._merged_up_to:
            self._merged_up_to = before
        for entry in stretch.entries:
            entry.phase = ExecutionPhase.WAITING
            stretch.pending_entries[entry] = None
            self._count_rolled_back(entry)
            self._scheduler.add(entry)

    def _replace_in_run(self, stretch: MergedRun, entry: RequestEntry) -> None:
        entry.merged_run = None
        stretch.pending_entries.pop(entry, None)
        if not stretch.pending_entries:
            self._store.finish_split(stretch)
            self._handle_rollbacks()
            self._respond_blocked_by(stretch)

    def _commit_in_run(
        self, entry: RequestEntry, stretch: MergedRun, index: int, stays: Request | None
    ) -> None:
        """A stretch may be committed as a whole, in its place."""
        last = stretch.entries[-1]
        if stretch.phase is ExecutionPhase.EXECUTED and (
            stays is None or last.request.key < stays.key
        ):
            if entry is stretch.entries[0]:
                stretch.start_position = committed_position(index)
            if entry is last:
                self._store.renumber(stretch, committed_position(index))
            return
        if stretch.phase is ExecutionPhase.EXECUTED:
            self._store.split(stretch)
            self._handle_rollbacks()
        for member in stretch.pending_entries:
            member.merged_run = None
        self._store.finish_split(stretch)
        self._handle_rollbacks()
        self._respond_blocked_by(stretch)

    # --- answers ------------------------------------------------------------------------------

    def _respond_or_block(self, entry: RequestEntry) -> None:
        """Or hold the answer back until it may leave."""
        self._blocker_of.pop(entry, None)
        if entry.request.id in self._local_reads:
            self._scheduler.add(entry)
            return
        blocker = self._find_blocker(entry, entry.reads)
        if blocker is not None:
            self._block(entry, blocker)
        else:
            self._respond_tentatively(entry)

    def _block(self, entry: RequestEntry, blocker: RequestEntry) -> None:
        self._blocker_of[entry] = blocker
        self._blocked_by.setdefault(blocker, []).append(entry)

    def _respond_blocked_by(self, blocker: RequestEntry) -> None:
        for entry in self._blocked_by.pop(blocker, ()):
            if self._blocker_of.get(entry) is blocker:
                self._respond_or_block(entry)

    def _find_blocker(self, entry: RequestEntry, reads: dict[Key, Read]) -> RequestEntry | None:
        """What has to be executed again before it may be answered."""
        assert entry.session is not None
        blocker = self._store.find_pending_writer(reads)
        for each in entry.dependencies:
            if blocker is None and each.position < entry.position:
                # All before it, too: what its session did there is not known here.
                blocker = self._scheduler.first_pending_up_to(
                    each.position
                ) or self._find_blocker_before(each, entry)
        if self._store.is_valid_up_to(END_POSITION) and not self._pending_by_session.get(
            entry.session
        ):
            return blocker
        before = entry.session_predecessor
        while blocker is None and before is not None and before.phase is not ExecutionPhase.STABLE:
            blocker = self._find_blocker_before(before, entry)
            before = before.session_predecessor
        return blocker

    def _find_blocker_before(
        self, before: RequestEntry, entry: RequestEntry
    ) -> RequestEntry | None:
        """The same, for the sake of one that it comes after, unless the order has it the other way
        round by now."""
        if before.position > entry.position:
            return None
        if not before.is_executed:
            return before
        return self._store.find_pending_writer((before.merged_run or before).reads)

    def _count_executed(self, entry: RequestEntry) -> None:
        if entry.session is not None:
            self._pending_by_session[entry.session] -= 1
            if not self._pending_by_session[entry.session]:
                del self._pending_by_session[entry.session]

    def _count_rolled_back(self, entry: RequestEntry) -> None:
        self._blocker_of.pop(entry, None)
        if entry.session is not None:
            self._pending_by_session[entry.session] = (
                self._pending_by_session.get(entry.session, 0) + 1
            )

    def _respond_tentatively(self, entry: RequestEntry) -> None:
        request = entry.request
        awaiting = self._responses.awaiting.get(request.id)
        if awaiting is None or (request.strong and self.is_committed(request.id)):
            return
        assert entry.outcome is not None
        observed = self._observe(request)
        self._responses.respond_tentative(request.id, awaiting, entry.outcome, observed)

    # --- what is settled ----------------------------------------------------------------------

    def stabilise_request(self, request: Request) -> Outcome:
        entry = self._entries[request.id]
        if entry.session is not None and self._last_by_session.get(entry.session) is entry:
            del self._last_by_session[entry.session]
        entry.session_predecessor, entry.dependencies = None, ()
        if entry.phase is ExecutionPhase.MERGED:
            return self._stabilise_in_run(entry)
        return super().stabilise_request(request)

    def digest(self) -> int | None:
        return None if self._is_inside_run else super().digest()

    def _stabilise_in_run(self, entry: RequestEntry) -> Outcome:
        del self._entries[entry.request.id]
        self._merged_count -= 1
        assert entry.merged_run is not None
        self._is_inside_run = entry is not entry.merged_run.entries[-1]
        if not self._is_inside_run:
            self._store.stabilise(entry.merged_run)
            entry.merged_run.entries.clear()
        assert entry.outcome is not None
        return entry.outcome

    def _executed_before(self, request: Request) -> Iterator[Dot]:
        committed = islice(
            self._order.committed, self._stable_prefix.length - self._order.first_position, None
        )
        for each in chain(committed, self._order.tentative()):
            if each.id == request.id:
                return
            entry = self._entries[each.id]
            reads = (entry.merged_run or entry).reads
            if entry.is_executed and self._store.find_pending_writer(reads) is None:
                yield each.id

    def _load(self, arrived: StateLoader) -> None:
        before = self._entries
        super()._load(arrived)
        self._queue_delay.clear()
        self._blocker_of.clear()
        self._blocked_by.clear()
        self._pending_by_session.clear()
        self._merged_count, self._merged_up_to = 0, None
        self._is_inside_run = False
        self._merge_above, self._merge_pause = self._settings.kept_apart, 0
        self._last_by_session.clear()
        for request in self._order.tentative():
            entry = before.get(request.id)
            if entry is None:
                self._insert(request, None, ())
            else:
                self._insert(request, entry.session, _ids_of(entry.dependencies))
        for id, entry in self._local_reads.items():
            follows = _ids_of(entry.dependencies)
            self._local_reads[id] = self._add_local_read(entry.request, entry.session, follows)

    # --- for those who look on ----------------------------------------------------------------

    def queue_delay_ticks(self) -> int:
        return self._queue_delay.delay_ticks()

    def is_idle(self) -> bool:
        return super().is_idle() and not self._blocker_of


def _is_before(one: Request, other: Request) -> bool:
    """Line 3. As `one.key < other.key`, which is not compiled."""
    at, other_at = one.timestamp, other.timestamp
    return at < other_at if at != other_at else one.id < other.id


def _ids_of(entries: tuple[RequestEntry, ...]) -> tuple[Dot, ...]:
    return tuple([each.request.id for each in entries])
