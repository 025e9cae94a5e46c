"""The records of a disk, summed up."""

from creekdb.protocol.checkpoint.compaction import RecoveredState, replay_records
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


def image(promised: Ballot) -> CheckpointRecord:
    return CheckpointRecord(CHECKPOINT, promised, (value(3),), ((4, (Dot(0, 4),)),), (request(5),))


def test_an_empty_disk_tells_nothing() -> None:
    assert replay_records(()) == RecoveredState(None, NO_BALLOT, [], {}, [])


def test_all_records_are_found_in_the_order_in_which_they_were_written() -> None:
    found = replay_records(
        [
            Received(request(2)),
            Promised(HIGH),
            Accepted(value(0)),
            Received(request(1)),
            Accepted(value(0, HIGH)),
            Decided(0, (Dot(0, 1),)),
        ]
    )

    assert found.requests == [request(2), request(1)]
    assert found.accepted == [value(0), value(0, HIGH)]
    assert found.decided == {0: (Dot(0, 1),)}
    assert (found.checkpoint, found.promised) == (None, HIGH)


def test_of_several_promises_the_greatest_counts() -> None:
    assert replay_records([Promised(HIGH), Promised(LOW)]).promised == HIGH


def test_an_image_stands_for_all_before_it_but_for_what_was_promised() -> None:
    before: list[Record] = [
        Received(request(1)),
        Promised(HIGH),
        Accepted(value(0)),
        Decided(0, (Dot(0, 1),)),
    ]
    found = replay_records([*before, image(LOW), Received(request(6)), Decided(5, ())])

    assert found.checkpoint == CHECKPOINT
    assert found.promised == HIGH
    assert found.accepted == [value(3)]
    assert found.decided == {4: (Dot(0, 4),), 5: ()}
    assert found.requests == [request(5), request(6)]
    assert replay_records([Promised(LOW), image(HIGH)]).promised == HIGH
