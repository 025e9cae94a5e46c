"""Segments of change feeds that are damaged, and the changes that may be read from them."""

from functools import cache
from random import Random
from typing import Final, NamedTuple

from creekdb.errors import StorageFault, UsageError
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.retention import Retention
from creekdb.server.changes.segments import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, Frame
from creekdb.wire.changes import encode_changes
from tests.fuzzing import mutations, samples
from tests.fuzzing.targets import overwrite, scratch_directory

OWNER: Final = 7
RETENTION: Final = Retention(3600.0)
READ_BYTES_MAX: Final = 10**6


class FeedSample(NamedTuple):
    """Files of a change feed, and the frames in each of them."""

    files: dict[str, bytes]
    """Content of every segment, by file name."""
    frames: dict[str, tuple[tuple[int, Frame], ...]]
    """Frames of each segment, each with the offset of its end."""

    @property
    def all_frames(self) -> list[Frame]:
        return [frame for name in sorted(self.frames) for _, frame in self.frames[name]]

    def intact_frames(self, file: str, intact_bytes: int) -> list[Frame]:
        """Return the frames that are due if only so many bytes of one file are intact."""
        return [
            frame
            for name in sorted(self.frames)
            for end, frame in self.frames[name]
            if name != file or end <= intact_bytes
        ]


@cache
def feed_sample() -> FeedSample:
    """Return a feed with a closed segment, a gap, and an open segment."""
    directory = scratch_directory() / "feed"
    log = ChangeLog(directory, RETENTION, OWNER)
    log.open()
    frames: dict[str, tuple[tuple[int, Frame], ...]] = {}
    for first in (1, 20):
        if log.next_index < first:
            log.skip_to(first)
        end, written = SEGMENT_HEADER_BYTES, []
        for width, body in ((2, encode_changes(samples.CHANGES)), (1, b"\x90"), (5, b"\x90")):
            frame = Frame(log.next_index, log.next_index + width, body)
            log.append(frame)
            end += FRAME_HEADER_BYTES + len(body)
            written.append((end, frame))
        frames[max(directory.iterdir()).name] = tuple(written)
    # The file of the last segment has no closing frame, as after a crash.
    return FeedSample({path.name: path.read_bytes() for path in directory.iterdir()}, frames)


def read_feed(files: dict[str, bytes]) -> list[Frame] | None:
    """Return the frames that a replica would serve, or None if it refuses the files."""
    directory = scratch_directory() / "damaged-feed"
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        if path.name not in files:
            path.unlink()
    for name, content in files.items():
        overwrite(directory / name, content)
    log = ChangeLog(directory, RETENTION, OWNER)
    try:
        log.open()
    except (StorageFault, UsageError):
        return None
    frames: list[Frame] = []
    start = log.earliest_index
    while start < log.next_index:
        segment = log.find(start)
        part = [] if segment is None else segment.read(start, READ_BYTES_MAX)
        frames += part
        start = part[-1].end if part else _next_segment(log, start)
    return frames


def _next_segment(log: ChangeLog, start: int) -> int:
    """Return the first index of the segment after one that is damaged, or after a gap."""
    segment = log.find(start)
    return log.next_kept(start) if segment is None else log.next_kept(segment.end)


def check_random_feed_damage(random: Random) -> None:
    """Damage a feed at random. Each change that is read must be as it was written, in order."""
    sample = feed_sample()
    files = dict(sample.files)
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice(list(files))
        if random.randrange(8) == 0 and len(files) > 1:
            del files[name]
        else:
            content = random.choice(list(sample.files.values()))
            files[name] = mutations.random_damage(random, (files[name], content))
    check_frames(sample, read_feed(files))


def check_frames(sample: FeedSample, frames: list[Frame] | None) -> None:
    """Assert that the frames were written, and are in their order."""
    if frames is not None:
        written = {frame.first: frame for frame in sample.all_frames}
        assert all(written.get(frame.first) == frame for frame in frames), frames
        assert [frame.first for frame in frames] == sorted({frame.first for frame in frames})
