"""Codec: messages and records round-trip, and other bytes are malformed."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import MalformedMessage
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import (
    Ballot,
    Cast,
    Checkpoint,
    Message,
    Progress,
    Promised,
    Record,
    Vote,
    decode_message,
    decode_record,
    encode,
)
from creekdb.protocol.request import Operation, Outcome, Request
from tests.unit.protocol.strategies import MESSAGES, RECORDS, messages, records

pack = msgspec.msgpack.Encoder().encode

EXPECTED_TAGS = {
    "Cast": 10, "Summary": 11, "Pull": 12, "PullResponse": 13, "Heartbeat": 20, "Prepare": 30,
    "Promise": 31, "Accept": 32, "Vote": 33, "Reject": 34, "Progress": 35, "CatchUp": 36,
    "Decisions": 37, "Snapshot": 38, "FirstVote": 39, "RecoveryQuery": 40, "RecoveryResponse": 41,
    "CheckpointRecord": 1, "Received": 2, "Promised": 3, "Accepted": 4, "Decided": 5,
}  # fmt: skip


def test_strategies_cover_every_message_and_record() -> None:
    assert set(MESSAGES) == set(get_args(Message))
    assert set(RECORDS) == set(get_args(Record))


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_message_round_trips(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(MESSAGES[kind])
    decoded = decode_message(encode(message))
    assert type(decoded) is kind
    assert decoded == message
    assert encode(decoded) == encode(message)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_record_round_trips(kind: type[Record], data: st.DataObject) -> None:
    record = data.draw(RECORDS[kind])
    decoded = decode_record(encode(record))
    assert type(decoded) is kind
    assert decoded == record
    assert encode(decoded) == encode(record)


def test_tags_are_fixed_and_unique() -> None:
    types = (*get_args(Message), *get_args(Record))
    assert {kind.__name__: kind.__struct_config__.tag for kind in types} == EXPECTED_TAGS
    assert len(set(EXPECTED_TAGS.values())) == len(EXPECTED_TAGS)


def test_lists_inside_values_become_tuples() -> None:
    request = Request(1, Dot(0, 1), Operation("put", ([1, [2]], {"a": [3]})), False)
    assert request.operation.arguments == ((1, (2,)), {"a": (3,)})
    (decoded,) = decoded_requests(encode(Cast((request,))))
    assert decoded.operation.arguments == ((1, (2,)), {"a": (3,)})
    assert Outcome([1]).value == (1,)
    assert Checkpoint(0, 0, Dots(), 0, (("a", [1]),), ()).state == (("a", (1,)),)


def decoded_requests(data: bytes) -> tuple[Request, ...]:
    message = decode_message(data)
    assert isinstance(message, Cast)
    return message.requests


@given(messages, st.data())
def test_truncated_message_is_malformed(message: Message, data: st.DataObject) -> None:
    whole = encode(message)
    with pytest.raises(MalformedMessage):
        decode_message(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(records, st.data())
def test_truncated_record_is_malformed(record: Record, data: st.DataObject) -> None:
    whole = encode(record)
    with pytest.raises(MalformedMessage):
        decode_record(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(messages, st.binary(min_size=1, max_size=3))
def test_trailing_bytes_are_malformed(message: Message, suffix: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_message(encode(message) + suffix)


@given(st.binary(max_size=40))
def test_random_bytes_are_malformed_or_decode_consistently(noise: bytes) -> None:
    for decode in (decode_message, decode_record):
        try:
            item = decode(noise)
        except MalformedMessage:
            continue
        assert encode(decode(encode(item))) == encode(item)


@given(messages, st.integers(0, 10**6), st.integers(0, 255))
def test_corrupted_message_is_malformed_or_another_message(
    message: Message, position: int, byte: int
) -> None:
    data = bytearray(encode(message))
    data[position % len(data)] = byte
    try:
        decoded = decode_message(bytes(data))
    except MalformedMessage:
        return
    assert type(decoded) in MESSAGES


MALFORMED: dict[str, Any] = {
    "null": None,
    "no array": {"tag": 33},
    "an empty array": [],
    "an unknown tag": [99, [1, 0], 5],
    "a negative tag": [-1, [1, 0], 5],
    "a tag that is text": ["33", [1, 0], 5],
    "the tag of a record": [3, [1, 0]],
    "a field too few": [33, [1, 0]],
    "a ballot with three parts": [33, [1, 0, 0], 5],
    "a ballot with one part": [33, [1], 5],
    "a ballot that is a number": [33, 1, 5],
    "a float for an instance": [33, [1, 0], 5.0],
    "a bool for an instance": [33, [1, 0], True],
    "text for an instance": [33, [1, 0], "5"],
    "null for an instance": [33, [1, 0], None],
    "dots that are a list": [11, [[1, 2]]],
    "dots of a named replica": [11, [{"zero": [1, 2]}]],
    "dots with half an event": [11, [{0: [1.5, 2]}]],
    "a request without an identifier": [10, [[5, None, ["put", []], False, None]]],
    "an identifier with one part": [10, [[5, [0], ["put", []], False, None]]],
    "an operation without a name": [10, [[5, [0, 1], [7, []], False, None]]],
    "arguments that are no list": [10, [[5, [0, 1], ["put", 7], False, None]]],
    "strong that is a number": [10, [[5, [0, 1], ["put", []], 0, None]]],
    "a context that is a bool": [10, [[5, [0, 1], ["put", []], True, True]]],
    "a leader that is text": [20, [1, 0], "0", [0]],
    "a batch that is a number": [32, [1, 0], 0, 7],
    "batches that are identifiers": [37, 0, [[1, 2]]],
    "a key that is a bool": [38, [0, 0, [{}], 0, [[True, 1]], []]],
    "a key that is a float": [38, [0, 0, [{}], 0, [[0.5, 1]], []]],
    "a key in a key in a key": [38, [0, 0, [{}], 0, [[["a", ["b"]], 1]], []]],
    "a register without a value": [38, [0, 0, [{}], 0, [["a"]], []]],
    "an outcome that is text": [38, [0, 0, [{}], 0, [], [[[0, 1], "fine"]]]],
}


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED.keys())
def test_message_with_a_wrong_field_is_malformed(malformed: Any) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode_message(pack(malformed))
    assert str(caught.value)


@pytest.mark.parametrize(
    "malformed",
    [None, [], [99], [33, [1, 0], 5], [3, [1]], [2, [5, [0, 1], ["put", []], "no", None]]],
    ids=["null", "empty", "unknown tag", "a message", "half a ballot", "strong that is text"],
)
def test_record_with_a_wrong_field_is_malformed(malformed: Any) -> None:
    with pytest.raises(MalformedMessage):
        decode_record(pack(malformed))


@pytest.mark.parametrize(
    "data",
    [b"\x92\x0d\xdd", b"\x92\x0d\xdb", b"\x92\x0b\x91\xdf"],
    ids=["an array", "a text", "a map"],
)
def test_length_without_its_contents_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_message(data + b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    "text", [b"\xa1\xff", b"\xa3\xed\xa0\x80"], ids=["not UTF-8", "a lone surrogate"]
)
def test_text_with_invalid_utf8_is_malformed(text: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_message(cast_with_argument(text))


def cast_with_argument(argument: bytes) -> bytes:
    """Return the encoding of a `Cast` of one weak request with this encoded argument."""
    before = b"\x92\x0a\x91\x95" + pack(5) + pack([0, 1]) + b"\x92" + pack("put") + b"\x91"
    return before + argument + pack(False) + pack(None)


@pytest.mark.parametrize("depth", [500, 2_000, 200_000])
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a"], ids=["lists", "dicts"])
def test_deeply_nested_values_are_malformed(opening: bytes, depth: int) -> None:
    assert decoded_requests(cast_with_argument(opening * 50 + b"\x01"))
    with pytest.raises(MalformedMessage):
        decode_message(cast_with_argument(opening * depth + b"\x01"))


def test_ballot_is_formatted_as_round_at_replica() -> None:
    assert str(Ballot(3, 1)) == "3@1"


def test_ballots_are_ordered_by_round_then_replica() -> None:
    assert Ballot(1, 2) < Ballot(2, 0) < Ballot(2, 1)


def test_messages_and_records_are_immutable() -> None:
    for item, name in ((Vote(Ballot(1, 0), 1), "instance"), (Promised(Ballot(1, 0)), "ballot")):
        with pytest.raises(AttributeError):
            setattr(item, name, 2)


def test_64_bit_integers_round_trip() -> None:
    assert decode_message(encode(Progress(2**64 - 1))) == Progress(2**64 - 1)
