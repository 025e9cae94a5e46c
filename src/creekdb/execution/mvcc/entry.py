"""Requests in the eyes of the version store, the versions that they wrote, and who has read these.

A version knows its readers. One that reads something else by now is dropped when they are next
looked at, so that forgetting a read costs nothing.
"""

import enum
from bisect import bisect_right
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import Place
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key

Position: TypeAlias = tuple[int, ...]
"""Where a request stands in `committed · tentative`; positions compare like the order itself."""

_TENTATIVE: Final = 2**63
TAIL: Final[Position] = (_TENTATIVE + 1,)
"""After every request."""

_READERS_MIN: Final = 16


def committed_position(index: int) -> Position:
    return (index,)


def optimistic_position(instance: int, place: int, id: Dot) -> Position:
    """Of a request that a leader proposed at this place of an instance of consensus."""
    return (_TENTATIVE, instance, place, *id)


def local_position(number: int) -> Position:
    """Of an operation that only reads, after everything there is."""
    return (*TAIL, number)


def tentative_position(request: Request) -> Position:
    replica, event = request.id
    return (_TENTATIVE, request.timestamp, replica, event)


class Phase(enum.Enum):
    WAITING = "to be executed"
    RUNNING = "being executed"
    EXECUTED = "executed, and valid"
    MERGED = "executed, and a part of a stretch"
    SETTLED = "executed and committed, like all before it"


_NOT_EXECUTED: Final = (Phase.WAITING, Phase.RUNNING)


class Entry:
    """A request in the eyes of the store: where it stands, what it read and what it wrote."""

    __slots__ = (
        "adds",
        "after",
        "follows",
        "hidden",
        "initial",
        "jumped",
        "losses",
        "outcome",
        "phase",
        "picks",
        "position",
        "ranges",
        "reads",
        "request",
        "session",
        "stretch",
        "versions",
    )

    def __init__(self, request: Request, position: Position, session: int | None = None) -> None:
        self.request = request
        self.position = position
        self.session = session
        """Of the client that issued it here; None for what came from elsewhere."""
        self.phase = Phase.WAITING
        self.after: Entry | None = None
        """The request before it in its session: it must be seen."""
        self.follows: tuple[Entry, ...] = ()
        """Requests of others that must be seen as well."""
        self.jumped = False
        """Did it move before others since it was last started?"""
        self.losses = 0
        """How often it was executed in vain."""
        self.outcome: Outcome | None = None
        """Of the last execution that was valid when it ended."""
        self.initial: dict[Key, Read] = NO_READS
        """What it read of registers that nobody had written to; never changed, for others may have
        read the same."""
        self.reads: dict[Key, Read] = NO_READS
        """What else it read; and of the same registers, what it reads now."""
        self.picks: Picks = NO_PICKS
        """Of which of them it looked at some items only."""
        self.versions: dict[Key, Version] = NO_VERSIONS
        self.hidden: dict[Key, Version] = NO_VERSIONS
        """Of an execution that was withdrawn: versions that others have read."""
        self.ranges: tuple[Range, ...] = ()
        self.adds: tuple[Key, ...] = ()
        """Registers that it added to without reading them."""
        self.stretch: Stretch | None = None

    @property
    def is_executed(self) -> bool:
        return self.phase not in _NOT_EXECUTED

    def read_of(self, key: Key) -> "Read | None":
        """What it read there, if anything."""
        return self.reads.get(key) or self.initial.get(key)

    def all_reads(self) -> "dict[Key, Read]":
        return self.initial | self.reads

    def forget(self) -> None:
        """What it read and wrote is no longer its own."""
        self.initial, self.reads, self.picks = NO_READS, NO_READS, NO_PICKS
        self.versions = NO_VERSIONS
        self.ranges, self.adds = (), ()


class Stretch(Entry):
    """One entry in place of many that were executed one after the other: what they read from before
    them, and what they left behind. It saves what lay between, and is taken apart when one of them
    has to be looked at alone."""

    __slots__ = ("members", "start", "to_come")

    def __init__(self, members: list[Entry]) -> None:
        last = members[-1]
        super().__init__(last.request, last.position)
        self.start = members[0].position
        self.members = members
        self.to_come: dict[Entry, None] = {}
        """Once it is taken apart: the members that have not been executed again."""


class Version:
    __slots__ = ("delta", "ground", "readers", "total", "value", "writer")

    def __init__(self, writer: Entry, value: Any, delta: bool = False) -> None:
        self.writer: Entry | None = writer
        """None once it is settled."""
        self.value = value
        self.delta = delta
        self.total: int | None = None
        """Of a delta: the sum up to and with it, once somebody asked. Then those of the deltas
        right before it are known as well."""
        self.readers: Readers = None
        self.ground: Any = None
        """What is settled below it, as long as it is the only one and stands for itself."""


class Crowd:
    """Several who have read the same."""

    __slots__ = ("entries", "in_order")

    def __init__(self, *entries: Entry) -> None:
        self.entries = list(entries)
        self.in_order = False
        """Do they stand in the order of their positions, for all one knows?"""

    def is_left(self) -> bool:
        """One of them was forgotten. Was it the last?"""
        entries = self.entries
        while entries and not entries[-1].reads and not entries[-1].initial:
            entries.pop()
        return not entries


Readers: TypeAlias = Entry | Crowd | None
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


def joined(readers: Readers, reader: Entry, key: Key, version: Version | None) -> Entry | Crowd:
    """The readers of `version`, and one more."""
    if readers is None or readers is reader:
        return reader
    if not isinstance(readers, Crowd):
        return Crowd(readers, reader) if reads_version(readers, key, version) else reader
    entries = readers.entries
    if readers.in_order and entries and reader.position < entries[-1].position:
        readers.in_order = False
    entries.append(reader)
    count = len(entries)
    if count >= _READERS_MIN and not count & (count - 1):  # each time it has doubled
        _drop_former(readers, key, version)
    return readers


def disturb(readers: Readers) -> None:
    """One of them moved, or reads this no longer."""
    if isinstance(readers, Crowd):
        readers.in_order = False


def readers_after(
    readers: Readers, key: Key, version: Version | None, position: Position
) -> list[Entry]:
    """Those who still read `version`, and stand after `position`."""
    if readers is None:
        return []
    if not isinstance(readers, Crowd):
        if readers.position > position and reads_version(readers, key, version):
            return [readers]
        return []
    if not readers.in_order:
        _drop_former(readers, key, version)
        readers.entries.sort(key=_position_of)
        readers.in_order = True
    entries = readers.entries
    if not entries or entries[-1].position <= position:
        return []
    start = bisect_right(entries, position, key=_position_of)
    return [each for each in entries[start:] if reads_version(each, key, version)]


def _drop_former(readers: Crowd, key: Key, version: Version | None) -> None:
    once = dict.fromkeys(readers.entries)  # however often they came back
    readers.entries = [each for each in once if reads_version(each, key, version)]


def reads_version(reader: Entry, key: Key, version: Version | None) -> bool:
    read = reader.reads.get(key)
    if read is not None:
        return read[0] is version
    return version is None and key in reader.initial


class Range:
    """A part of the key space that a scan went through: it read every key that was there."""

    __slots__ = ("reader", "start", "stop")

    def __init__(self, start: Place, stop: Place) -> None:
        self.reader: Entry | None = None
        self.start = start
        self.stop = stop


def _position_of(entry: Entry) -> Position:
    return entry.position
