"""Gaps in the change feed of a replica, filled with the changes that its peers keep.

A replica that installed a snapshot, lost its disk or dropped changes lacks some that its peers
have. It requests them in the background, part by part, so that its feed can be read again.

Rules:

- One part is requested at a time, of bounded size, with a pause before the next one. So the peer
  and the link stay free for calls.
- The newest gap is filled first, from its start. Filled changes are a segment of their own, so a
  restart continues where filling ended.
- A peer that lacks a change reports the next one that it has. If all connected peers lack it, the
  replica continues there, and tries again after some time. Changes that all replicas have dropped
  under their retention stay a gap.
- The replica does not request changes that its own retention has dropped, nor the first changes of
  the feed once all members have reported that they lack them. These are lost.
- Copied changes keep `changed` and `commit_timestamp` of the peer.
- A frame that exceeds a message is copied in pieces, all from the same peer.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from creekdb.errors import MalformedMessage
from creekdb.server.changes.checkpoint_gate import RunInThread
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.changes.segments import Frame
from creekdb.wire.changes import decode_changes, encode_changes
from creekdb.wire.messages import PEER_FRAME_BYTES_MAX, FeedFrames, FeedFramesRequest
from creekdb.wire.pieces import NO_PIECES, PieceAssembler, cut_piece

FILL_INTERVAL_S: Final = 0.05
"""Interval between two checks for gaps, and least pause between two parts, in seconds."""
RESPONSE_TICKS_MAX: Final = 100
"""Number of checks after which a missing response is given up."""
ABSENCE_TICKS: Final = 200
"""Number of checks after which changes that peers lacked are requested again."""
PART_BYTES: Final = 256 * 1024
"""Approximate size of one part, in bytes."""
PIECE_BYTES: Final = 4 * 1024 * 1024
"""Size of the pieces of a larger frame, in bytes."""
_UNCUT_BYTES_MAX: Final = PEER_FRAME_BYTES_MAX - 64 * 1024
"""Upper bound for a frame that is sent to a peer that joins no pieces, in bytes."""


class GapPorts(NamedTuple):
    """Outputs of the filling of gaps."""

    send: Callable[[int, FeedFramesRequest | FeedFrames], None]
    """Sends a message to a peer."""
    peers: Callable[[], Sequence[int]]
    """Returns the connected peers that keep changes."""
    sources: Callable[[], Sequence[int]]
    """Returns the other members that may keep changes, connected or not."""
    in_thread: RunInThread
    log: Callable[[str], None]
    """Receives a line about a failure."""


class _Request(NamedTuple):
    number: int
    peer: int
    start: int
    stop: int


class GapFiller:
    """Both sides of the filling of gaps: requests to peers, and responses to theirs."""

    def __init__(
        self,
        feed: ChangeFeed,
        ports: GapPorts,
        part_bytes: int = PART_BYTES,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._feed = feed
        self._ports = ports
        self._part_bytes = part_bytes
        self._piece_bytes = piece_bytes
        self._pending: _Request | None = None
        self._pieces = PieceAssembler()
        self._unfinished: _Request | None = None
        """Last request, if its response was a piece and others follow."""
        self._number = 0
        self._ticks = 0
        self._requested_tick = 0
        self._absent: dict[int, dict[int, int]] = {}
        """By index, the peers that lack the change, with the next index that each has."""
        self._absent_before: dict[int, dict[int, int]] = {}
        """Content of `_absent` before the changes were requested again."""
        self._lagging: set[tuple[int, int]] = set()
        """Indices with the peers that have not reached them yet."""
        self._unreadable: set[int] = set()
        """Indices whose changes a peer keeps, but could not read or send."""
        self._forgotten_tick = 0
        self._last_peer = -1

    def receive(self, message: FeedFramesRequest | FeedFrames, sender: int) -> None:
        if isinstance(message, FeedFramesRequest):
            self._respond(message, sender)
        else:
            self._receive_frames(message, sender)

    # --- requests -----------------------------------------------------------------------------

    def tick(self) -> None:
        """Request the next part, unless a response is awaited."""
        self._ticks += 1
        if self._ticks - self._forgotten_tick >= ABSENCE_TICKS:
            self._absent_before, self._absent = self._absent, {}
            self._forgotten_tick = self._ticks
        if self._pending is not None and self._ticks - self._requested_tick < RESPONSE_TICKS_MAX:
            return
        self._pending = self._next_request()
        if self._pending is not None:
            self._requested_tick = self._ticks
            number, peer, start, stop = self._pending
            offset = self._pieces.next_offset
            request = FeedFramesRequest(number, start, stop, self._part_bytes, offset)
            self._ports.send(peer, request)

    def find_fillable_gap(self, index: int | None = None) -> tuple[int, int] | None:
        """Return a range that this replica lacks and another member may keep, or None.

        With `index`, return only a range that contains this index.
        """
        sources = self._ports.sources()
        for start, stop in self._feed.log.gaps() if sources else ():
            if index is not None and not start <= index < stop:
                continue
            at = start
            while at < stop and (index is None or at <= index):
                following = self._next_kept(at, sources)
                if following is None:
                    return at, stop
                at = following
        return None

    def _next_kept(self, index: int, sources: Sequence[int]) -> int | None:
        """Return the next index that a source has, or None if one may have the change itself."""
        absent = {**self._absent_before.get(index, {}), **self._absent.get(index, {})}
        if not absent.keys() >= set(sources) or any(
            (index, source) in self._lagging for source in sources
        ):
            return None
        return min(absent[source] for source in sources)

    def _record_lag(self, index: int, peer: int, is_lagging: bool) -> None:
        if is_lagging:
            self._lagging.add((index, peer))
        else:
            self._lagging.discard((index, peer))

    def _drop_lost_changes(self) -> None:
        """Give up the first changes once all members lack them, as if they had expired."""
        log, sources = self._feed.log, self._ports.sources()
        gaps = log.gaps()
        if not sources or not gaps or gaps[0][0] != log.dropped_index:
            return
        start, stop = gaps[0]
        following = self._next_kept(start, sources)
        if following is not None and start not in self._unreadable:
            log.drop_before(min(following, stop))

    def _next_request(self) -> _Request | None:
        gaps = self._feed.log.gaps()
        if not gaps:
            self._lagging.clear()
            return None
        peers = self._ports.peers()
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None and unfinished.peer in peers:
            self._number += 1
            return unfinished._replace(number=self._number)
        self._pieces.clear()
        for start, stop in reversed(gaps):
            while start < stop:
                absent = self._absent.get(start, {})
                candidates = [peer for peer in peers if peer not in absent]
                if candidates:
                    return self._request(candidates, start, stop)
                if not absent:
                    return None  # no peer is connected
                start = min(absent.values())
        return None

    def _request(self, candidates: Sequence[int], start: int, stop: int) -> _Request:
        """Return a request to the next peer in turn."""
        later = [peer for peer in candidates if peer > self._last_peer]
        peer = self._last_peer = min(later or candidates)
        self._number += 1
        return _Request(self._number, peer, start, stop)

    def _receive_frames(self, message: FeedFrames, sender: int) -> None:
        """Add the frames that a peer has sent."""
        request = self._pending
        if request is None or (request.number, request.peer) != (message.number, sender):
            return  # given up meanwhile
        self._pending = None
        if not message.frames:
            absent = self._absent.setdefault(request.start, {})
            absent[sender] = max(message.next, request.start + 1)
            self._record_lag(request.start, sender, message.next <= request.start)
            if message.written_us:
                self._unreadable.add(request.start)
            self._drop_lost_changes()
            return
        try:
            received = self._joined_frames(message)
            if received is None:
                self._unfinished = request
                return
            frames = list(_trimmed(received, request.start, request.stop))
        except MalformedMessage as error:
            self._ports.log(f"replica {sender} sent changes that cannot be decoded: {error}")
            self._absent.setdefault(request.start, {})[sender] = request.stop
            self._unreadable.add(request.start)
            return
        if not self._is_missing(request.start, frames[-1].end):
            return  # the retention has dropped this range meanwhile
        try:
            self._feed.log.fill(frames, message.written_us)
        except OSError as error:
            self._ports.log(f"cannot write copied changes: {error.strerror}; retrying later")
            return
        self._feed.filled_count += frames[-1].end - frames[0].first

    def _joined_frames(self, message: FeedFrames) -> Sequence[tuple[int, int, bytes]] | None:
        """Return the frames of a message, or None if pieces of the only frame are missing."""
        if message.piece is None:
            return message.frames
        body = self._pieces.add(message.piece)
        if body is None:
            return None
        first, end, _ = message.frames[0]
        return ((first, end, body),)

    def _is_missing(self, start: int, end: int) -> bool:
        return any(first <= start and end <= stop for first, stop in self._feed.log.gaps())

    # --- responses ----------------------------------------------------------------------------

    def _respond(self, request: FeedFramesRequest, sender: int) -> None:
        """Send frames to a peer, read in a thread."""
        log, number, start = self._feed.log, request.number, request.start
        segment = log.find(start)
        if segment is None:
            self._ports.send(sender, FeedFrames(number, log.next_kept(start)))
            return
        bytes_max = max(1, min(request.bytes_max, self._part_bytes))
        responses: list[FeedFrames] = []
        is_damaged = False

        def read() -> None:
            nonlocal is_damaged
            frames = segment.read(start, bytes_max)
            is_damaged = not frames
            response = FeedFrames(number, segment.end, segment.last_written_us, tuple(frames))
            responses.append(self._fitting(response, request.offset))

        def send() -> None:
            if is_damaged and self._feed.drop_damage(segment, start):
                self._ports.send(sender, FeedFrames(number, log.next_kept(start)))
                return
            # The changes of a segment that cannot be read count as missing.
            none = FeedFrames(number, segment.end, segment.last_written_us)
            response = responses[0] if responses else none
            self._ports.send(sender, response)

        self._ports.in_thread(read, send)

    def _fitting(self, response: FeedFrames, offset: int) -> FeedFrames:
        """Return the response, or one with a piece of its first frame if that is too large."""
        if not response.frames:
            return response
        first, end, body = response.frames[0]
        if offset == NO_PIECES:
            is_sendable = len(body) <= _UNCUT_BYTES_MAX
            none = FeedFrames(response.number, end, response.written_us)
            return response if is_sendable else none
        if len(body) <= self._piece_bytes:
            return response
        piece = cut_piece(body, offset, self._piece_bytes)
        return msgspec.structs.replace(response, frames=((first, end, b""),), piece=piece)


def _trimmed(frames: Sequence[tuple[int, int, bytes]], start: int, stop: int) -> Iterator[Frame]:
    """Yield the frames without the changes outside the range. Raise `MalformedMessage`."""
    expected = start
    for first, end, body in frames:
        if expected >= stop:
            return
        if not first <= expected < end:
            raise MalformedMessage(f"a frame from {first} to {end} does not continue {expected}")
        last = min(end, stop)
        changes = decode_changes(body)
        if first < expected or last < end:
            body = encode_changes([each for each in changes if expected <= each.index < last])
        yield Frame(expected, last, body)
        expected = last
