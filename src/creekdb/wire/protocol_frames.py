"""Messages of the protocol as frames, none of which is too long to be read.

How many requests a message has is bounded by the protocol, which does not know how large they are.
Those that would take too much together leave in several messages of the same kind: to the protocol,
that is as good.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from creekdb.protocol.messages import Cast, Pulled
from creekdb.protocol.request import Request
from creekdb.wire.messages import FromPeer, frame_of

MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""Of requests in one message. One that has more by itself has a message of its own."""

_encode: Final = msgspec.msgpack.Encoder().encode


def frames_of_message(message: FromPeer) -> list[bytes]:
    frame = frame_of(message)
    if len(frame) <= MESSAGE_BYTES or not isinstance(message, Cast | Pulled):
        return [frame]
    kind = type(message)
    return [frame_of(kind(requests)) for requests in _portions(message.requests)]


def _portions(requests: Sequence[Request]) -> Iterator[tuple[Request, ...]]:
    portion: list[Request] = []
    size = 0
    for request in requests:
        more = len(_encode(request))
        if portion and size + more > MESSAGE_BYTES:
            yield tuple(portion)
            portion, size = [], 0
        portion.append(request)
        size += more
    yield tuple(portion)
