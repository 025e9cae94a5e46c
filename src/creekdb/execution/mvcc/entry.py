"""Entries of the version store: requests, the versions that they wrote, and the readers of these.

A version refers to its readers. A reader that has since read another version is dropped when the
readers are next traversed, so that removing a read costs nothing.
"""

import enum
from bisect import bisect_right
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import CollationKey
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key

Position: TypeAlias = tuple[int, ...]
"""Position of a request in `committed · tentative`. Positions compare like the order itself."""

_TENTATIVE: Final = 2**63
END_POSITION: Final[Position] = (_TENTATIVE + 1,)
"""Position after every request."""

_COMPACT_READERS_MIN: Final = 16


def committed_position(index: int) -> Position:
    return (index,)


def optimistic_position(instance: int, index: int, id: Dot) -> Position:
    """Return the position of a request that a leader proposed at `index` of an instance."""
    return (_TENTATIVE, instance, index, *id)


def local_position(number: int) -> Position:
    """Return the position of a read-only operation, after every request."""
    return (*END_POSITION, number)


def tentative_position(request: Request) -> Position:
    replica, event = request.id
    return (_TENTATIVE, request.timestamp, replica, event)


class ExecutionPhase(enum.Enum):
    """Phase of a request in the version store."""

    WAITING = "to be executed"
    RUNNING = "being executed"
    EXECUTED = "executed, and valid"
    MERGED = "executed, and part of a merged run"
    STABLE = "executed and committed, like all requests before it"


_NOT_EXECUTED: Final = (ExecutionPhase.WAITING, ExecutionPhase.RUNNING)


class AccessEstimate:
    """Registers that an execution read and wrote, as an estimate of another execution."""

    __slots__ = ("reads", "size", "writes")

    def __init__(self, reads: tuple[Key, ...], writes: tuple[Key, ...]) -> None:
        self.reads = reads
        self.writes = writes
        self.size = len(reads) + len(writes) + 1
        """Number of the keys, and one for the estimate itself."""


class RequestEntry:
    """Request in the version store, with its position, reads and writes."""

    __slots__ = (
        "base_reads",
        "blind_adds",
        "dependencies",
        "estimate",
        "failed_attempts",
        "has_moved_ahead",
        "hidden_versions",
        "merged_run",
        "outcome",
        "phase",
        "picks",
        "position",
        "reads",
        "request",
        "scanned_ranges",
        "session",
        "session_predecessor",
        "versions",
    )

    def __init__(self, request: Request, position: Position, session: int | None = None) -> None:
        self.request = request
        self.position = position
        self.session = session
        """Session of the client that issued the request here. None if it came from elsewhere."""
        self.phase = ExecutionPhase.WAITING
        self.session_predecessor: RequestEntry | None = None
        """Previous request of the session, which this request must see."""
        self.dependencies: tuple[RequestEntry, ...] = ()
        """Requests of other sessions that this request must see."""
        self.has_moved_ahead = False
        """True if the entry moved ahead of others since its execution started."""
        self.failed_attempts = 0
        """Number of executions that were not valid when they ended."""
        self.outcome: Outcome | None = None
        """Outcome of the last execution that was valid when it ended."""
        self.base_reads: dict[Key, Read] = NO_READS
        """Reads of registers that were never written. Never modified, because executions that
        read the same registers may share it."""
        self.reads: dict[Key, Read] = NO_READS
        """All other reads, and current reads that replace those in `base_reads`."""
        self.picks: Picks = NO_PICKS
        """Items that were read, for reads that used only some items of a value."""
        self.versions: dict[Key, Version] = NO_VERSIONS
        self.hidden_versions: dict[Key, Version] = NO_VERSIONS
        """Versions of a rolled-back execution that other requests have read."""
        self.scanned_ranges: tuple[ScannedRange, ...] = ()
        self.blind_adds: tuple[Key, ...] = ()
        """Registers that the request added to without reading them."""
        self.merged_run: MergedRun | None = None
        self.estimate: AccessEstimate | None = None
        """Expected reads and writes of the next execution, if the replica uses estimates."""

    @property
    def is_executed(self) -> bool:
        return self.phase not in _NOT_EXECUTED

    @property
    def effective_reads(self) -> "dict[Key, Read]":
        """Reads that the outcome depends on: those of the merged run while the entry is merged."""
        if self.phase is ExecutionPhase.MERGED:
            assert self.merged_run is not None
            return self.merged_run.reads
        return self.reads

    def find_read(self, key: Key) -> "Read | None":
        """Return the read of `key`, or None."""
        return self.reads.get(key) or self.base_reads.get(key)

    def clear(self) -> None:
        """Drop all reads and versions."""
        self.base_reads, self.reads, self.picks = NO_READS, NO_READS, NO_PICKS
        self.versions = NO_VERSIONS
        self.scanned_ranges, self.blind_adds = (), ()


class MergedRun(RequestEntry):
    """Entry that replaces requests executed one after another.

    It holds their reads from before the run, and the versions that they left. The intermediate
    versions are dropped. The run is split when a member must be examined alone.
    """

    __slots__ = ("entries", "pending_entries", "start_position")

    def __init__(self, members: list[RequestEntry]) -> None:
        last = members[-1]
        super().__init__(last.request, last.position)
        self.start_position = members[0].position
        self.entries = members
        self.pending_entries: dict[RequestEntry, None] = {}
        """Members of a split run that have not been executed again."""


def position_of(entry: RequestEntry) -> Position:
    return entry.position


class Version:
    """Value or delta that a request wrote to a register."""

    __slots__ = ("is_delta", "readers", "running_total", "stable_value", "value", "writer")

    def __init__(self, writer: RequestEntry, value: Any, is_delta: bool = False) -> None:
        self.writer: RequestEntry | None = writer
        """None once the version is stable."""
        self.value = value
        self.is_delta = is_delta
        self.running_total: int | None = None
        """Sum up to and including a delta, computed when it is first read. The deltas directly
        before it then have their sums as well."""
        self.readers: Readers = None
        self.stable_value: Any = None
        """Stable value below the version, while it is the only version and there is no chain."""


class ReaderGroup:
    """Several readers of the same version."""

    __slots__ = ("entries", "is_sorted")

    def __init__(self, *entries: RequestEntry) -> None:
        self.entries = list(entries)
        self.is_sorted = False
        """True if the entries are in the order of their positions."""

    def drop_cleared(self) -> bool:
        """Drop cleared entries at the end. Return True if none are left."""
        entries = self.entries
        while entries and not entries[-1].reads and not entries[-1].base_reads:
            entries.pop()
        return not entries


Readers: TypeAlias = RequestEntry | ReaderGroup | None
"""Readers of one version of a register, or of its stable value. A single reader, the usual case,
needs no group. Some readers may have read another version since."""

Read: TypeAlias = tuple[Version | None, Any]
"""Version that was read, and its value there. The version is None for a stable value."""

Picks: TypeAlias = dict[Key, tuple[int | str, ...]]
"""Items that were read of a value, where it was not the whole value."""

NO_READS: Final[dict[Key, Read]] = {}
NO_PICKS: Final[Picks] = {}
NO_VERSIONS: Final[dict[Key, Version]] = {}
"""Shared by all entries that have none, and never modified."""


def add_reader(
    readers: Readers, reader: RequestEntry, key: Key, version: Version | None
) -> RequestEntry | ReaderGroup:
    """Return the readers of `version`, with one more."""
    if readers is None or readers is reader:
        return reader
    if not isinstance(readers, ReaderGroup):
        return ReaderGroup(readers, reader) if reads_version(readers, key, version) else reader
    entries = readers.entries
    if readers.is_sorted and entries and reader.position < entries[-1].position:
        readers.is_sorted = False
    entries.append(reader)
    count = len(entries)
    if count >= _COMPACT_READERS_MIN and not count & (count - 1):  # whenever it has doubled
        _drop_stale_readers(readers, key, version)
    return readers


def readers_after(
    readers: Readers, key: Key, version: Version | None, position: Position
) -> list[RequestEntry]:
    """Return the readers after `position` that still read `version`."""
    if readers is None:
        return []
    if not isinstance(readers, ReaderGroup):
        if readers.position > position and reads_version(readers, key, version):
            return [readers]
        return []
    if not readers.is_sorted:
        _drop_stale_readers(readers, key, version)
        readers.entries.sort(key=position_of)
        readers.is_sorted = True
    entries = readers.entries
    if not entries or entries[-1].position <= position:
        return []
    start = bisect_right(entries, position, key=position_of)
    return [each for each in entries[start:] if reads_version(each, key, version)]


def _drop_stale_readers(readers: ReaderGroup, key: Key, version: Version | None) -> None:
    unique = dict.fromkeys(readers.entries)  # a reader may have been added repeatedly
    readers.entries = [each for each in unique if reads_version(each, key, version)]


def reads_version(reader: RequestEntry, key: Key, version: Version | None) -> bool:
    read = reader.reads.get(key)
    if read is not None:
        return read[0] is version
    return version is None and key in reader.base_reads


class ScannedRange:
    """Range of the key space that a scan passed. The scan has read every key in it."""

    __slots__ = ("reader", "start", "stop")

    def __init__(self, start: CollationKey, stop: CollationKey) -> None:
        self.reader: RequestEntry | None = None
        self.start = start
        self.stop = stop
