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
    TAIL,
    Entry,
    Phase,
    Read,
    Stretch,
    committed_position,
    local_position,
    tentative_position,
)
from creekdb.execution.mvcc.scheduler import Unexecuted
from creekdb.execution.mvcc.state_loader import Arrivals
from creekdb.execution.result import Execution
from creekdb.protocol.effects import Observed, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation, OrderKey, Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.core.versioned import VersionedReplica

STRETCH_MAX = 256
"""Requests in one stretch."""


class _Seen(NamedTuple):
    """What an operation that only reads saw when it ran."""

    blocker: Entry | None
    """What it rests on that is not sure."""
    observed: Observed | None


class CreekReplica(VersionedReplica):
    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._last_of_session: dict[int, Entry] = {}
        self._invoking: int | None = None
        self._following: tuple[Dot, ...] = ()
        self._moved: list[Request] = []
        """Committed, in their order, and to take their places at once."""
        self._local: dict[Dot, Entry] = {}
        """Operations that only read, and are not answered yet."""
        self._local_number = 0
        self._to_execute: dict[int, int] = {}
        """How many requests of each session are not executed, or have to be again."""
        self._unexecuted = Unexecuted()
        """What was issued here."""
        self._held: dict[Entry, Entry] = {}
        """Executed, and not answered yet, with what has to be executed first."""
        self._holds: dict[Entry, list[Entry]] = {}
        """The same the other way round; who is not held by it any more may still be listed."""
        self._merged = 0
        """Requests that are a part of a stretch."""
        self._merged_to: OrderKey | None = None
        self._merge_above = settings.kept_apart
        """Requests kept apart until some are merged: more than usual after one was taken apart, so
        that it is not merged and taken apart over and over."""
        self._merge_pause = 0
        """Completed executions until the next try."""
        self._within_stretch = False
        """Was the last request that was settled one of a stretch, and not its last?"""
        self._stretch_length = max(2, min(STRETCH_MAX, settings.kept_apart // 2))

    # --- inputs -------------------------------------------------------------------------------

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        if self.answers_alone(operation, strong):
            return self._invoke_locally(operation, session, now, after)
        self._invoking, self._following = session, after
        return super().invoke(operation, strong, session, now)

    def tick(self, now: int) -> None:
        self._unexecuted.tick()
        super().tick(now)

    def answers_alone(self, operation: Operation, strong: bool) -> bool:
        local_reads = bool(self._settings.local_reads)
        return not strong and local_reads and operation.name in self._readonly

    def run(self, task: Task) -> Execution:
        execution = super().run(task)
        entry = self._local.get(task.request.id)
        if entry is None or execution.seen is None:
            return execution
        reads: dict[Key, Read] = execution.seen.reads
        seen = _Seen(self._blocker(entry, reads), self._observed(task.request))
        return msgspec.structs.replace(execution, seen=seen)

    def completed(self, task: Task, execution: Execution, now: int) -> None:
        self._unexecuted.completed()
        entry = self._scheduler.running.get(task.number)
        if entry is not None and task.request.id in self._local:
            self._scheduler.finish(task.number)
            self._completed_locally(entry, execution)
            self._proceed()
            return
        super().completed(task, execution, now)
        self._merge_old()

    def _invoke_locally(
        self, operation: Operation, session: int, now: int, after: tuple[Dot, ...]
    ) -> Dot:
        """Section 4.4: no other replica hears of it."""
        self._local_number += 1
        id = Dot(self.index, -self._local_number)
        request = Request(self._broadcasts.clock.peek(now), id, operation, strong=False)
        self._answers.expect(id, session, strong=False)
        self._local[id] = self._local_entry(request, session, after)
        self._proceed()
        return id

    def _completed_locally(self, entry: Entry, execution: Execution) -> None:
        """What it saw when it ran was the state then, whatever came since; unless that was not
        sure."""
        seen: _Seen = execution.seen
        request = entry.request
        if seen.blocker is not None:
            self._read_later(entry, seen.blocker)
            return
        self.probes.hit(Probe.ANSWERED_LOCALLY)
        del self._local[request.id]
        self._answers.once(request.id, execution.outcome, seen.observed)

    def _read_later(self, entry: Entry, blocker: Entry) -> None:
        entry.phase = Phase.WAITING
        waits = not isinstance(blocker, Stretch) and not blocker.is_executed
        if waits or blocker.hidden:
            self._hold(entry, blocker)
        else:
            self._scheduler.add(entry)

    def _local_entry(
        self, request: Request, session: int | None, follows: tuple[Dot, ...]
    ) -> Entry:
        assert session is not None
        entry = Entry(request, local_position(-request.id.event), session)
        entry.after = self._last_of_session.get(session)
        if follows:
            self._follow(entry, follows)
        self._scheduler.add(entry)
        return entry

    # --- the order changes --------------------------------------------------------------------

    def _inserted(self, request: Request) -> None:
        session, self._invoking = self._invoking, None
        follows, self._following = self._following, ()
        self._insert(request, session, follows)

    def _insert(self, request: Request, session: int | None, follows: tuple[Dot, ...]) -> None:
        entry = Entry(request, tentative_position(request), session)
        self._entries[request.id] = entry
        if follows:
            self._follow(entry, follows)
        if session is not None:
            entry.after = self._last_of_session.get(session)
            self._last_of_session[session] = entry
            self._to_execute[session] = self._to_execute.get(session, 0) + 1
            self._unexecuted.add(entry)
        self._scheduler.add(entry)

    def _follow(self, entry: Entry, ids: tuple[Dot, ...]) -> None:
        """What is not here any more is settled."""
        found = [self._entries.get(id) for id in ids]
        entry.follows = tuple([each for each in found if each is not None])

    def _committed(self, moved: list[Request]) -> None:
        """What is delivered together takes its places together, as far as it stood in this order
        before."""
        request, length = moved[-1], self._order.length
        if self._moved and _is_before(moved[0], self._moved[-1]):
            first = request if _is_before(request, moved[0]) else moved[0]
            self._take_places(length - len(moved), first)
        self._moved += moved
        if len(moved) > 1 and _is_before(request, moved[-2]):  # its context names what came later
            self._moved.pop()
            self._take_places(length - 1, request)
            self._moved.append(request)

    def _delivered(self) -> None:
        self._take_places(self._order.length)
        self._answer_stably(Probe.STABLE_FROM_COMMIT)

    def _take_places(self, end: int, overtaken: Request | None = None) -> None:
        """On `committed`, right before its place `end`. The first that stood before some of them,
        and comes behind them now, was `overtaken`.

        Who comes before all that stays tentative keeps its place among the others: only its name
        changes. Who jumps over something that stays has to be looked at."""
        moved, self._moved = self._moved, []
        stays = self._order.first_tentative()
        if overtaken is not None and (stays is None or _is_before(overtaken, stays)):
            stays = overtaken
        all_in_order = stays is None or _is_before(moved[-1], stays)
        for index, request in enumerate(moved, end - len(moved)):
            entry = self._entries[request.id]
            if entry.stretch is not None:
                self._commit_in_stretch(entry, entry.stretch, index, stays)
            waited = self._scheduler.remove(entry)
            if all_in_order or (stays is not None and _is_before(request, stays)):
                self._store.rename(entry, committed_position(index))
            else:
                self._store.move(entry, committed_position(index))
            if waited:
                self._scheduler.add(entry)
            self._execute_withdrawn()
        if self._held:
            for request in moved:
                if (entry := self._entries[request.id]) in self._held:
                    self._answer(entry)

    def _executed(self, entry: Entry) -> None:
        if entry.session is not None:
            self._note_executed(entry)
            self._answer(entry)
        self._answer_held_by(entry)
        if entry.stretch is not None:
            self._replaced_one_of(entry.stretch, entry)

    def _withdrawn(self, entry: Entry) -> None:
        if isinstance(entry, Stretch):
            self._take_apart(entry)
        else:
            self.probes.hit(Probe.ROLLED_BACK)
            self._note_withdrawn(entry)
            self._execute_again(entry)

    # --- a long list of tentative requests ----------------------------------------------------

    def _merge_old(self) -> None:
        """Of the oldest requests keep only what they left behind (Section 4.4: "snapshots that
        represent some prefix", from which versions can be recreated)."""
        if len(self._entries) - self._merged <= self._merge_above:
            return
        if self._merge_pause > 0:
            self._merge_pause -= 1
            return
        members: list[Entry] = []
        for request in self._order.tentative_after(self._merged_to):
            entry = self._entries[request.id]
            if entry.phase is Phase.MERGED:
                members.clear()  # too few, between two stretches: they stay apart
                self._merged_to = request.key
            elif entry.phase is Phase.EXECUTED and len(members) < self._stretch_length:
                members.append(entry)
            else:
                break
        if len(members) == self._stretch_length and self._store.is_sure(members[-1].position):
            self.probes.hit(Probe.STRETCH_MERGED)
            self._store.merge(members)
            self._merged += len(members)
            self._merged_to = members[-1].request.key
            self._merge_above = self._settings.kept_apart
        else:
            self._merge_pause = self._stretch_length

    def _take_apart(self, stretch: Stretch) -> None:
        """Something before it changed, or inside: its members are executed again."""
        self.probes.hit(Probe.STRETCH_TAKEN_APART)
        self._merged -= len(stretch.members)
        self._merge_above = len(self._entries) - self._merged + self._stretch_length
        # Committed with a late one in its midst, it may have been counted already.
        begin = stretch.members[0].position[0] - self._order.first
        self._done, self._written = min(self._done, begin), min(self._written, begin)
        first = stretch.members[0].request
        before = OrderKey(first.timestamp, Dot(first.id.replica, first.id.event - 1))
        if self._merged_to is not None and before < self._merged_to:
            self._merged_to = before
        for entry in stretch.members:
            entry.phase = Phase.WAITING
            stretch.to_come[entry] = None
            self._note_withdrawn(entry)
            self._scheduler.add(entry)

    def _replaced_one_of(self, stretch: Stretch, entry: Entry) -> None:
        entry.stretch = None
        stretch.to_come.pop(entry, None)
        if not stretch.to_come:
            self._store.replaced(stretch)
            self._execute_withdrawn()
            self._answer_held_by(stretch)

    def _commit_in_stretch(
        self, entry: Entry, stretch: Stretch, index: int, stays: Request | None
    ) -> None:
        """A stretch may be committed as a whole, in its place."""
        last = stretch.members[-1]
        if stretch.phase is Phase.EXECUTED and (stays is None or last.request.key < stays.key):
            if entry is stretch.members[0]:
                stretch.start = committed_position(index)
            if entry is last:
                self._store.rename(stretch, committed_position(index))
            return
        if stretch.phase is Phase.EXECUTED:
            self._store.take_apart(stretch)
            self._execute_withdrawn()
        for member in stretch.to_come:
            member.stretch = None
        self._store.replaced(stretch)
        self._execute_withdrawn()
        self._answer_held_by(stretch)

    # --- answers ------------------------------------------------------------------------------

    def _answer(self, entry: Entry) -> None:
        """Or hold the answer back until it may leave."""
        self._held.pop(entry, None)
        if entry.request.id in self._local:
            self._scheduler.add(entry)
            return
        blocker = self._blocker(entry, entry.reads)
        if blocker is not None:
            self._hold(entry, blocker)
        else:
            self._answer_tentatively(entry)

    def _hold(self, entry: Entry, blocker: Entry) -> None:
        self._held[entry] = blocker
        self._holds.setdefault(blocker, []).append(entry)

    def _answer_held_by(self, blocker: Entry) -> None:
        for entry in self._holds.pop(blocker, ()):
            if self._held.get(entry) is blocker:
                self._answer(entry)

    def _blocker(self, entry: Entry, reads: dict[Key, Read]) -> Entry | None:
        """What has to be executed again before it may be answered."""
        assert entry.session is not None
        blocker = self._store.rests_on(reads)
        for each in entry.follows:
            if blocker is None and each.position < entry.position:
                # All before it, too: what its session did there is not known here.
                blocker = self._scheduler.first_up_to(each.position) or self._blocks(each, entry)
        if self._store.is_sure(TAIL) and not self._to_execute.get(entry.session):
            return blocker
        before = entry.after
        while blocker is None and before is not None and before.phase is not Phase.SETTLED:
            blocker = self._blocks(before, entry)
            before = before.after
        return blocker

    def _blocks(self, before: Entry, entry: Entry) -> Entry | None:
        """The same, for the sake of one that it comes after, unless the order has it the other way
        round by now."""
        if before.position > entry.position:
            return None
        if not before.is_executed:
            return before
        return self._store.rests_on((before.stretch or before).reads)

    def _note_executed(self, entry: Entry) -> None:
        if entry.session is not None:
            self._to_execute[entry.session] -= 1
            if not self._to_execute[entry.session]:
                del self._to_execute[entry.session]

    def _note_withdrawn(self, entry: Entry) -> None:
        self._held.pop(entry, None)
        if entry.session is not None:
            self._to_execute[entry.session] = self._to_execute.get(entry.session, 0) + 1

    def _answer_tentatively(self, entry: Entry) -> None:
        request = entry.request
        awaiting = self._answers.awaiting.get(request.id)
        if awaiting is None or (request.strong and self.is_committed(request.id)):
            return
        assert entry.outcome is not None
        observed = self._observed(request)
        self._answers.tentatively(request.id, awaiting, entry.outcome, observed)

    # --- what is settled ----------------------------------------------------------------------

    def settle_request(self, request: Request) -> Outcome:
        entry = self._entries[request.id]
        if entry.session is not None and self._last_of_session.get(entry.session) is entry:
            del self._last_of_session[entry.session]
        entry.after, entry.follows = None, ()
        if entry.phase is Phase.MERGED:
            return self._settle_in_stretch(entry)
        return super().settle_request(request)

    def digest(self) -> int | None:
        return None if self._within_stretch else super().digest()

    def _settle_in_stretch(self, entry: Entry) -> Outcome:
        del self._entries[entry.request.id]
        self._merged -= 1
        assert entry.stretch is not None
        self._within_stretch = entry is not entry.stretch.members[-1]
        if not self._within_stretch:
            self._store.settle(entry.stretch)
            entry.stretch.members.clear()
        assert entry.outcome is not None
        return entry.outcome

    def _executed_before(self, request: Request) -> Iterator[Dot]:
        committed = islice(self._order.committed, self._settled.length - self._order.first, None)
        for each in chain(committed, self._order.tentative()):
            if each.id == request.id:
                return
            entry = self._entries[each.id]
            reads = (entry.stretch or entry).reads
            if entry.is_executed and self._store.rests_on(reads) is None:
                yield each.id

    def _load(self, arrived: Arrivals) -> None:
        before = self._entries
        super()._load(arrived)
        self._unexecuted.clear()
        self._held.clear()
        self._holds.clear()
        self._to_execute.clear()
        self._merged, self._merged_to = 0, None
        self._within_stretch = False
        self._merge_above, self._merge_pause = self._settings.kept_apart, 0
        self._last_of_session.clear()
        for request in self._order.tentative():
            entry = before.get(request.id)
            if entry is None:
                self._insert(request, None, ())
            else:
                self._insert(request, entry.session, _ids_of(entry.follows))
        for id, entry in self._local.items():
            follows = _ids_of(entry.follows)
            self._local[id] = self._local_entry(entry.request, entry.session, follows)

    # --- for those who look on ----------------------------------------------------------------

    def kept_waiting(self) -> int:
        return self._unexecuted.kept_waiting()

    def idle(self) -> bool:
        return super().idle() and not self._held


def _is_before(one: Request, other: Request) -> bool:
    """Line 3. As `one.key < other.key`, which is not compiled."""
    at, other_at = one.timestamp, other.timestamp
    return at < other_at if at != other_at else one.id < other.id


def _ids_of(entries: tuple[Entry, ...]) -> tuple[Dot, ...]:
    return tuple([each.request.id for each in entries])
