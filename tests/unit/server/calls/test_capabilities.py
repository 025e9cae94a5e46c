"""Capabilities: operations that replicas advertise, and peers that lack an operation."""

from collections.abc import Callable
from typing import Any

import pytest

import creekdb
from creekdb.server.calls.capabilities import Capabilities
from creekdb.wire.messages import HELLO_FRAME_BYTES_MAX, WIRE_VERSION, PeerHello, encode_frame

rooms = creekdb.DataType("rooms")


@rooms.operation
def book(tx: creekdb.Transaction, room: str, guest: str = "") -> None:
    tx.put(room, guest)


@rooms.operation
def leave(tx: creekdb.Transaction, *rooms: str) -> None:
    for room in rooms:
        tx.delete(room)


CONNECTED = [1, 2]


def test_advertisement_lists_all_operations_with_arity() -> None:
    assert Capabilities(rooms).advertisement() == (
        ("book", 1, 2),
        ("leave", 0, None),
        ("noop", 0, 0),
    )


def test_peers_with_equal_or_empty_advertisement_support_all_operations() -> None:
    ours = Capabilities(rooms)
    ours.record_peer(1, ours.advertisement())
    ours.record_peer(2, ())
    assert ours.find_incapable("book", 1, CONNECTED) is None


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
def test_connected_peer_without_operation_or_arity_is_found(
    theirs: tuple[tuple[str, int, int | None], ...], name: str, count: int
) -> None:
    ours = Capabilities(rooms)
    ours.record_peer(2, theirs)
    assert ours.find_incapable(name, count, CONNECTED) == 2
    assert ours.find_incapable(name, count, [1]) is None  # disconnected peers do not count
    assert ours.find_incapable("noop", 0, [1]) is None
    ours.record_peer(2, ours.advertisement())  # the peer was restarted
    assert ours.find_incapable(name, count, CONNECTED) is None


def test_calls_that_an_older_module_supports_are_admitted() -> None:
    ours = Capabilities(rooms)
    ours.record_peer(1, (("book", 1, 1), ("leave", 0, 1), ("noop", 0, 0)))
    assert ours.find_incapable("book", 1, CONNECTED) is None
    assert ours.find_incapable("leave", 1, CONNECTED) is None
    assert ours.find_incapable("leave", 2, CONNECTED) == 1


def test_advertisement_is_empty_if_the_operations_exceed_a_hello() -> None:
    def does_nothing(tx: creekdb.Transaction) -> None: ...

    few, many = creekdb.DataType("few"), creekdb.DataType("many")
    for number in range(2000):
        for datatype in (few, many) if number < 1000 else (many,):
            datatype.operation(name=f"operation {number:06}")(does_nothing)
    advertised = Capabilities(few).advertisement()
    assert len(advertised) == 1001
    hello = PeerHello(WIRE_VERSION, "creek", 0, (0, 1), "few", operations=advertised)
    assert len(encode_frame(hello)) < HELLO_FRAME_BYTES_MAX
    assert Capabilities(many).advertisement() == ()


def test_a_peer_with_another_sql_engine_has_other_code_for_every_operation() -> None:
    tables = creekdb.DataType("tables", sql=True)
    ours = Capabilities(tables)
    same = ours.advertisement()
    other = tuple((name.replace("sqlite 3.", "sqlite 2."), *arity) for name, *arity in same)
    ours.record_peer(1, same)
    ours.record_peer(2, other)  # type: ignore[arg-type]

    assert ours.differing_by_peer == {2: ("noop",)}
    assert ours.find_differing("noop", [1]) is None
    assert ours.find_differing("noop", CONNECTED) == 2
    assert ours.find_differing("add member", CONNECTED) is None
    assert ours.describe_engines(1) is None
    assert "sqlite 2." in str(ours.describe_engines(2))
    ours.record_peer(2, same)  # the peer was upgraded
    assert ours.find_differing("noop", CONNECTED) is None
    assert ours.differing_by_peer == {}


def other_version(code: Callable[..., Any]) -> Capabilities:
    datatype = creekdb.DataType("rooms")
    datatype.operation(name="book")(code)
    datatype.operation(leave)
    return Capabilities(datatype)


def book_twice(tx: creekdb.Transaction, room: str, guest: str = "") -> None:
    tx.put(room, f"{guest}!")


def record(ours: Capabilities, replica: int, theirs: Capabilities) -> None:
    ours.record_peer(replica, theirs.advertisement(), (), theirs.code_digests())


def test_a_peer_with_other_code_for_an_operation_is_found() -> None:
    ours = other_version(book)
    record(ours, 1, other_version(book))
    record(ours, 2, other_version(book_twice))
    assert ours.differing_by_peer == {2: ("book",)}
    record(ours, 2, other_version(book))  # the peer was restarted
    assert ours.differing_by_peer == {}


def test_unknown_code_and_missing_operations_do_not_differ() -> None:
    ours = other_version(book)
    ours.record_peer(1, ours.advertisement())  # a peer of an older release
    ours.record_peer(2, ours.advertisement(), (), (b"",) * 3)  # a peer without source files
    ours.record_peer(3, (("book", 1, 2),), (), ours.code_digests()[:1])
    assert ours.differing_by_peer == {}


def test_calls_of_an_operation_with_other_code_are_rejected_only_if_equality_is_required() -> None:
    reported = other_version(book)
    required = Capabilities(reported.datatype, require_equal_operations=True)
    for ours in (reported, required):
        record(ours, 2, other_version(book_twice))
    assert reported.find_differing("book", CONNECTED) is None
    assert required.find_differing("book", CONNECTED) == 2
    assert required.find_differing("leave", CONNECTED) is None
    assert required.find_differing("book", [1]) is None  # disconnected peers do not count


def test_digests_of_all_advertised_operations_fit_into_a_hello() -> None:
    datatype = creekdb.DataType("many")
    for number in range(1400):
        datatype.operation(name=f"op {number:04}")(book)
    ours = Capabilities(datatype)
    advertised, digests = ours.advertisement(), ours.code_digests()
    assert len(advertised) == len(digests) == 1401
    hello = PeerHello(
        WIRE_VERSION, "creek", 0, (0, 1), "many", operations=advertised, code_digests=digests
    )
    assert len(encode_frame(hello)) < HELLO_FRAME_BYTES_MAX
