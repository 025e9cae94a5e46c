"""Histories with one deliberate violation each, for checkers to find."""

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

Corruption = Callable[[History, Random], History]
RequestMap = Callable[[int, Dot], Dot | None]
"""Maps a commit position and its request to another request, or to None for none."""


def swap_at_all_replicas(history: History, random: Random) -> History:
    return _map_requests(history, _swap(history, random), lambda replica: True)


def swap_at_one_replica(history: History, random: Random) -> History:
    chosen = random.choice(history.members)
    return _map_requests(history, _swap(history, random), lambda replica: replica == chosen)


def duplicate_request(history: History, random: Random) -> History:
    order = _order(history)
    if len(order) < 2:
        return history
    source, target = random.sample(range(len(order)), 2)
    return _map_requests(
        history, lambda index, id: order[source] if index == target else id, lambda replica: True
    )


def truncate_order(history: History, random: Random) -> History:
    length = random.randint(0, max(0, len(_order(history)) - 1))
    return _map_requests(
        history, lambda index, id: id if index < length else None, lambda replica: True
    )


def move_invocation(history: History, random: Random) -> History:
    return _with_record(
        history, random, lambda each: replace(each, invoked_us=_any_time(history, random))
    )


def move_response(history: History, random: Random) -> History:
    def move(record: OperationRecord) -> OperationRecord:
        kind = random.choice(
            (ResponseKind.STABLE, ResponseKind.STABLE, ResponseKind.FINAL, ResponseKind.TENTATIVE)
        )
        at_us = _any_time(history, random)
        return replace(
            record,
            responses=tuple(
                ResponseRecord(at_us, each.kind, each.outcome, each.changed)
                if each.kind is kind
                else each
                for each in record.responses
            ),
        )

    return _with_record(history, random, move)


def change_session(history: History, random: Random) -> History:
    session = random.choice(history.operations).session if history.operations else 0
    return _with_record(history, random, lambda each: replace(each, session=session))


def drop_operation(history: History, random: Random) -> History:
    if not history.operations:
        return history
    at = random.randrange(len(history.operations))
    return replace(history, operations=history.operations[:at] + history.operations[at + 1 :])


CORRUPTIONS: dict[str, Corruption] = {
    corruption.__name__: corruption
    for corruption in (
        swap_at_all_replicas,
        swap_at_one_replica,
        duplicate_request,
        truncate_order,
        move_invocation,
        move_response,
        change_session,
        drop_operation,
    )
}


def _order(history: History) -> list[Dot]:
    requests = {
        logged.event.index: logged.event.id
        for log in history.logs
        for logged in log.visible_events
        if isinstance(logged.event, Committed)
    }
    return [requests[index] for index in sorted(requests)]


def _swap(history: History, random: Random) -> RequestMap:
    order = _order(history)
    if len(order) < 2:
        return lambda index, id: id
    one, other = random.sample(order, 2)
    swapped = {one: other, other: one}
    return lambda index, id: swapped.get(id, id)


def _map_requests(
    history: History, request_map: RequestMap, is_selected: Callable[[int], bool]
) -> History:
    return replace(
        history,
        logs=tuple(
            _map_log(log, request_map) if is_selected(log.replica) else log for log in history.logs
        ),
        final_states=tuple(
            _map_final_state(final, request_map) if is_selected(final.replica) else final
            for final in history.final_states
        ),
    )


def _map_log(log: ReplicaLog, request_map: RequestMap) -> ReplicaLog:
    def map_events(events: tuple[LoggedEvent, ...]) -> list[LoggedEvent]:
        mapped = []
        for logged in events:
            event = logged.event
            if isinstance(event, Committed):
                id = request_map(event.index, event.id)
                if id is None:
                    continue
                logged = LoggedEvent(logged.at_us, Committed(id, event.index))
            mapped.append(logged)
        return mapped

    visible = map_events(log.visible_events)
    return replace(log, events=(*visible, *map_events(log.lost_events)), visible_count=len(visible))


def _map_final_state(final: FinalState, request_map: RequestMap) -> FinalState:
    mapped = (request_map(index, id) for index, id in enumerate(final.committed, final.first))
    return replace(final, committed=tuple(id for id in mapped if id is not None))


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
