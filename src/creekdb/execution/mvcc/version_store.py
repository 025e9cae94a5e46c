"""What was withdrawn and may come back otherwise, and who rests on it.

The versions of a withdrawn request are hidden from new snapshots, but who has read them is not in
doubt yet: executed again, the request may write the same. Until then what rests on them is not
*sure*, and must not be answered.

The version store (Section 4.4): every executed request's writes, side by side.

An operation runs on a `Snapshot`: the state as all requests before it left it. What it read is
kept. A request that counts as executed is *valid*: each of its reads would give the same value
again. A change, be it a new version, a rollback or a move, is followed to exactly those later
requests whose reads it may have changed; one that would read something else is *withdrawn*, to be
executed again. One that would read an equal value is kept; and one that picked some items of a
value, if these are equal.

The versions of a withdrawn request are hidden from new snapshots; who has read them is in doubt
when it is executed again (`unsure`).

A scan reads every key it passes, present or not, and the range itself: a key that is new to the
store is a change for every later request that scanned past it (no phantoms).

The store knows positions, not lists: what is committed and what runs next is decided elsewhere.
"""

from collections.abc import Iterator
from typing import Any, Final

from sortedcontainers import SortedList

from creekdb.execution.base_state import Base, Nothing
from creekdb.execution.keys import place
from creekdb.execution.mvcc.entry import (
    NO_VERSIONS,
    Entry,
    Phase,
    Position,
    Read,
    Stretch,
    Version,
    readers_after,
    reads_version,
)
from creekdb.execution.mvcc.merged_runs import Stretches
from creekdb.execution.mvcc.read_index import Readership
from creekdb.execution.mvcc.register_table import Contents, SettledImage
from creekdb.execution.mvcc.snapshot import Snapshot
from creekdb.execution.mvcc.state_loader import Arrivals, StateDigest
from creekdb.execution.mvcc.version_chain import INITIAL, Chain, Doubts, looks_the_same
from creekdb.execution.result import Execution
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key


class Unsure:
    __slots__ = ("_contents", "_first", "_positions")

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._positions: SortedList[Position] = SortedList()
        """Where the entries stand that have hidden versions."""
        self._first: Position | None = None
        """Of these; mostly there are none."""

    def add(self, position: Position) -> None:
        self._positions.add(position)
        self._first = self._positions[0]

    def remove(self, position: Position) -> None:
        self._positions.remove(position)
        self._first = self._positions[0] if self._positions else None

    def clear(self) -> None:
        self._positions.clear()
        self._first = None

    def begins_after(self, position: Position) -> bool:
        """Is everything that counts as executed up to here valid for now?"""
        return self._first is None or position < self._first

    def behind(self, reads: dict[Key, Read]) -> Entry | None:
        """Whose hidden version was read, or is behind what others wrote that was read; None when
        all of it is sure."""
        first = self._first
        if first is None:
            return None
        seen: set[Entry] = set()
        reading = [reads]
        while reading:
            for key, (read, _) in reading.pop().items():
                for version in self._parts(key, read):
                    writer = version.writer
                    if writer is None or writer.position < first or writer in seen:
                        continue
                    if writer.hidden.get(key) is version:
                        return writer
                    seen.add(writer)
                    reading.append(writer.reads)
        return None

    def _parts(self, key: Key, read: Version | None) -> list[Version]:
        """The versions that a value comes from: of a sum, more than one."""
        if read is None:
            return []
        if not read.delta or read.writer is None or read.writer.hidden.get(key) is read:
            return [read]
        return self._contents.chain(key).parts(read)


FRESH_MAX: Final = 32
"""Executed and not settled: if there are no more, they are asked one by one what they read."""


class VersionStore:
    def __init__(
        self,
        base: Base | None = None,
        digest: StateDigest | None = None,
        fresh_max: int = FRESH_MAX,
        images: bool = False,
    ) -> None:
        """`digest` is kept up with what is settled. `images`: can they be taken, and
        are keys in order before somebody asks?"""
        self._contents = Contents(base or Nothing(), digest, images)
        self._readership = Readership(fresh_max)
        self._stretches = Stretches(self._contents, self._readership)
        self._unsure = Unsure(self._contents)
        self._doubts: Doubts = []
        self._withdrawn: list[Entry] = []

    # --- reading ---------------------------------------------------------------------------------

    def snapshot(self, position: Position) -> Snapshot:
        return Snapshot(self._contents, position)

    def is_sure(self, position: Position) -> bool:
        """Is everything that counts as executed up to here valid for now?"""
        return self._unsure.begins_after(position)

    def rests_on(self, reads: dict[Key, Read]) -> Entry | None:
        """Whose hidden version was read, or is behind what others wrote that was read; None when
        all of it is sure."""
        return self._unsure.behind(reads)

    # --- changing --------------------------------------------------------------------------------

    def install(self, entry: Entry, snapshot: Snapshot, execution: Execution) -> bool:
        """Take over what an execution gave, if it is still valid where `entry` stands now."""
        if not snapshot.holds_at(entry.position, entry.jumped):
            return False
        if self._stretches.whole:
            stretch = self._stretches.disturbed_by(entry, execution)
            if stretch is not None:
                self.take_apart(stretch)
                return False
        entry.phase = Phase.EXECUTED
        entry.initial, entry.reads, entry.picks = snapshot.initial, snapshot.reads, snapshot.picks
        versions = {key: Version(entry, value) for key, value in execution.writes.items()}
        for key, amount in execution.adds.items():
            versions[key] = Version(entry, amount, delta=True)
        if versions:
            entry.versions = versions
        self._readership.add(entry, snapshot)
        if versions:
            self._insert_versions(entry, versions)
        if entry.hidden:
            self._doubt_hidden(entry)
        if self._doubts:
            self._resolve()
        return True

    def rename(self, entry: Entry, position: Position) -> None:
        """The entry has another position now, but stands where it stood among the others."""
        if entry.hidden:
            self._unsure.remove(entry.position)
            self._unsure.add(position)
        entry.position = position

    def move(self, entry: Entry, position: Position) -> None:
        """The entry now stands at an earlier position, before others that it used to follow."""
        assert position < entry.position
        if entry.phase is not Phase.EXECUTED:
            entry.jumped = True
            self.rename(entry, position)
            return
        contents, readership = self._contents, self._readership
        held = contents.held
        places = {
            key: chain.index(version)
            for key, version in entry.versions.items()
            if isinstance(chain := held[key], Chain)
        }
        entry.position = position
        readership.disturb(entry)
        contents.note_change(entry.versions)
        fresh = readership.fresh_after(position, entry.versions)
        for key in contents.written_of(entry.initial):
            if key not in entry.reads and contents.has_versions(key):
                self._doubts.append((entry, key))
        for key, (version, _) in entry.reads.items():
            if version is not None or contents.has_versions(key):
                self._doubts.append((entry, key))
        for key in entry.versions:
            if key in places:
                chain = contents.chain(key)
                if not chain.reposition(places[key], self._doubts):
                    continue
                self._doubt_second(chain, key)
            self._doubt_readers_of_ground(key, position, fresh)
        if readership.adders:
            for key in entry.versions:  # all in order again: who is withdrawn, leaves its chains
                self._withdraw_adders(key, position)
        self._resolve()

    def settle(self, entry: Entry) -> None:
        """The entry and all before it are committed and executed: nothing there can change."""
        assert entry.phase is Phase.EXECUTED
        entry.phase = Phase.SETTLED
        if isinstance(entry, Stretch):
            self._stretches.whole.remove(entry)
        contents = self._contents
        for key, version in entry.versions.items():
            contents.settle(key, version)
            version.writer = None
            if version.readers is not None:
                self._readership.take_over(key, version)
            if version.value is ABSENT:
                contents.drop_if_gone(key)
        self._readership.forget(entry)

    def take_withdrawn(self) -> list[Entry]:
        """The entries that lost their validity since the last time, to be executed again."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn

    # --- stretches -------------------------------------------------------------------------------

    def merge(self, members: list[Entry]) -> Stretch:
        """Let one entry stand for these. All are executed and sure, and no other is among them."""
        return self._stretches.merge(members)

    def take_apart(self, stretch: Stretch) -> None:
        """Its members have to be executed again, each for itself."""
        if stretch.phase is Phase.EXECUTED:
            self._withdraw(stretch)
            self._resolve()

    def replaced(self, stretch: Stretch) -> None:
        """The members of a stretch that was taken apart have been executed again."""
        if stretch.hidden:
            self._doubt_hidden(stretch)
            self._resolve()

    # --- as a whole ------------------------------------------------------------------------------

    def settled_items(self) -> Iterator[tuple[Key, Any]]:
        """The registers as the settled requests left them, in the order of their keys; with
        `ABSENT` for what was deleted."""
        return self._contents.settled_items()

    def image(self) -> SettledImage:
        """The registers as the settled requests left them, now: to be gone through in time."""
        return self._contents.image()

    def values(self) -> dict[Key, Any]:
        """The registers as all executed requests left them, with `ABSENT` for what was deleted, and
        perhaps some that are as the base has them."""
        return self._contents.values()

    def register_count(self) -> int:
        return len(self._contents.held)

    def load(self, arrived: Arrivals) -> None:
        """Start anew from a checkpoint's state: every entry of before is void."""
        self._contents.load(arrived)
        self._readership.clear()
        self._stretches.whole = []
        self._unsure.clear()
        self._doubts = []
        self._withdrawn = []

    # --- inside -----------------------------------------------------------------------------------

    def _insert_versions(self, entry: Entry, versions: dict[Key, Version]) -> None:
        contents, readership, position = self._contents, self._readership, entry.position
        held, of_ground = contents.held, readership.of_ground
        contents.note_change(versions)
        fresh = readership.fresh_after(position, versions)
        for key, version in versions.items():
            found = held.setdefault(key, version)
            if found is version:
                version.ground = INITIAL
                contents.add_key(key)
                if readership.ranges:
                    self._doubt_scans(key)
                    fresh = readership.fresh_after(position, versions)
            elif isinstance(found, Version) or isinstance(found, Chain):  # noqa: SIM101 - compiled
                chain = contents.chain(key)
                if not chain.insert(version, self._doubts):
                    continue
                self._doubt_second(chain, key)
            else:
                version.ground = found
                held[key] = version
            if fresh or of_ground.get(key, entry) is not entry:
                self._doubt_readers_of_ground(key, position, fresh)
        if readership.adders:
            for key in versions:
                self._withdraw_adders(key, position)

    def _withdraw_adders(self, key: Key, position: Position) -> None:
        """Who added blindly to what may be no integer, or too large a one, has to look."""
        adders = self._readership.adders.get(key)
        if adders and not self._contents.is_addable(key):
            for adder in [each for each in adders if each.position > position]:
                self._withdraw(adder)

    def _doubt_readers_of_ground(self, key: Key, position: Position, fresh: list[Entry]) -> None:
        """Something stands right on the ground now, at `position`. `fresh`: which of the fresh ones
        may have read it."""
        if fresh or self._readership.of_ground:
            for reader in self._readership.of_ground_after(key, position, fresh):
                self._doubts.append((reader, key))

    def _doubt_second(self, chain: Chain, key: Key) -> None:
        """Another version stands right on the ground now, before the one that did."""
        writer = chain.second_writer()
        if writer is not None and reads_version(writer, key, None):
            self._doubts.append((writer, key))

    def _doubt_scans(self, key: Key) -> None:
        for reader in self._readership.ranges.readers(place(key)):
            if reader.read_of(key) is None:
                # It passed where the key was not: that is a read of its absence.
                self._readership.note(reader, key, None, self._contents.ground(key))
            self._doubts.append((reader, key))

    def _doubt_hidden(self, entry: Entry) -> None:
        """What it wrote before it was withdrawn is gone for good."""
        self._unsure.remove(entry.position)
        for key, version in entry.hidden.items():
            for reader in readers_after(version.readers, key, version, ()):
                self._doubts.append((reader, key))
        entry.hidden = NO_VERSIONS

    def _resolve(self) -> None:
        doubts = self._doubts
        while doubts:
            entry, key = doubts.pop()
            read = entry.read_of(key) if entry.phase is Phase.EXECUTED else None
            if read is None or _may_come_back(read[0], key, entry):
                continue
            version, value = self._contents.at(key, entry.position)
            if version is read[0] and value is read[1]:
                continue
            if looks_the_same(value, read[1], entry.picks.get(key)) and not _is_inside(
                version, entry
            ):
                self._readership.disturb_of(key, read[0])
                self._readership.note(entry, key, version, value)
            else:
                self._withdraw(entry)

    def _withdraw(self, entry: Entry) -> None:
        """Hide what the entry wrote: it has to be executed again."""
        if entry.phase is not Phase.EXECUTED:
            return
        entry.phase = Phase.WAITING
        if isinstance(entry, Stretch):
            self._stretches.whole.remove(entry)
        contents = self._contents
        contents.note_change(entry.versions)
        hidden: dict[Key, Version] = {}
        for key, version in entry.versions.items():
            chain = contents.chain(key)
            if chain.remove(version, self._doubts):
                hidden[key] = version
            if chain.is_bare:
                contents.remove_bare(key, chain)
        if hidden:
            entry.hidden = hidden
            self._unsure.add(entry.position)
        self._readership.disturb(entry)
        self._readership.forget(entry)
        self._withdrawn.append(entry)


def _may_come_back(version: Version | None, key: Key, reader: Entry) -> bool:
    """Is the version hidden, by a writer before the reader that may yet write it again?"""
    writer = version.writer if version is not None else None
    return (
        writer is not None
        and writer.hidden.get(key) is version
        and writer.position < reader.position
    )


def _is_inside(version: Version | None, entry: Entry) -> bool:
    """Is it a late one's, in the midst of a stretch? Some of its members do not read it."""
    return (
        isinstance(entry, Stretch)
        and version is not None
        and version.writer is not None
        and version.writer.position > entry.start
    )
