"""Guarantees of sessions, from the responses to clients of a key-value store alone.

Creek promises less for tentative responses than for stable ones, so the guarantees are these:

- *Read your writes*: every response contains the writes of its session that had a response when
  the call began. It may be tentative or stable, and the session may have changed the replica.
- *Monotonic reads*: a stable response contains each write that an earlier stable response of its
  session contained.
- *Monotonic writes*: a stable response that contains a write also contains the earlier ones of the
  same session. The write must be strong, or the earlier one stable when the write began.
- *Writes follow reads*: a stable response that contains a write also contains each write that a
  stable response of the writing session contained earlier.

After a client has changed the replica, a tentative response may lack writes of other sessions that
an earlier one contained. Two weak writes of a session may change their order for the same reason.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from creekdb.checkers.blackbox.kv_observations import (
    KvWrites,
    MalformedResponse,
    View,
    amount_of,
    call_witness,
    counted,
    view_of,
    written_key,
)
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall, ObservedRun
from creekdb.checkers.verdict import Illegal, Ok, Verdict

CHECKER: Final = "sessions"


class SessionViolation(Exception):
    def __init__(self, guarantee: str, cause: str, *calls: ObservedCall) -> None:
        super().__init__(f"{guarantee}: {cause}")
        self.calls = calls


class _WriteLog:
    """Writes that later responses to a session must contain, in the order of their additions."""

    def __init__(self, prefixes: frozenset[str]) -> None:
        self._prefixes = prefixes
        self._positions: dict[str, int] = {}
        self._by_prefix: defaultdict[str, list[str]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._positions)

    def add(self, key: str) -> None:
        if key not in self._positions:
            self._positions[key] = len(self._positions)
            for end in range(len(key) + 1):
                if key[:end] in self._prefixes:
                    self._by_prefix[key[:end]].append(key)

    def absent_from(self, view: View, length: int) -> str | None:
        """Return a write among the first `length` ones that the view should contain, or None."""
        if view.prefix is None:
            known = [each for each in view.values if self._positions.get(each, length) < length]
            return next((each for each in known if view.values[each] is None), None)
        for key in self._by_prefix[view.prefix]:
            if self._positions[key] >= length:
                break
            if key not in view.values:
                return key
        return None


class _Snapshot(NamedTuple):
    """State of a session when it began a call. `own` and `stable` are lengths of its logs."""

    own: int
    stable: int
    own_sums: dict[str, int]
    """Sum of the own increments with a response, by counter."""
    stable_sums: dict[str, int]


class _Session:
    def __init__(self, prefixes: frozenset[str]) -> None:
        self.own = _WriteLog(prefixes)
        """Own writes with a response."""
        self.stable = _WriteLog(prefixes)
        """Writes that a stable response contained, and own writes that are stable."""
        self.own_sums: defaultdict[str, int] = defaultdict(int)
        self.own_stable_sums: defaultdict[str, int] = defaultdict(int)
        self.seen_sums: defaultdict[str, int] = defaultdict(int)
        """Greatest value of each counter in a stable response."""

    def snapshot(self, counters: Iterable[str]) -> _Snapshot:
        return _Snapshot(
            len(self.own),
            len(self.stable),
            {each: self.own_sums[each] for each in counters},
            {each: max(self.own_stable_sums[each], self.seen_sums[each]) for each in counters},
        )


def check_sessions(run: ObservedRun) -> Verdict:
    """Return the verdict on a run of the key-value store."""
    try:
        _SessionCheck(run).replay()
    except (SessionViolation, MalformedResponse) as violation:
        return Illegal(CHECKER, str(violation), tuple(map(call_witness, violation.calls)))
    return Ok(CHECKER)


class _SessionCheck:
    """Replay of the invocations and responses of a run in the order of time."""

    def __init__(self, run: ObservedRun) -> None:
        self._run = run
        self._writes = KvWrites(run)
        prefixes = frozenset(
            prefix
            for call in run.calls
            if call.operation == "scan"
            and type(prefix := call.arguments[0] if call.arguments else "") is str
        )
        self._sessions: defaultdict[str, _Session] = defaultdict(lambda: _Session(prefixes))
        self._began: dict[int, _Snapshot] = {}
        """State of the session at the invocation of each call, by the index of the call."""
        self._index_of_write = {
            call.arguments[0]: index
            for index, call in enumerate(run.calls)
            if self._writes.is_once(call)
        }

    def replay(self) -> None:
        for _, kind, index in sorted(self._events(), key=itemgetter(0, 1)):
            call = self._run.calls[index]
            if kind == 0:
                self._began[index] = self._sessions[call.client].snapshot(self._counters_of(call))
            elif kind == 1:
                self._on_response(index, call)
            else:
                self._on_stable_write(call)

    def _events(self) -> Iterator[tuple[int, int, int]]:
        """Yield times, with 0 for an invocation, 1 for a response and 2 for a final response."""
        for index, call in enumerate(self._run.calls):
            yield call.invoked_us, 0, index
            if call.status is CallStatus.OK and call.responded_us is not None:
                yield call.responded_us, 1, index
            if call.final is not None and call.final.status is CallStatus.OK:
                yield call.final.responded_us, 2, index

    def _counters_of(self, call: ObservedCall) -> list[str]:
        """Return the counters that the response to the call may show."""
        first = call.arguments[0] if call.arguments else ""
        if type(first) is not str:
            return []
        if call.operation == "scan":
            return [key for key in self._writes.counters if key.startswith(first)]
        return [first] if first in self._writes.counters else []

    def _on_response(self, index: int, call: ObservedCall) -> None:
        session, began, view = self._sessions[call.client], self._began[index], view_of(call)
        if view is not None:
            self._check_view(call, view, session, began)
            if call.strong:
                self._check_origins(call, view)
                self._add_view(session, view, call)
        if self._writes.is_once(call):
            session.own.add(call.arguments[0])
        if call.operation == "increment" and (key := written_key(call)) is not None:
            session.own_sums[key] += amount_of(call)
        if call.strong:
            self._on_stable_write(call)

    def _on_stable_write(self, call: ObservedCall) -> None:
        session = self._sessions[call.client]
        if self._writes.is_once(call):
            session.stable.add(call.arguments[0])
        if call.operation == "increment" and (key := written_key(call)) is not None:
            session.own_stable_sums[key] += amount_of(call)

    def _add_view(self, session: _Session, view: View, call: ObservedCall) -> None:
        """Add the contents of a stable response to the session."""
        for key, value in view.values.items():
            if key in self._writes.once and value is not None:
                session.stable.add(key)
            elif key in self._writes.counters:
                session.seen_sums[key] = max(session.seen_sums[key], counted(view, key, call))

    # --- guarantees -----------------------------------------------------------------------------

    def _check_view(
        self, call: ObservedCall, view: View, session: _Session, began: _Snapshot
    ) -> None:
        key = session.own.absent_from(view, began.own)
        if key is not None:
            cause = f"{call.client} wrote {key}, and its later {call.operation} lacks it"
            raise SessionViolation("read your writes", cause, self._writes.once[key], call)
        key = session.stable.absent_from(view, began.stable) if call.strong else None
        if key is not None:
            cause = f"{call.client} read {key}, and its later strong {call.operation} lacks it"
            raise SessionViolation("monotonic reads", cause, self._writes.once[key], call)
        increment = amount_of(call) if call.operation == "increment" else 0
        for counter, own in began.own_sums.items():
            if view.covers(counter):
                value = counted(view, counter, call) - increment
                seen = began.stable_sums[counter] if call.strong else 0
                self._check_counter(call, counter, value, own, seen)

    def _check_counter(
        self, call: ObservedCall, counter: str, value: int, own: int, seen: int
    ) -> None:
        if value < own:
            cause = f"{call.client} had added {own} to {counter}, and then read {value}"
            raise SessionViolation("read your writes", cause, call)
        if value < seen:
            cause = f"{call.client} read {seen} of {counter}, and later {value}"
            raise SessionViolation("monotonic reads", cause, call)

    def _check_origins(self, call: ObservedCall, view: View) -> None:
        """Check that the view contains all that precedes a write that it contains."""
        if view.prefix is None:
            return
        latest: dict[tuple[str, bool], tuple[int, ObservedCall]] = {}
        for key, value in view.values.items():
            write = self._writes.once.get(key)
            if write is None or value is None:
                continue
            began = self._began.get(self._index_of_write[key])
            if began is None:
                raise SessionViolation("causality", f"{key} was read before its write", write, call)
            for is_own, length in ((False, began.stable), (True, began.own if write.strong else 0)):
                if length > latest.get((write.client, is_own), (0,))[0]:
                    latest[write.client, is_own] = length, write
        for (client, is_own), (length, write) in latest.items():
            session = self._sessions[client]
            known = session.own if is_own else session.stable
            absent = known.absent_from(view, length)
            if absent is not None:
                earlier = self._writes.once[absent]
                is_own_write = earlier.client == client
                guarantee = "monotonic writes" if is_own_write else "writes follow reads"
                cause = f"a stable scan contains {write.arguments[0]} without {absent}"
                raise SessionViolation(guarantee, cause, earlier, write, call)
