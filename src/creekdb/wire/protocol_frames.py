"""Frames of protocol messages, within the frame limit.

The protocol bounds the number of requests in a message, not their size. Requests that are too large
for one message are sent in several messages of the same type, which the protocol accepts equally.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from creekdb.protocol.messages import Cast, PullResponse
from creekdb.protocol.request import Request
from creekdb.wire.messages import PeerMessage, encode_frame

MESSAGE_REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
"""Upper bound for the encoded requests of one message. A larger request is sent alone."""

_encode: Final = msgspec.msgpack.Encoder().encode


def message_frames(
    message: PeerMessage, request_bytes_max: int = MESSAGE_REQUEST_BYTES_MAX
) -> list[bytes]:
    """Return one frame, or several if the requests of the message take too many bytes."""
    frame = encode_frame(message)
    if len(frame) <= request_bytes_max or not isinstance(message, Cast | PullResponse):
        return [frame]
    kind = type(message)
    batches = _split_requests(message.requests, request_bytes_max)
    return [encode_frame(kind(requests)) for requests in batches]


def _split_requests(
    requests: Sequence[Request], request_bytes_max: int
) -> Iterator[tuple[Request, ...]]:
    batch: list[Request] = []
    batch_bytes = 0
    for request in requests:
        request_bytes = len(_encode(request))
        if batch and batch_bytes + request_bytes > request_bytes_max:
            yield tuple(batch)
            batch, batch_bytes = [], 0
        batch.append(request)
        batch_bytes += request_bytes
    yield tuple(batch)
