"""The versions of one register, in the order of the requests that wrote them.

A chain begins with its *base*: the value below every request that can still move. Each further
version belongs to the request that wrote it, and stands where that request stands. A version is a
value, or a *delta*: an integer to be added to whatever comes before it.

Rules kept here:
- versions stand in the order of their writers' positions, at all times;
- a version knows its readers; one that reads another version by now is dropped when the list is
  next looked at, so that forgetting a read costs nothing.

This module finds who may be affected by a change (`doubts`). Whether they are, the store decides.
"""

import enum
from bisect import bisect_left, bisect_right
from typing import Any, TypeAlias

from creek.execution.keys import Place
from creek.execution.transaction import ABSENT, picked
from creek.protocol.dots import Dot
from creek.protocol.request import Outcome, Request
from creek.protocol.values import Key, same

Position: TypeAlias = tuple[int, ...]
"""Where a request stands in `committed · tentative`; positions compare like the order itself."""

_TENTATIVE = 2**63
TAIL: Position = (_TENTATIVE + 1,)
"""After every request."""

ADDABLE_MAX = 2**61
"""While no sum can exceed this, adding can neither fail nor overflow, whatever comes before it."""

_READERS_MIN = 16

_LONG = 1024
"""Versions of a chain that is not moved as a whole each time its base changes."""
_SPARE_MAX = 64


def committed_position(index: int) -> Position:
    return (index,)


def optimistic_position(instance: int, place: int, id: Dot) -> Position:
    """Of a request that a leader proposed at this place of an instance of consensus."""
    return (_TENTATIVE, instance, place, *id)


def local_position(number: int) -> Position:
    """Of an operation that only reads, after everything there is."""
    return (*TAIL, number)


def tentative_position(request: Request) -> Position:
    return (_TENTATIVE, request.timestamp, *request.id)


class Phase(enum.Enum):
    WAITING = "to be executed"
    RUNNING = "being executed"
    EXECUTED = "executed, and valid"
    MERGED = "executed, and a part of a stretch"
    SETTLED = "executed and committed, like all before it"


_NOT_EXECUTED = (Phase.WAITING, Phase.RUNNING)


class Entry:
    """A request in the eyes of the store: where it stands, what it read and what it wrote."""

    __slots__ = (
        "adds",
        "after",
        "hidden",
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
        self.losses = 0
        """How often it was executed in vain."""
        self.outcome: Outcome | None = None
        """Of the last execution that was valid when it ended."""
        self.reads: dict[Key, Read] = NO_READS
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

    def forget(self) -> None:
        """What it read and wrote is no longer its own."""
        self.reads, self.picks, self.versions = NO_READS, NO_PICKS, NO_VERSIONS
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
    __slots__ = ("_sorted", "delta", "readers", "total", "value", "writer")

    def __init__(self, writer: Entry | None, value: Any, delta: bool = False) -> None:
        self.writer = writer
        """None for a base, which stands before every position."""
        self.value = value
        self.delta = delta
        self.total: int | None = None
        """Of a delta: the sum up to and with it, once somebody asked. Then those of the deltas
        right before it are known as well."""
        self.readers: list[Entry] | None = None
        """None until there was one."""
        self._sorted = True

    def register(self, key: Key, reader: Entry) -> None:
        readers = self.readers
        if readers is None:
            self.readers = [reader]
            return
        if readers and reader.position < readers[-1].position:
            self._sorted = False
        readers.append(reader)
        count = len(readers)
        if count >= _READERS_MIN and not count & (count - 1):  # each time it has doubled
            self._drop_former(key, readers)

    def disturb(self) -> None:
        """A reader moved, or reads this no longer."""
        self._sorted = False

    def is_read_after(self, position: Position) -> bool:
        """Perhaps; if not, it is quickly told."""
        readers = self.readers
        if not readers:
            return False
        return not self._sorted or readers[-1].position > position

    def readers_after(self, key: Key, position: Position) -> list[Entry]:
        readers = self.readers
        if not readers:
            return []
        if not self._sorted:
            readers = self._drop_former(key, readers)
            readers.sort(key=_position_of)
            self._sorted = True
        start = bisect_right(readers, position, key=_position_of)
        return [each for each in readers[start:] if self._is_read_by(key, each)]

    def _drop_former(self, key: Key, readers: list[Entry]) -> list[Entry]:
        once = dict.fromkeys(readers)  # however often they came back
        self.readers = [each for each in once if self._is_read_by(key, each)]
        return self.readers

    def _is_read_by(self, key: Key, reader: Entry) -> bool:
        read = reader.reads.get(key)
        return read is not None and read[0] is self


Read: TypeAlias = tuple[Version | None, Any]
"""The version that was read and its value there; no version where there was no chain yet."""

Picks: TypeAlias = dict[Key, tuple[int | str, ...]]
"""What was looked at of a value, where it was not the whole."""

NO_READS: dict[Key, Read] = {}
NO_PICKS: Picks = {}
NO_VERSIONS: dict[Key, Version] = {}
NO_ADDERS: dict[Entry, None] = {}
"""Shared by all entries that have none, and never written to."""


class Range:
    """A part of the key space that a scan went through: it read every key that was there."""

    __slots__ = ("reader", "start", "stop")

    def __init__(self, start: Place, stop: Place) -> None:
        self.reader: Entry | None = None
        self.start = start
        self.stop = stop


Doubts: TypeAlias = list[tuple[Entry, Key]]
"""Readers whose read of a key may have to be answered otherwise now."""


class Chain:
    __slots__ = ("adders", "bound", "indexed", "key", "versions")

    def __init__(self, key: Key, base: Any, indexed: bool = False) -> None:
        self.key = key
        self.indexed = indexed
        """Does the store know the key for its scans?"""
        self.versions: list[Version] = [Version(None, base)]
        """The base, more than once if there is room to spare before the others, and the others."""
        self.adders: dict[Entry, None] = NO_ADDERS
        """Who added without reading: they rely on the chain being regular."""
        self.bound = _magnitude(base)
        """No integer in this chain, nor any sum, is greater; None: it holds something else."""

    def add_adder(self, adder: Entry) -> None:
        if self.adders is NO_ADDERS:
            self.adders = {}
        self.adders[adder] = None

    @property
    def regular(self) -> bool:
        return self.bound is not None and self.bound < ADDABLE_MAX

    @property
    def is_bare(self) -> bool:
        """Is there nothing but the base?"""
        return self.versions[-1].writer is None

    def at(self, position: Position) -> tuple[Version, Any]:
        """What a request at `position` reads."""
        versions = self.versions
        index = len(versions) - 1
        version = versions[index]
        if version.writer is not None and version.writer.position >= position:
            index = bisect_left(versions, position, 1, index, key=_position_of_version) - 1
            version = versions[index]
        return version, self._total(index) if version.delta else version.value

    def insert(self, version: Version, doubts: Doubts) -> None:
        assert version.writer is not None
        versions = self.versions
        position = version.writer.position
        last = versions[-1]
        if self.bound is not None:
            self._extend_bound(version)
        if last.writer is None or last.writer.position < position:
            versions.append(version)
            if last.readers is not None and last.is_read_after(position):
                self._doubt_readers(last, position, doubts)
            return
        index = bisect_left(versions, position, 1, len(versions), key=_position_of_version)
        index = self._place(index, version)
        self._doubt_readers(versions[index - 1], position, doubts)
        self._doubt_deltas(index + 1, doubts)

    def remove(self, version: Version, doubts: Doubts) -> bool:
        """Was it read? Its readers are not in doubt yet: its writer may well write it again. But
        whoever read a sum that it is a part of, is."""
        index = self.index(version)
        del self.versions[index]
        self._doubt_deltas(index, doubts)
        return bool(version.readers_after(self.key, ()))

    def reposition(self, old: int, doubts: Doubts) -> None:
        """The writer of the version at index `old` has just moved to an earlier position."""
        versions = self.versions
        version = versions[old]
        assert version.writer is not None
        position = version.writer.position
        new = bisect_left(versions, position, 1, old, key=_position_of_version)
        if new != old:
            del versions[old]
            follower = old + 1
            if self._place(new, version) < new:
                new, follower = new - 1, old
            self._doubt_readers(version, (), doubts)
            self._doubt_deltas(follower, doubts)
        self._doubt_readers(versions[new - 1], position, doubts)
        version.total = None
        self._doubt_deltas(new + 1, doubts)

    def settle(self, version: Version) -> None:
        """Nothing can come before this version any more: let it be the base."""
        versions = self.versions
        if len(versions) == 2 and not version.delta:
            version.writer = None
            del versions[0]
            self.bound = _magnitude(version.value)
            return
        index = self.index(version)
        if version.delta:
            _fix(version, self._total(index))
        version.writer = None
        if index <= _SPARE_MAX and len(versions) > _LONG:
            versions[:index] = [version] * index
        else:
            del versions[:index]
        if self.is_bare:
            self.bound = _magnitude(version.value)

    def merge(self, last: Version, stretch: Stretch, members: set[Entry]) -> None:
        """Let `last`, and the members' versions right before it, be one version of the stretch."""
        versions = self.versions
        end = self.index(last)
        begin = end
        while versions[begin - 1].writer in members:
            begin -= 1
        if last.delta:
            if all(version.delta for version in versions[begin : end + 1]):
                last.value = sum(version.value for version in versions[begin : end + 1])
            else:
                _fix(last, self._total(end))
        last.writer = stretch
        del versions[begin:end]

    def index(self, version: Version) -> int:
        versions = self.versions
        last = len(versions) - 1
        if versions[last] is version:
            return last
        assert version.writer is not None
        found = bisect_left(versions, version.writer.position, 1, last, key=_position_of_version)
        assert versions[found] is version
        return found

    def _place(self, index: int, version: Version) -> int:
        """Put it before the version at `index`. Answers its index: one less, if there is room."""
        versions = self.versions
        if index > 1 and versions[index - 1].writer is None:
            versions[index - 1] = version
            return index - 1
        versions[index:index] = (version,)  # moves what follows faster than `insert` does
        return index

    def parts(self, version: Version) -> list[Version]:
        """The versions whose values its value is the sum of."""
        end = begin = self.index(version)
        while self.versions[begin].delta:
            begin -= 1
        return self.versions[begin : end + 1]

    def _total(self, index: int) -> int:
        """The sum of the deltas that end at `index` and the value that they stand on."""
        versions = self.versions
        first = index
        while versions[first].delta and versions[first].total is None:
            first -= 1
        ground = versions[first]
        total: Any = ground.total if ground.delta else ground.value
        sum_so_far: int = 0 if total is ABSENT else total
        for version in versions[first + 1 : index + 1]:
            sum_so_far += version.value
            version.total = sum_so_far
        return sum_so_far

    def _extend_bound(self, version: Version) -> None:
        magnitude = _magnitude(version.value)
        assert self.bound is not None
        if magnitude is None:
            self.bound = None
        else:
            self.bound = self.bound + magnitude if version.delta else max(self.bound, magnitude)

    def _doubt_readers(self, version: Version, position: Position, doubts: Doubts) -> None:
        for reader in version.readers_after(self.key, position):
            doubts.append((reader, self.key))

    def _doubt_deltas(self, index: int, doubts: Doubts) -> None:
        """The deltas from `index` on, up to the next value, stand on other ground now. Of those
        without a total nobody has read, nor of any behind them: that is where it ends."""
        versions = self.versions
        while index < len(versions) and versions[index].total is not None:
            versions[index].total = None
            self._doubt_readers(versions[index], (), doubts)
            index += 1


def looks_the_same(left: Any, right: Any, items: tuple[int | str, ...] | None) -> bool:
    """To one who looked at these items, or at the whole."""
    if items is None or left is ABSENT or right is ABSENT:
        return same(left, right)
    return all(same(picked(left, item), picked(right, item)) for item in items)


def united_items(
    some: tuple[int | str, ...], others: tuple[int | str, ...]
) -> tuple[int | str, ...]:
    return tuple(dict.fromkeys((*some, *others)))


def _fix(version: Version, sum_: int) -> None:
    """Let a delta be the value that it amounts to."""
    version.value, version.delta, version.total = sum_, False, None


def is_addable(value: Any) -> bool:
    magnitude = _magnitude(value)
    return magnitude is not None and magnitude < ADDABLE_MAX


def _magnitude(value: Any) -> int | None:
    if value is ABSENT:
        return 0
    return abs(value) if type(value) is int else None


def _position_of(entry: Entry) -> Position:
    return entry.position


def _position_of_version(version: Version) -> Position:
    writer = version.writer
    return writer.position if writer is not None else ()
