"""Who can carry out what."""

import pytest

import creekdb
from creekdb.server.calls.capabilities import Capabilities
from creekdb.wire.messages import HELLO_FRAME_BYTES_MAX, WIRE_VERSION, PeerHello, encode_frame

rooms = creekdb.DataType("rooms")


@rooms.operation
def book(tx: creekdb.Transaction, room: str, who: str = "") -> None:
    tx.put(room, who)


@rooms.operation
def leave(tx: creekdb.Transaction, *given: str) -> None:
    for room in given:
        tx.delete(room)


def others() -> list[int]:
    return [1, 2]


def test_all_that_there_is_is_told() -> None:
    assert Capabilities(rooms).advertisement() == (
        ("book", 1, 2),
        ("leave", 0, None),
        ("noop", 0, 0),
    )


def test_who_has_the_same_or_says_nothing_can_do_all() -> None:
    ours = Capabilities(rooms)
    ours.record_peer(1, ours.advertisement())
    ours.record_peer(2, ())
    assert ours.find_incapable("book", 1, others) is None


@pytest.mark.parametrize(
    ("theirs", "name", "count"),
    [
        ((("noop", 0, 0),), "book", 1),
        ((("book", 1, 1),), "book", 2),
        ((("book", 2, None),), "book", 1),
        ((("book", 1, 2), ("leave", 0, 9)), "leave", 10),
        ((("book", 1, 2), ("leave", 1, None)), "leave", 0),
    ],
)
def test_who_lacks_it_or_takes_other_arguments_is_named(
    theirs: tuple[tuple[str, int, int | None], ...], name: str, count: int
) -> None:
    ours = Capabilities(rooms)
    ours.record_peer(2, theirs)
    assert ours.find_incapable(name, count, others) == 2
    assert ours.find_incapable(name, count, lambda: [1]) is None  # who is away, is not asked
    assert ours.find_incapable("noop", 0, lambda: [1]) is None
    ours.record_peer(2, ours.advertisement())  # it was started again
    assert ours.find_incapable(name, count, others) is None


def test_calls_that_an_older_module_takes_as_well_go_through() -> None:
    ours = Capabilities(rooms)
    ours.record_peer(1, (("book", 1, 1), ("leave", 0, 1), ("noop", 0, 0)))
    assert ours.find_incapable("book", 1, others) is None
    assert ours.find_incapable("leave", 1, others) is None
    assert ours.find_incapable("leave", 2, others) == 1


def test_more_operations_than_fit_into_a_hello_are_not_told() -> None:
    def does_nothing(tx: creekdb.Transaction) -> None: ...

    few, many = creekdb.DataType("few"), creekdb.DataType("many")
    for number in range(2000):
        for datatype in (few, many) if number < 1000 else (many,):
            datatype.operation(name=f"operation {number:06}")(does_nothing)
    told = Capabilities(few).advertisement()
    assert len(told) == 1001
    hello = PeerHello(WIRE_VERSION, "creek", 0, (0, 1), "few", operations=told)
    assert len(encode_frame(hello)) < HELLO_FRAME_BYTES_MAX
    assert Capabilities(many).advertisement() == ()
