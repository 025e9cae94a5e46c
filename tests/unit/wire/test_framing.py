"""Frames: decoding of split, damaged and arbitrary bytes."""

import asyncio
import struct
from contextlib import suppress
from itertools import pairwise
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import FrameTooLong, MalformedMessage
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.wire import messages
from creekdb.wire.framing import FrameWriter, detect_foreign_protocol
from creekdb.wire.reject_reason import RejectReason

PAYLOAD_BYTES_MAX = 1000
DECODERS = (
    messages.decode_peer_hello,
    messages.decode_peer_message,
    messages.decode_client_message,
    messages.decode_server_message,
)

MESSAGES = (
    messages.PeerHello(1, "creek", 0, (0, 1, 2), "kv"),
    messages.ClientHello(1, "me", "secret", "kv"),
    messages.CallRequest(
        7, "put", ("a", {"b": (1, 2.5, None, b"x")}), True, 3, (Dot(0, 1), Dot(2, 9)), 50
    ),
    messages.CancelResponses(7),
    messages.StatusRequest(8),
    messages.Welcome(1, "creek", 2, "kv", (("get", True), ("put", False))),
    messages.CallIssued(7, Dot(2, 10)),
    messages.CallResponse(7, "final", ("a", 1), None, True),
    messages.Rejected(7, RejectReason.BUSY, "later", False),
    messages.StatusResponse(8, {"committed": 3, "refused": {RejectReason.BUSY: 1}}),
    messages.ConnectionRejected(RejectReason.TOKEN, "unknown token"),
)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    offsets = [0, *sorted(each % (len(data) + 1) for each in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(offsets)]


def decoded(data: bytes, cuts: list[int]) -> list[bytes]:
    decoder = messages.FrameDecoder(PAYLOAD_BYTES_MAX)
    return [payload for chunk in split(data, cuts) for payload in decoder.feed(chunk)]


@given(st.lists(st.binary(max_size=50), max_size=10), st.lists(st.integers(0, 1000), max_size=10))
def test_payloads_are_decoded_however_the_bytes_are_split(
    payloads: list[bytes], cuts: list[int]
) -> None:
    assert decoded(b"".join(map(messages.frame_payload, payloads)), cuts) == payloads


def assert_message_or_malformed(payload: bytes) -> None:
    for decode in DECODERS:
        with suppress(MalformedMessage):
            assert isinstance(decode(payload), msgspec.Struct)


@given(st.binary(max_size=200), st.lists(st.integers(0, 1000), max_size=5))
def test_arbitrary_bytes_raise_nothing_but_malformed(data: bytes, cuts: list[int]) -> None:
    with suppress(MalformedMessage):
        for payload in decoded(data, cuts):
            assert payload in data
            assert len(payload) <= PAYLOAD_BYTES_MAX
            assert_message_or_malformed(payload)


@given(st.binary(max_size=200))
def test_an_arbitrary_payload_is_a_message_or_malformed(payload: bytes) -> None:
    assert_message_or_malformed(payload)


@given(
    st.sampled_from(MESSAGES),
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_a_damaged_message_is_another_one_or_malformed(
    message: messages.PeerHello | messages.ClientMessage | messages.ServerMessage,
    damage: list[tuple[int, int]],
    cut: int,
) -> None:
    data = bytearray(messages.encode_frame(message)[4:])
    for offset, value in damage:
        data[offset % len(data)] = value
    assert_message_or_malformed(bytes(data[: len(data) - cut]))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_encoding_and_decoding_are_inverse(
    message: messages.PeerHello | messages.ClientMessage | messages.ServerMessage,
) -> None:
    decoded_messages = []
    for decode in DECODERS:
        with suppress(MalformedMessage):
            decoded_messages.append(decode(messages.encode_frame(message)[4:]))
    assert decoded_messages == [message]


@given(st.integers(PAYLOAD_BYTES_MAX + 1, 2**32 - 1))
def test_a_frame_that_is_too_long_is_rejected_by_its_length_alone(length: int) -> None:
    decoder = messages.FrameDecoder(PAYLOAD_BYTES_MAX)
    header = struct.pack(">I", length)
    assert list(decoder.feed(header[:3])) == []
    with pytest.raises(FrameTooLong, match=str(length)) as raised:
        list(decoder.feed(header[3:]))
    assert raised.value.first_bytes == header


def test_a_deeply_nested_value_is_malformed() -> None:
    nested = b"\x95\x0b\x01\xa3put" + b"\x91" * 100_000
    with pytest.raises(MalformedMessage):
        messages.decode_client_message(nested)


def test_a_tag_of_another_kind_of_message_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        messages.decode_client_message(
            messages.encode_frame(messages.CancelResponses(1))[4:].replace(b"\x0c", b"\x63")
        )


def test_a_response_frame_equals_the_encoded_object() -> None:
    for outcome in (Outcome(("a", 1)), Outcome(None, "ValueError: no")):
        response = messages.CallResponse(7, "stable", outcome.value, outcome.error, True)
        assert messages.encode_response_frame(7, "stable", outcome, True) == messages.encode_frame(
            response
        )


class TransportStub:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.unsent_bytes = 0
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


def connect(writer: FrameWriter) -> TransportStub:
    transport = TransportStub()
    writer.connect(cast(asyncio.Transport, transport))
    return transport


async def test_frames_of_one_turn_are_written_together() -> None:
    writer = FrameWriter()
    transport = connect(writer)
    writer.append(b"a")
    await asyncio.sleep(0)
    assert transport.written == []
    writer.write(b"b")
    writer.append(b"c")
    assert transport.written == []
    await asyncio.sleep(0)
    assert transport.written == [b"abc"]
    writer.write(b"d")
    writer.close()
    assert transport.written == [b"abc", b"d"]
    writer.write(b"e")
    await asyncio.sleep(0)
    assert transport.written == [b"abc", b"d"]


async def test_an_aborted_writer_discards_the_queued_frames() -> None:
    writer = FrameWriter()
    transport = connect(writer)
    writer.write(b"a")
    writer.abort()
    await asyncio.sleep(0)
    assert transport.written == []
    assert not writer.is_open


@pytest.mark.parametrize("abort_when_full", [False, True])
async def test_a_full_writer_may_abort_the_connection(abort_when_full: bool) -> None:
    writer = FrameWriter(10, abort_when_full)
    transport = connect(writer)
    transport.unsent_bytes = 10
    writer.write(b"a")
    writer.flush()
    assert (writer.is_open, writer.is_full) == (True, False)
    transport.unsent_bytes = 11
    writer.write(b"a")
    writer.flush()
    assert (writer.is_open, writer.is_full) == (not abort_when_full, True)
    assert writer.has_overflowed == abort_when_full


@pytest.mark.parametrize("length", [0, 1, 8])
def test_a_frame_may_have_the_maximum_size(length: int) -> None:
    payload = b"x" * length
    decoder = messages.FrameDecoder(8)

    assert list(decoder.feed(messages.frame_payload(payload))) == [payload]


@pytest.mark.parametrize(
    ("first_bytes", "reason"),
    [
        (b"\x16\x03\x01\x02", RejectReason.UNEXPECTED_TLS),
        (b"GET ", RejectReason.UNEXPECTED_HTTP),
        (b"PUT ", RejectReason.UNEXPECTED_HTTP),
        (b"\x00\x00\x00\x10", None),
    ],
)
def test_the_first_bytes_tell_other_protocols_apart(
    first_bytes: bytes, reason: RejectReason | None
) -> None:
    assert detect_foreign_protocol(first_bytes) is reason
