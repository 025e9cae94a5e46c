"""Replay of journal records."""

from creekdb.protocol.checkpoint.replay import RecoveredState, replay_records
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import (
    Accepted,
    AcceptedValue,
    Ballot,
    Checkpoint,
    CheckpointRecord,
    Decided,
    Promised,
    Received,
    Record,
)
from creekdb.protocol.request import Operation, Request

LOW, HIGH = Ballot(1, 0), Ballot(2, 1)
CHECKPOINT = Checkpoint(instance=3, length=4, ids=Dots(), timestamp=40, state=(), outcomes=())


def request(event: int) -> Request:
    return Request(10 * event, Dot(0, event), Operation("touch"), False)


def value(instance: int, ballot: Ballot = LOW) -> AcceptedValue:
    return AcceptedValue(instance, ballot, (Dot(0, instance),))


def checkpoint_record(promised: Ballot) -> CheckpointRecord:
    return CheckpointRecord(CHECKPOINT, promised, (value(3),), ((4, (Dot(0, 4),)),), (request(5),))


def test_empty_journal_recovers_an_empty_state() -> None:
    assert replay_records(()) == RecoveredState(None, NO_BALLOT, [], {}, [])


def test_records_are_recovered_in_the_order_of_writing() -> None:
    state = replay_records(
        [
            Received(request(2)),
            Promised(HIGH),
            Accepted(value(0)),
            Received(request(1)),
            Accepted(value(0, HIGH)),
            Decided(0, (Dot(0, 1),)),
        ]
    )

    assert state.requests == [request(2), request(1)]
    assert state.accepted == [value(0), value(0, HIGH)]
    assert state.decided == {0: (Dot(0, 1),)}
    assert (state.checkpoint, state.promised) == (None, HIGH)


def test_greatest_promise_is_recovered() -> None:
    assert replay_records([Promised(HIGH), Promised(LOW)]).promised == HIGH


def test_checkpoint_record_replaces_all_but_the_greatest_promise() -> None:
    before: list[Record] = [
        Received(request(1)),
        Promised(HIGH),
        Accepted(value(0)),
        Decided(0, (Dot(0, 1),)),
    ]
    state = replay_records([*before, checkpoint_record(LOW), Received(request(6)), Decided(5, ())])

    assert state.checkpoint == CHECKPOINT
    assert state.promised == HIGH
    assert state.accepted == [value(3)]
    assert state.decided == {4: (Dot(0, 4),), 5: ()}
    assert state.requests == [request(5), request(6)]
    assert replay_records([Promised(LOW), checkpoint_record(HIGH)]).promised == HIGH
