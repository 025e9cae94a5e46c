"""The stored form of events: as the events themselves, but with a tag and a time on each."""

from typing import TypeAlias, assert_never

import msgspec

from creekdb.history.records import (
    AcceptedValue,
    Ballot,
    Batch,
    CabDelivered,
    Cast,
    Committed,
    Dot,
    Dots,
    Event,
    Installed,
    LoggedEvent,
    Outcome,
    Promised,
    RbDelivered,
    Request,
    Speculated,
    Voted,
)


class _Cast(msgspec.Struct, frozen=True, array_like=True, tag=1):
    at_us: int
    request: Request


class _RbDelivered(msgspec.Struct, frozen=True, array_like=True, tag=2):
    at_us: int
    id: Dot


class _CabDelivered(msgspec.Struct, frozen=True, array_like=True, tag=3):
    at_us: int
    id: Dot
    instance: int


class _Committed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    at_us: int
    id: Dot
    index: int


class _Installed(msgspec.Struct, frozen=True, array_like=True, tag=5):
    at_us: int
    instance: int
    length: int
    ids: Dots


class _Promised(msgspec.Struct, frozen=True, array_like=True, tag=6):
    at_us: int
    ballot: Ballot
    first: int
    decided: int
    accepted: tuple[AcceptedValue, ...]


class _Voted(msgspec.Struct, frozen=True, array_like=True, tag=7):
    at_us: int
    ballot: Ballot
    instance: int
    batch: Batch


class _Speculated(msgspec.Struct, frozen=True, array_like=True, tag=8):
    at_us: int
    id: Dot
    outcome: Outcome


Stored: TypeAlias = (
    _Cast
    | _RbDelivered
    | _CabDelivered
    | _Committed
    | _Installed
    | _Promised
    | _Voted
    | _Speculated
)


def stored(at_us: int, event: Event) -> Stored:
    match event:
        case Cast():
            return _Cast(at_us, event.request)
        case RbDelivered():
            return _RbDelivered(at_us, event.id)
        case CabDelivered():
            return _CabDelivered(at_us, event.id, event.instance)
        case Committed():
            return _Committed(at_us, event.id, event.index)
        case Installed():
            return _Installed(at_us, event.instance, event.length, event.ids)
        case Promised():
            return _Promised(at_us, event.ballot, event.first, event.decided, event.accepted)
        case Voted():
            return _Voted(at_us, event.ballot, event.instance, event.batch)
        case Speculated():
            return _Speculated(at_us, event.id, event.outcome)
        case _:
            assert_never(event)


def logged(stored: Stored) -> LoggedEvent:
    match stored:
        case _Cast():
            return LoggedEvent(stored.at_us, Cast(stored.request))
        case _RbDelivered():
            return LoggedEvent(stored.at_us, RbDelivered(stored.id))
        case _CabDelivered():
            return LoggedEvent(stored.at_us, CabDelivered(stored.id, stored.instance))
        case _Committed():
            return LoggedEvent(stored.at_us, Committed(stored.id, stored.index))
        case _Installed():
            installed = Installed(stored.instance, stored.length, stored.ids)
            return LoggedEvent(stored.at_us, installed)
        case _Promised():
            promised = Promised(stored.ballot, stored.first, stored.decided, stored.accepted)
            return LoggedEvent(stored.at_us, promised)
        case _Voted():
            return LoggedEvent(stored.at_us, Voted(stored.ballot, stored.instance, stored.batch))
        case _Speculated():
            return LoggedEvent(stored.at_us, Speculated(stored.id, stored.outcome))
        case _:
            assert_never(stored)
