"""Histories that are broken on purpose, each in one place: something for checkers to find."""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from creekdb.history import (
    Committed,
    Dot,
    FinalState,
    History,
    LoggedEvent,
    OperationRecord,
    ReplicaLog,
    ResponseKind,
    ResponseRecord,
)

Breaking = Callable[[History, Random], History]
Rename = Callable[[int, Dot], Dot | None]
"""Another identifier at this place, or None for nothing."""


def swapped_everywhere(history: History, random: Random) -> History:
    return _renamed(history, _swap(history, random), lambda replica: True)


def swapped_somewhere(history: History, random: Random) -> History:
    chosen = random.choice(history.members)
    return _renamed(history, _swap(history, random), lambda replica: replica == chosen)


def named_twice(history: History, random: Random) -> History:
    order = _order(history)
    if len(order) < 2:
        return history
    kept, lost = random.sample(range(len(order)), 2)
    return _renamed(
        history, lambda index, id: order[kept] if index == lost else id, lambda replica: True
    )


def cut_short(history: History, random: Random) -> History:
    """The end of the order is gone."""
    length = random.randint(0, max(0, len(_order(history)) - 1))
    return _renamed(history, lambda index, id: id if index < length else None, lambda replica: True)


def asked_at_another_time(history: History, random: Random) -> History:
    return _with_record(
        history, random, lambda each: replace(each, invoked_us=_any_time(history, random))
    )


def answered_at_another_time(history: History, random: Random) -> History:
    def moved(record: OperationRecord) -> OperationRecord:
        last = random.choice(
            (ResponseKind.STABLE, ResponseKind.STABLE, ResponseKind.FINAL, ResponseKind.TENTATIVE)
        )
        at_us = _any_time(history, random)
        return replace(
            record,
            answers=tuple(
                ResponseRecord(at_us, each.kind, each.outcome, each.changed)
                if each.kind is last
                else each
                for each in record.answers
            ),
        )

    return _with_record(history, random, moved)


def in_another_session(history: History, random: Random) -> History:
    session = random.choice(history.operations).session if history.operations else 0
    return _with_record(history, random, lambda each: replace(each, session=session))


def forgotten(history: History, random: Random) -> History:
    """A client that nobody remembers."""
    if not history.operations:
        return history
    at = random.randrange(len(history.operations))
    kept = history.operations[:at] + history.operations[at + 1 :]
    return replace(history, operations=kept)


BREAKINGS: dict[str, Breaking] = {
    breaking.__name__: breaking
    for breaking in (
        swapped_everywhere,
        swapped_somewhere,
        named_twice,
        cut_short,
        asked_at_another_time,
        answered_at_another_time,
        in_another_session,
        forgotten,
    )
}


def _order(history: History) -> list[Dot]:
    places = {
        logged.event.index: logged.event.id
        for log in history.logs
        for logged in log.visible_events
        if isinstance(logged.event, Committed)
    }
    return [places[index] for index in sorted(places)]


def _swap(history: History, random: Random) -> Rename:
    order = _order(history)
    if len(order) < 2:
        return lambda index, id: id
    one, other = random.sample(order, 2)
    swapped = {one: other, other: one}
    return lambda index, id: swapped.get(id, id)


def _renamed(history: History, rename: Rename, at: Callable[[int], bool]) -> History:
    return replace(
        history,
        logs=tuple(_renamed_log(log, rename) if at(log.replica) else log for log in history.logs),
        final_states=tuple(
            _renamed_final(final, rename) if at(final.replica) else final
            for final in history.final_states
        ),
    )


def _renamed_log(log: ReplicaLog, rename: Rename) -> ReplicaLog:
    def renamed(events: tuple[LoggedEvent, ...]) -> list[LoggedEvent]:
        found = []
        for logged in events:
            event = logged.event
            if isinstance(event, Committed):
                id = rename(event.index, event.id)
                if id is None:
                    continue
                logged = LoggedEvent(logged.at_us, Committed(id, event.index))
            found.append(logged)
        return found

    known = renamed(log.visible_events)
    return replace(log, events=(*known, *renamed(log.lost_events)), visible_count=len(known))


def _renamed_final(final: FinalState, rename: Rename) -> FinalState:
    renamed = (rename(index, id) for index, id in enumerate(final.committed, final.first))
    return replace(final, committed=tuple(id for id in renamed if id is not None))


def _with_record(
    history: History, random: Random, change: Callable[[OperationRecord], OperationRecord]
) -> History:
    if not history.operations:
        return history
    at = random.randrange(len(history.operations))
    changed = change(history.operations[at])
    operations = (*history.operations[:at], changed, *history.operations[at + 1 :])
    return replace(history, operations=operations)


def _any_time(history: History, random: Random) -> int:
    return random.randint(0, max(each.invoked_us for each in history.operations))
