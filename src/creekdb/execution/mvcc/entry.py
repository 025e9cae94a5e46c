"""Requests in the eyes of the version store, the versions that they wrote, and who has read these.

A version knows its readers. One that reads something else by now is dropped when they are next
looked at, so that forgetting a read costs nothing.
"""

import enum
from bisect import bisect_right
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import CollationKey
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key

Position: TypeAlias = tuple[int, ...]
"""Where a request stands in `committed · tentative`; positions compare like the order itself."""

_TENTATIVE: Final = 2**63
END_POSITION: Final[Position] = (_TENTATIVE + 1,)
"""After every request."""

_COMPACT_READERS_MIN: Final = 16


def committed_position(index: int) -> Position:
    return (index,)


def optimistic_position(instance: int, place: int, id: Dot) -> Position:
    """Of a request that a leader proposed at this place of an instance of consensus."""
    return (_TENTATIVE, instance, place, *id)


def local_position(number: int) -> Position:
    """Of an operation that only reads, after everything there is."""
    return (*END_POSITION, number)


def tentative_position(request: Request) -> Position:
    replica, event = request.id
    return (_TENTATIVE, request.timestamp, replica, event)


class ExecutionPhase(enum.Enum):
    WAITING = "to be executed"
    RUNNING = "being executed"
    EXECUTED = "executed, and valid"
    MERGED = "executed, and a part of a stretch"
    STABLE = "executed and committed, like all before it"


_NOT_EXECUTED: Final = (ExecutionPhase.WAITING, ExecutionPhase.RUNNING)


class RequestEntry:
    """A request in the eyes of the store: where it stands, what it read and what it wrote."""

    __slots__ = (
        "base_reads",
        "blind_adds",
        "dependencies",
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
        """Of the client that issued it here; None for what came from elsewhere."""
        self.phase = ExecutionPhase.WAITING
        self.session_predecessor: RequestEntry | None = None
        """The request before it in its session: it must be seen."""
        self.dependencies: tuple[RequestEntry, ...] = ()
        """Requests of others that must be seen as well."""
        self.has_moved_ahead = False
        """Did it move before others since it was last started?"""
        self.failed_attempts = 0
        """How often it was executed in vain."""
        self.outcome: Outcome | None = None
        """Of the last execution that was valid when it ended."""
        self.base_reads: dict[Key, Read] = NO_READS
        """What it read of registers that nobody had written to; never changed, for others may have
        read the same."""
        self.reads: dict[Key, Read] = NO_READS
        """What else it read; and of the same registers, what it reads now."""
        self.picks: Picks = NO_PICKS
        """Of which of them it looked at some items only."""
        self.versions: dict[Key, Version] = NO_VERSIONS
        self.hidden_versions: dict[Key, Version] = NO_VERSIONS
        """Of an execution that was withdrawn: versions that others have read."""
        self.scanned_ranges: tuple[ScannedRange, ...] = ()
        self.blind_adds: tuple[Key, ...] = ()
        """Registers that it added to without reading them."""
        self.merged_run: MergedRun | None = None

    @property
    def is_executed(self) -> bool:
        return self.phase not in _NOT_EXECUTED

    def find_read(self, key: Key) -> "Read | None":
        """What it read there, if anything."""
        return self.reads.get(key) or self.base_reads.get(key)

    def all_reads(self) -> "dict[Key, Read]":
        return self.base_reads | self.reads

    def clear(self) -> None:
        """What it read and wrote is no longer its own."""
        self.base_reads, self.reads, self.picks = NO_READS, NO_READS, NO_PICKS
        self.versions = NO_VERSIONS
        self.scanned_ranges, self.blind_adds = (), ()


class MergedRun(RequestEntry):
    """One entry in place of many that were executed one after the other: what they read from before
    them, and what they left behind. It saves what lay between, and is taken apart when one of them
    has to be looked at alone."""

    __slots__ = ("entries", "pending_entries", "start_position")

    def __init__(self, members: list[RequestEntry]) -> None:
        last = members[-1]
        super().__init__(last.request, last.position)
        self.start_position = members[0].position
        self.entries = members
        self.pending_entries: dict[RequestEntry, None] = {}
        """Once it is taken apart: the members that have not been executed again."""


class Version:
    __slots__ = ("is_delta", "readers", "running_total", "stable_value", "value", "writer")

    def __init__(self, writer: RequestEntry, value: Any, delta: bool = False) -> None:
        self.writer: RequestEntry | None = writer
        """None once it is settled."""
        self.value = value
        self.is_delta = delta
        self.running_total: int | None = None
        """Of a delta: the sum up to and with it, once somebody asked. Then those of the deltas
        right before it are known as well."""
        self.readers: Readers = None
        self.stable_value: Any = None
        """What is settled below it, as long as it is the only one and stands for itself."""


class ReaderGroup:
    """Several who have read the same."""

    __slots__ = ("entries", "is_sorted")

    def __init__(self, *entries: RequestEntry) -> None:
        self.entries = list(entries)
        self.is_sorted = False
        """Do they stand in the order of their positions, for all one knows?"""

    def drop_cleared(self) -> bool:
        """One of them was forgotten. Was it the last?"""
        entries = self.entries
        while entries and not entries[-1].reads and not entries[-1].base_reads:
            entries.pop()
        return not entries


Readers: TypeAlias = RequestEntry | ReaderGroup | None
"""Who has read one version of a register, or its ground. Mostly it is one, who stands for itself;
some may read something else by now."""

Read: TypeAlias = tuple[Version | None, Any]
"""The version that was read and its value there; no version for what stands on settled ground."""

Picks: TypeAlias = dict[Key, tuple[int | str, ...]]
"""What was looked at of a value, where it was not the whole."""

NO_READS: Final[dict[Key, Read]] = {}
NO_PICKS: Final[Picks] = {}
NO_VERSIONS: Final[dict[Key, Version]] = {}
"""Shared by all entries that have none, and never written to."""


def add_reader(
    readers: Readers, reader: RequestEntry, key: Key, version: Version | None
) -> RequestEntry | ReaderGroup:
    """The readers of `version`, and one more."""
    if readers is None or readers is reader:
        return reader
    if not isinstance(readers, ReaderGroup):
        return ReaderGroup(readers, reader) if reads_version(readers, key, version) else reader
    entries = readers.entries
    if readers.is_sorted and entries and reader.position < entries[-1].position:
        readers.is_sorted = False
    entries.append(reader)
    count = len(entries)
    if count >= _COMPACT_READERS_MIN and not count & (count - 1):  # each time it has doubled
        _drop_stale_readers(readers, key, version)
    return readers


def mark_unsorted(readers: Readers) -> None:
    """One of them moved, or reads this no longer."""
    if isinstance(readers, ReaderGroup):
        readers.is_sorted = False


def readers_after(
    readers: Readers, key: Key, version: Version | None, position: Position
) -> list[RequestEntry]:
    """Those who still read `version`, and stand after `position`."""
    if readers is None:
        return []
    if not isinstance(readers, ReaderGroup):
        if readers.position > position and reads_version(readers, key, version):
            return [readers]
        return []
    if not readers.is_sorted:
        _drop_stale_readers(readers, key, version)
        readers.entries.sort(key=_position_of)
        readers.is_sorted = True
    entries = readers.entries
    if not entries or entries[-1].position <= position:
        return []
    start = bisect_right(entries, position, key=_position_of)
    return [each for each in entries[start:] if reads_version(each, key, version)]


def _drop_stale_readers(readers: ReaderGroup, key: Key, version: Version | None) -> None:
    once = dict.fromkeys(readers.entries)  # however often they came back
    readers.entries = [each for each in once if reads_version(each, key, version)]


def reads_version(reader: RequestEntry, key: Key, version: Version | None) -> bool:
    read = reader.reads.get(key)
    if read is not None:
        return read[0] is version
    return version is None and key in reader.base_reads


class ScannedRange:
    """A part of the key space that a scan went through: it read every key that was there."""

    __slots__ = ("reader", "start", "stop")

    def __init__(self, start: CollationKey, stop: CollationKey) -> None:
        self.reader: RequestEntry | None = None
        self.start = start
        self.stop = stop


def _position_of(entry: RequestEntry) -> Position:
    return entry.position
