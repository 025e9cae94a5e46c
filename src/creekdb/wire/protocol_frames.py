"""Messages of the protocol as frames, none of which is too long to be read.

How many requests a message has is bounded by the protocol, which does not know how large they are.
Those that would take too much together leave in several messages of the same kind: to the protocol,
that is as good.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from creekdb.protocol.messages import Cast, PullResponse
from creekdb.protocol.request import Request
from creekdb.wire.messages import PeerMessage, encode_frame

MESSAGE_REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of requests in one message. One that has more by itself has a message of its own."""

_encode: Final = msgspec.msgpack.Encoder().encode


def message_frames(message: PeerMessage) -> list[bytes]:
    frame = encode_frame(message)
    if len(frame) <= MESSAGE_REQUEST_BYTES_MAX or not isinstance(message, Cast | PullResponse):
        return [frame]
    kind = type(message)
    return [encode_frame(kind(requests)) for requests in _split_requests(message.requests)]


def _split_requests(requests: Sequence[Request]) -> Iterator[tuple[Request, ...]]:
    portion: list[Request] = []
    size = 0
    for request in requests:
        more = len(_encode(request))
        if portion and size + more > MESSAGE_REQUEST_BYTES_MAX:
            yield tuple(portion)
            portion, size = [], 0
        portion.append(request)
        size += more
    yield tuple(portion)
