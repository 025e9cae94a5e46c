"""Gaps of a feed are filled from peers: bounded, resumable, and never over what is expired."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.changes.gap_filling import (
    ABSENCE_TICKS,
    RESPONSE_TICKS_MAX,
    GapFiller,
    GapPorts,
)
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.retention import Retention
from creekdb.wire.changes import decode_changes
from creekdb.wire.messages import FeedFrames, FeedFramesRequest, encode_frame
from tests.unit.server.changes.reported import ManualTurns, change_at

HOUR = Retention(3600.0)


def run_inline(work: Callable[[], None], on_done: Callable[[], None]) -> None:
    with suppress(OSError):  # as a thread does
        work()
    on_done()


class Peers:
    """Replicas whose messages the test delivers."""

    def __init__(
        self, directory: Path, count: int = 3, part_bytes: int = 10_000, piece_bytes: int = 10_000
    ) -> None:
        self.directory = directory
        self.part_bytes = part_bytes
        self.piece_bytes = piece_bytes
        self.messages: deque[tuple[int, int, FeedFramesRequest | FeedFrames]] = deque()
        self.sizes: list[int] = []
        """Sizes of the delivered messages, in bytes."""
        self.connected = set(range(count))
        self.members = set(range(count))
        self.lines: list[str] = []
        self.feeds: list[ChangeFeed] = []
        self.fillers: list[GapFiller] = []
        self.turns: list[ManualTurns] = []
        for number in range(count):
            self.feeds.append(None)  # type: ignore[arg-type]
            self.fillers.append(None)  # type: ignore[arg-type]
            self.turns.append(ManualTurns())
            self.start(number)

    def start(self, number: int, retention: Retention = HOUR) -> None:
        log = ChangeLog(self.directory / str(number), retention)
        log.open()
        feed = self.feeds[number] = ChangeFeed(log, self.turns[number].ports())
        ports = GapPorts(
            lambda to, message: self.messages.append((number, to, message)),
            lambda: sorted(self.connected - {number}),
            lambda: sorted(self.members - {number}),
            run_inline,
            self.lines.append,
        )
        self.fillers[number] = GapFiller(feed, ports, self.part_bytes, self.piece_bytes)

    def append(self, numbers: tuple[int, ...], first: int, end: int, group: int = 1) -> None:
        for number in numbers:
            for begin in range(first, end, group):
                changes = [change_at(index) for index in range(begin, min(begin + group, end))]
                self.feeds[number].record(changes, 0)
                self.feeds[number].release(0)
                self.turns[number].run()

    def deliver(self) -> int:
        count = 0
        while self.messages:
            sender, to, message = self.messages.popleft()
            self.sizes.append(len(encode_frame(message)))
            if to in self.connected:
                self.fillers[to].receive(message, sender)
                count += 1
        return count

    def run(self, number: int, ticks: int = 50) -> None:
        for _ in range(ticks):
            self.fillers[number].tick()
            self.deliver()

    def indices(self, number: int, start: int = 1) -> list[int]:
        log, indices = self.feeds[number].log, []
        while (segment := log.find(start)) is not None:
            for frame in segment.read(start, 1_000):
                indices += [each.index for each in decode_changes(frame.body)]
                start = frame.end
        return indices


def test_a_gap_is_filled_from_a_peer(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    peers.append((0, 1), 1, 41, group=7)  # other frames than those beside the gap
    peers.append((2,), 1, 11)
    peers.feeds[2].log.skip_to(31)
    peers.append((2,), 31, 41)
    assert peers.feeds[2].log.gaps() == [(11, 31)]
    peers.run(2)

    assert peers.indices(2) == list(range(1, 41))
    assert peers.feeds[2].log.first_index == 1
    assert peers.feeds[2].filled_count == 20
    peers.run(2)
    assert not peers.messages


def test_a_replica_that_lost_its_disk_gets_everything_back(tmp_path: Path) -> None:
    peers = Peers(tmp_path, part_bytes=300)
    peers.append((0, 1), 1, 41)
    peers.feeds[2].log.skip_to(41)  # its snapshot
    peers.append((0, 1, 2), 41, 51)
    peers.run(2)

    assert peers.indices(2) == list(range(1, 51))


def test_a_change_that_exceeds_a_message_is_copied_in_pieces(tmp_path: Path) -> None:
    peers = Peers(tmp_path, piece_bytes=1_000)
    value = "x" * 4_500
    for number in (0, 1):
        changes = [change_at(1), change_at(2, value * (number + 1)), change_at(3)]
        peers.feeds[number].record(changes, 0)
        peers.feeds[number].release(0)
        peers.turns[number].run()
    peers.feeds[2].log.skip_to(4)
    peers.run(2)

    assert peers.indices(2) == [1, 2, 3]
    assert 1_000 < max(peers.sizes) < 1_200


def test_a_part_of_a_change_from_a_lost_peer_is_not_joined(tmp_path: Path) -> None:
    peers = Peers(tmp_path, piece_bytes=1_000)
    for number in (0, 1):
        peers.feeds[number].record((change_at(1, str(number) * 4_500),), 0)
        peers.feeds[number].release(0)
        peers.turns[number].run()
    peers.feeds[2].log.skip_to(2)
    peers.run(2, 2)
    (lost,) = {peers.fillers[2]._last_peer}
    peers.connected.remove(lost)
    peers.run(2)

    segment = peers.feeds[2].log.find(1)
    assert segment is not None
    (change,) = decode_changes(segment.read(1, 1)[0].body)
    assert change.arguments == ("a", str(1 - lost) * 4_500)


def test_a_gap_is_fillable_until_all_members_lack_its_changes(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    for number in range(3):
        peers.feeds[number].log.skip_to(11)
    peers.append((0, 1), 11, 31)
    peers.feeds[2].log.skip_to(31)
    filler = peers.fillers[2]
    assert filler.find_fillable_gap() == (1, 31)
    peers.connected.remove(1)
    peers.run(2, 10)
    assert peers.feeds[2].log.gaps() == [(1, 11)]
    assert filler.find_fillable_gap() == (1, 11)  # replica 1 may have them
    assert filler.find_fillable_gap(10) == (1, 11)
    assert filler.find_fillable_gap(11) is None
    peers.connected.add(1)
    peers.run(2, ABSENCE_TICKS)
    assert filler.find_fillable_gap() is None
    for _ in range(ABSENCE_TICKS):
        filler.tick()  # asks again, without a response yet
    assert filler.find_fillable_gap() is None


def test_a_gap_without_another_member_is_not_fillable(tmp_path: Path) -> None:
    peers = Peers(tmp_path, count=1)
    peers.feeds[0].log.skip_to(11)
    assert peers.fillers[0].find_fillable_gap() is None


def test_appending_continues_while_a_gap_is_filled(tmp_path: Path) -> None:
    peers = Peers(tmp_path, part_bytes=300)
    peers.append((0, 1), 1, 41)
    peers.feeds[2].log.skip_to(41)
    for index in range(41, 71):
        peers.run(2, 1)
        peers.append((0, 1, 2), index, index + 1)
    peers.run(2)

    assert peers.indices(2) == list(range(1, 71))


def test_filling_resumes_after_a_restart(tmp_path: Path) -> None:
    peers = Peers(tmp_path, part_bytes=300)
    peers.append((0, 1), 1, 41)
    peers.feeds[2].log.skip_to(41)
    peers.append((0, 1, 2), 41, 43)
    peers.run(2, 2)
    filled = peers.feeds[2].filled_count
    assert 0 < filled < 40
    peers.start(2)  # without close: the file of the copied changes has no end
    assert peers.feeds[2].log.gaps() == [(1 + filled, 41)]
    peers.run(2)

    assert peers.indices(2) == list(range(1, 43))
    assert peers.feeds[2].filled_count == 40 - filled


def test_one_part_is_requested_at_a_time(tmp_path: Path) -> None:
    peers = Peers(tmp_path, part_bytes=300)
    peers.append((0, 1), 1, 41)
    peers.feeds[2].log.skip_to(41)
    for _ in range(RESPONSE_TICKS_MAX - 1):
        peers.fillers[2].tick()
    assert len(peers.messages) == 1
    peers.fillers[2].tick()
    peers.fillers[2].tick()
    assert len(peers.messages) == 2  # the first response is given up
    late, _ = peers.messages.popleft(), peers.messages.popleft()
    peers.messages.append(late)
    peers.deliver()  # and ignored when it arrives
    assert peers.feeds[2].filled_count == 0
    peers.run(2, 500)
    assert peers.indices(2) == list(range(1, 41))


def test_another_peer_is_asked_for_what_one_lacks(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    peers.append((0,), 1, 11)
    for number in (0, 1, 2):
        if number:
            peers.feeds[number].log.skip_to(11)
    peers.append((0, 1, 2), 11, 21)
    peers.run(2)

    assert peers.indices(2) == list(range(1, 21))


def test_what_all_peers_lack_stays_a_gap_and_is_tried_again_later(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    peers.members.add(3)  # it is not connected, and may have the changes
    for number in range(3):
        peers.feeds[number].log.skip_to(11)
    peers.append((0, 1), 11, 31)
    peers.feeds[2].log.skip_to(31)
    peers.run(2, 10)
    assert peers.indices(2, 11) == list(range(11, 31))
    assert peers.feeds[2].log.gaps() == [(1, 11)]
    for _ in range(ABSENCE_TICKS // 2):
        peers.fillers[2].tick()
    assert not peers.messages
    for _ in range(ABSENCE_TICKS):
        peers.fillers[2].tick()
    assert peers.messages


def test_what_all_members_lack_is_lost_and_not_tried_again(tmp_path: Path) -> None:
    """A cluster that has not kept its first changes serves the earliest one that it has, also
    after a restart during which a member is away."""
    peers = Peers(tmp_path)
    for number in range(3):
        peers.feeds[number].log.skip_to(11)
    peers.append((0, 1), 11, 31)
    peers.append((2,), 11, 21)
    peers.feeds[2].log.skip_to(31)
    peers.run(2)
    assert peers.indices(2, 11) == list(range(11, 31))
    assert peers.feeds[2].log.gaps() == []
    peers.run(2, 2 * ABSENCE_TICKS)
    assert not peers.messages
    peers.connected.remove(1)
    peers.start(2)
    assert peers.fillers[2].find_fillable_gap() is None


def test_what_a_peer_has_not_reached_yet_is_not_lost(tmp_path: Path) -> None:
    peers = Peers(tmp_path, count=2)
    peers.feeds[1].log.skip_to(6)
    peers.run(1, 10)
    assert peers.fillers[1].find_fillable_gap() == (1, 6)
    peers.append((0,), 1, 6)
    peers.run(1, 2 * ABSENCE_TICKS)
    assert peers.indices(1) == [1, 2, 3, 4, 5]


def test_what_a_peer_cannot_read_is_not_lost(tmp_path: Path) -> None:
    peers = Peers(tmp_path, count=2)
    peers.append((0,), 1, 11)
    peers.feeds[1].log.skip_to(11)
    peers.append((0, 1), 11, 12)
    (path,) = (tmp_path / "0").glob("*.changes")
    path.rename(tmp_path / "hidden")
    peers.run(1, 10)
    assert peers.feeds[1].log.gaps() == [(1, 11)]
    (tmp_path / "hidden").rename(path)
    peers.run(1, 2 * ABSENCE_TICKS)
    assert peers.indices(1) == list(range(1, 12))


def test_what_is_damaged_is_copied_from_another_peer(tmp_path: Path) -> None:
    """The damage is found when a peer requests the changes."""
    peers = Peers(tmp_path)
    peers.append((0, 1), 1, 11)
    peers.feeds[2].log.skip_to(11)
    for number in (0, 1):
        peers.feeds[number].close(0)
    (path,) = (tmp_path / "0").glob("*.changes")
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    for number in (0, 1):
        peers.start(number)
    peers.append((0, 1, 2), 11, 13)
    peers.run(2, 2 * ABSENCE_TICKS)
    assert peers.feeds[0].log.gaps() == [(1, 11)]
    assert "are damaged on the disk" in peers.turns[0].lines[0]
    peers.run(0)

    for number in range(3):
        assert peers.indices(number) == list(range(1, 13))


def test_no_peer_is_asked_while_none_is_connected(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    peers.append((0, 1), 1, 11)
    peers.feeds[2].log.skip_to(11)
    peers.connected = {2}
    peers.run(2)
    assert not peers.messages
    peers.connected = {1, 2}
    peers.run(2)
    assert peers.indices(2) == list(range(1, 11))


def test_what_the_retention_has_dropped_is_not_copied_again(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    peers.append((0, 1), 1, 21)
    log = peers.feeds[2].log
    log.skip_to(21)
    peers.append((2,), 21, 31)
    peers.run(2)
    assert log.earliest_index == 1
    now_us = log._now_us() + 3601 * 1_000_000
    log._now_us = lambda: now_us
    log.expire()
    assert log.earliest_index == 21
    peers.run(2)
    assert log.earliest_index == 21
    peers.start(2)
    peers.run(2)
    assert peers.feeds[2].log.earliest_index == 21
    assert peers.fillers[2].find_fillable_gap() is None


@pytest.mark.parametrize(
    "frames", [((1, 5, b"\xff"),), ((3, 5, b"\x90"),), ((1, 3, b"\x90"), (5, 9, b"\x90"))]
)
def test_malformed_frames_are_reported_and_not_written(tmp_path: Path, frames: Any) -> None:
    peers = Peers(tmp_path)
    peers.feeds[2].log.skip_to(21)
    peers.fillers[2].tick()
    ((_, peer, request),) = peers.messages
    peers.fillers[2].receive(FeedFrames(request.number, 9, 0, frames), peer)

    assert peers.feeds[2].log.gaps() == [(1, 21)]
    assert "sent changes that cannot be decoded" in peers.lines[0]


def test_a_part_after_the_gap_was_closed_is_ignored(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    peers.append((0, 1), 1, 21)
    peers.feeds[2].log.skip_to(21)
    peers.append((2,), 21, 22)
    peers.fillers[2].tick()
    log = peers.feeds[2].log
    log._dropped_index = 21
    peers.deliver()

    assert log.gaps() == []
    assert log.earliest_index == 21
