"""The version store (Section 4.4): every executed request's writes, side by side.

An operation runs on a `Snapshot`: the state as all requests before it left it. What it read is
kept. A request that counts as executed is *valid*: each of its reads would give the same value
again. A change, be it a new version, a rollback or a move, is followed to exactly those later
requests whose reads it may have changed; one that would read something else is *withdrawn*, to be
executed again. One that would read an equal value is kept; and one that picked some items of a
value, if these are equal.

The versions of a withdrawn request are hidden from new snapshots, but who has read them is not in
doubt yet: executed again, the request may write the same. Until then what rests on them is not
*sure*, and must not be answered.

Most registers hold what they held in the beginning, or what settled requests left in them: of
these nothing is kept but the value, and who has read it. A register has a chain of versions only
as long as one of them may still change.

A scan reads every key it passes, present or not, and the range itself: a key that is new to the
store is a change for every later request that scanned past it (no phantoms).

The store knows positions, not lists: what is committed and what runs next is decided elsewhere.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sortedcontainers import SortedKeyList, SortedList

from creek.execution.base import Base, Nothing, merged
from creek.execution.chains import (
    NO_PICKS,
    NO_VERSIONS,
    TAIL,
    Chain,
    Crowd,
    Doubts,
    Entry,
    Phase,
    Picks,
    Position,
    Range,
    Read,
    Stretch,
    Version,
    disturb,
    is_addable,
    joined,
    looks_the_same,
    readers_after,
    reads_version,
    united_items,
)
from creek.execution.digest import StateDigest
from creek.execution.execution import Execution
from creek.execution.images import Keys, SettledImage
from creek.execution.keys import Place, place
from creek.execution.ranges import Ranges, united
from creek.execution.transaction import ABSENT
from creek.protocol.values import Key

_INITIAL: Final = object()
"""In place of a value that the base holds."""

GONE_PART: Final = 4
"""The list of keys is tidied when those that are gone are such a part of the others, or more."""

FRESH_MAX: Final = 32
"""How many of those executed last are asked one by one what they read."""


class Snapshot:
    """What one execution sees, and a record of what it looked at. A `View`."""

    __slots__ = ("_position", "_store", "adds", "changes", "initial", "picks", "ranges", "reads")

    def __init__(self, store: "VersionStore", position: Position) -> None:
        self._store = store
        self._position = position
        self.changes = store.changes
        self.initial: dict[Key, Read] = {}
        """What it read of registers that nobody had written to."""
        self.reads: dict[Key, Read] = {}
        """What else it read."""
        self.ranges: list[Range] = []
        self.adds: dict[Key, None] = {}
        self.picks: Picks = NO_PICKS

    def read(self, key: Key) -> Any:
        known = self.reads.get(key) or self.initial.get(key) or self._look_up(key)
        if self.picks and key in self.picks:
            del self.picks[key]
        return known[1]

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        known = self.reads.get(key) or self.initial.get(key)
        if known is None:
            if self.picks is NO_PICKS:
                self.picks = {}
            self.picks[key] = items
            known = self._look_up(key)
        elif key in self.picks:
            self.picks[key] = united_items(self.picks[key], items)
        return known[1]

    def repeat(
        self,
        initial: dict[Key, Read],
        reads: Iterable[tuple[Key, Any]],
        picks: Picks,
        told: Iterable[tuple[Key, bool]],
    ) -> bool:
        """Does one see here, too, what another snapshot showed: initial data, other values, picked
        items of either, and whether one can add? Then all of it has been looked at; otherwise
        nothing has."""
        store, position = self._store, self._position
        seen: dict[Key, Read] = {}
        for key, value in reads:
            read = seen[key] = store.read_at(key, position)
            if read[1] is not value and not looks_the_same(read[1], value, picks.get(key)):
                return False
        for key in store.written_of(initial):
            read = seen[key] = store.read_at(key, position)
            if not looks_the_same(read[1], initial[key][1], picks.get(key)):
                return False
        if any(store.is_addable(key) is not answer for key, answer in told):
            return False
        self.initial, self.reads, self.picks = initial, seen, picks
        self.adds = {key: None for key, answer in told if answer}
        return True

    def keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        """Only what the operation really went through counts as read."""
        passed = Range(stop, stop) if reverse else Range(start, start)
        self.ranges.append(passed)
        for key in self._store.known_keys(start, stop, reverse):
            here = place(key)
            if reverse:
                passed.start = here
            else:
                passed.stop = (*here, -1)  # right behind the key, before any other
            if self.read(key) is not ABSENT:
                yield key
        passed.start, passed.stop = start, stop

    def is_current(self) -> bool:
        """Would one see the same again?"""
        return self._store.confirm(self, self._position)

    def begin_again(self) -> None:
        """As if nothing had been looked at."""
        self.changes = self._store.changes
        self.initial, self.reads, self.ranges = {}, {}, []
        self.adds, self.picks = {}, NO_PICKS

    def addable(self, key: Key) -> bool:
        if not self._store.is_addable(key):
            return False
        self.adds[key] = None
        return True

    def _look_up(self, key: Key) -> Read:
        store = self._store
        if key in store._chains:
            read = self.reads[key] = store.read_at(key, self._position)
            return read
        value = store._settled.get(key, _INITIAL)
        if value is not _INITIAL:
            read = self.reads[key] = None, value
            return read
        read = self.initial[key] = None, store._base.read(key)
        return read


class VersionStore:
    def __init__(
        self,
        base: Base | None = None,
        digest: StateDigest | None = None,
        fresh_max: int = FRESH_MAX,
        images: bool = False,
    ) -> None:
        """`digest` is kept up with what is settled. `images`: can they be taken?"""
        self._base = base or Nothing()
        self._fresh_max = fresh_max
        self._digest = digest
        self._settled: dict[Key, Any] = {}
        """What settled requests left in the registers that were ever written to."""
        self._keys = Keys([]) if images else None
        self._images: list[SettledImage] = []
        """Those that may not be over."""
        self._chains: dict[Key, Version | Chain] = {}
        """The versions that are not settled. Mostly there is one, which stands for itself."""
        self._readers: dict[Key, Entry | Crowd] = {}
        """Who has read what stands on settled ground, be it the base's; but for the fresh ones."""
        self._fresh: dict[Entry, set[Key]] = {}
        """The last to be executed, and what they read. Who read what of settled ground is noted by
        register only when there are more of them: most are settled, and forgotten, before."""
        self._adders: dict[Key, dict[Entry, None]] = {}
        """Who added without reading: they rely on the register holding small integers only."""
        self._in_order: SortedKeyList[Key, Place] | None = None
        """The registers that were ever written to, once somebody has asked for them in order."""
        self._new_keys: dict[Key, None] = {}
        """Those of them that came since: many are sorted in at once."""
        self._ranges = Ranges()
        self._stretches: list[Stretch] = []
        """In their order."""
        self._unsure: SortedList[Position] = SortedList()
        """Where the entries stand that have hidden versions."""
        self._doubts: Doubts = []
        self._withdrawn: list[Entry] = []
        self.changes = 0
        """Grows with whatever may change what a snapshot shows, or from where."""

    # --- reading ---------------------------------------------------------------------------------

    def snapshot(self, position: Position) -> Snapshot:
        return Snapshot(self, position)

    def read_at(self, key: Key, position: Position) -> Read:
        found = self._chains.get(key)
        if found is not None:
            last = found.versions[-1] if isinstance(found, Chain) else found
            writer = last.writer
            if writer is not None and writer.position < position and not last.delta:
                return last, last.value  # as mostly
            return self._chain(key).at(position)
        value = self._settled.get(key, _INITIAL)
        return None, self._base.read(key) if value is _INITIAL else value

    def written_of(self, reads: dict[Key, Read]) -> list[Key]:
        """Those of the registers that somebody has written to, in the order of the reads."""
        settled = self._settled
        if settled.keys().isdisjoint(reads):
            return []  # as mostly, and quickly told
        return [key for key in reads if key in settled]

    def known_keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        """Every key that holds, or ever held, something in this range."""
        written = self._written().irange_key(start, stop, inclusive=(True, False), reverse=reverse)
        return merged(written, self._base.keys(start, stop, reverse), reverse)

    def is_addable(self, key: Key) -> bool:
        return self._chain(key).regular if key in self._chains else is_addable(self._ground(key))

    def is_sure(self, position: Position) -> bool:
        """Is everything that counts as executed up to here valid for now?"""
        return not self._unsure or position < self._unsure[0]

    def rests_on(self, reads: dict[Key, Read]) -> Entry | None:
        """Whose hidden version was read, or is behind what others wrote that was read; None when
        all of it is sure."""
        if not self._unsure:
            return None
        first = self._unsure[0]
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
        return self._chain(key).parts(read)

    # --- changing --------------------------------------------------------------------------------

    def install(self, entry: Entry, snapshot: Snapshot, execution: Execution) -> bool:
        """Take over what an execution gave, if it is still valid where `entry` stands now."""
        if not self.confirm(snapshot, entry.position) or self._is_within_a_stretch(
            entry, execution
        ):
            return False
        self.changes += 1
        entry.phase = Phase.EXECUTED
        entry.reads, entry.picks = snapshot.initial | snapshot.reads, snapshot.picks
        entry.versions = {key: Version(entry, value) for key, value in execution.writes.items()}
        for key, amount in execution.adds.items():
            entry.versions[key] = Version(entry, amount, delta=True)
        self._register_reads(entry, snapshot.reads)
        if snapshot.ranges:
            entry.ranges = tuple(snapshot.ranges)
            for passed in entry.ranges:
                self._ranges.add(passed, entry)
        if snapshot.adds:
            entry.adds = tuple(snapshot.adds)
            for key in entry.adds:
                self._adders.setdefault(key, {})[entry] = None
        self._insert_versions(entry)
        if entry.hidden:
            self._doubt_hidden(entry)
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
        self.changes += 1
        if entry.phase is not Phase.EXECUTED:
            self.rename(entry, position)
            return
        places = {
            key: chain.index(version)
            for key, version in entry.versions.items()
            if isinstance(chain := self._chains[key], Chain)
        }
        entry.position = position
        self._disturb_readers(entry)
        fresh = self._fresh_readers(entry.versions, position)
        for key, (version, _) in entry.reads.items():
            if version is not None or key in self._chains:
                self._doubts.append((entry, key))
        for key in entry.versions:
            if key not in places or self._chain(key).reposition(places[key], self._doubts):
                self._doubt_readers_of_ground(key, position, fresh)
        if self._adders:
            for key in entry.versions:  # all in order again: who is withdrawn, leaves its chains
                self._withdraw_adders(key, position)
        self._resolve()

    def settle(self, entry: Entry) -> None:
        """The entry and all before it are committed and executed: nothing there can change."""
        assert entry.phase is Phase.EXECUTED
        self.changes += 1
        entry.phase = Phase.SETTLED
        if isinstance(entry, Stretch):
            self._stretches.remove(entry)
        chains, settled = self._chains, self._settled
        for key, version in entry.versions.items():
            found = chains.pop(key)
            if found is not version or version.delta:
                chains[key] = found
                chain = self._chain(key)
                chain.settle(version)
                if chain.is_bare:
                    del chains[key]
            if self._digest is not None:
                self._digest.replace(key, self._ground(key), version.value)
            if self._images:
                self._keep(key)
            settled[key] = version.value
            version.writer = None
            if version.readers is not None:
                self._take_over_readers(key, version)
            if version.value is ABSENT:
                self._drop_if_gone(key)
        self._forget(entry)

    def take_withdrawn(self) -> list[Entry]:
        """The entries that lost their validity since the last time, to be executed again."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn

    # --- stretches -------------------------------------------------------------------------------

    def merge(self, members: list[Entry]) -> Stretch:
        """Let one entry stand for these. All are executed and sure, and no other is among them."""
        self.changes += 1
        stretch = Stretch(members)
        stretch.phase = Phase.EXECUTED
        stretch.reads, stretch.picks, stretch.versions = {}, {}, {}
        inside = set(members)
        for entry in members:
            self._take_over_reads(entry, stretch, inside)
            stretch.versions.update(entry.versions)
        for key, version in stretch.versions.items():
            self._chain(key).merge(version, stretch, inside)
        adds = {key: None for entry in members for key in entry.adds}
        ranges = united(passed for entry in members for passed in entry.ranges)
        for key in adds:
            self._adders[key][stretch] = None
        for passed in ranges:
            self._ranges.add(passed, stretch)
        stretch.adds, stretch.ranges = tuple(adds), tuple(ranges)
        for entry in members:
            self._disturb_readers(entry)
            self._forget(entry)
            entry.phase = Phase.MERGED
            entry.stretch = stretch
        insort(self._stretches, stretch, key=_position)
        return stretch

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

    def _take_over_reads(self, entry: Entry, stretch: Stretch, inside: set[Entry]) -> None:
        for key, (version, value) in entry.reads.items():
            if version is not None and version.writer in inside:
                if not version.delta:
                    continue
                # A sum that stands on what came before the stretch, for all one knows.
                version, value = self.read_at(key, stretch.start)
            items = entry.picks.get(key)
            if key not in stretch.reads:
                self._note_read(stretch, key, version, value)
                if items is not None:
                    stretch.picks[key] = items
            elif key in stretch.picks:
                if items is None:
                    del stretch.picks[key]
                else:
                    stretch.picks[key] = united_items(stretch.picks[key], items)

    def _is_within_a_stretch(self, entry: Entry, execution: Execution) -> bool:
        """Did it read or write, in the midst of a stretch, what the stretch wrote? Additions change
        nothing for a stretch that only added as well, and did not look at the sum."""
        index = bisect_right(self._stretches, entry.position, key=_position)
        if index == len(self._stretches) or self._stretches[index].start > entry.position:
            return False
        stretch = self._stretches[index]
        touched = (*execution.seen.reads, *execution.writes)
        written = stretch.versions
        if not any(key in written for key in touched) and not any(
            key in written and (key in stretch.reads or not written[key].delta)
            for key in execution.adds
        ):
            return False
        self.take_apart(stretch)
        return True

    # --- as a whole ------------------------------------------------------------------------------

    def settled_items(self) -> Iterator[tuple[Key, Any]]:
        """The registers as the settled requests left them, in the order of their keys; with
        `ABSENT` for what was deleted."""
        for key in self._written():
            value = self._settled[key]
            if value is not _INITIAL and value is not self._base.read(key):
                yield key, value

    def image(self) -> SettledImage:
        """The registers as the settled requests left them, now: to be gone through in time."""
        assert self._keys is not None
        self._images = [each for each in self._images if not each.is_over]
        tidies = not self._images and len(self._keys.gone) > len(self._settled) // GONE_PART
        image = SettledImage(self._settled, self._keys, self._base, _INITIAL, tidies)
        self._images.append(image)
        return image

    def items(self) -> Iterator[tuple[Key, Any]]:
        """The registers as all executed requests left them, in no particular order; with `ABSENT`
        for what was deleted, and perhaps some that are as the base has them."""
        chains = self._chains
        for key, value in self._settled.items():
            if chains and key in chains:
                yield key, self.read_at(key, TAIL)[1]
            elif value is not _INITIAL:
                yield key, value

    def register_count(self) -> int:
        return len(self._settled)

    def load(self, state: tuple[tuple[Key, Any], ...]) -> None:
        """Start anew from a checkpoint's state: every entry of before is void."""
        self.changes += 1
        self._settled = dict(state)
        if self._keys is not None:
            self._keys = Keys(list(self._settled))
        self._images = []
        if self._digest is not None:
            self._digest.value = 0
            for key, value in state:
                self._digest.replace(key, self._base.read(key), value)
        self._chains = {}
        self._readers = {}
        self._fresh = {}
        self._adders = {}
        self._in_order, self._new_keys = None, {}
        self._ranges = Ranges()
        self._stretches = []
        self._unsure.clear()
        self._doubts = []
        self._withdrawn = []

    # --- inside -----------------------------------------------------------------------------------

    def _written(self) -> SortedKeyList[Key, Place]:
        if self._in_order is None:
            self._in_order = SortedKeyList(self._settled, key=place)
        elif self._new_keys:
            self._in_order.update(self._new_keys)
            self._new_keys = {}
        return self._in_order

    def _keep(self, key: Key) -> None:
        """It is about to be settled anew, and the images are to show what it holds."""
        if any(each.is_over for each in self._images):
            self._images = [each for each in self._images if not each.is_over]
        for image in self._images:
            image.keep(key, self._settled[key])

    def _ground(self, key: Key) -> Any:
        value = self._settled.get(key, _INITIAL)
        return self._base.read(key) if value is _INITIAL else value

    def _chain(self, key: Key) -> Chain:
        """The versions that are not settled, as a chain, also where there is only one."""
        found = self._chains[key]
        if isinstance(found, Chain):
            return found
        chain = self._chains[key] = Chain(key, self._ground(key))
        chain.insert(found, self._doubts)
        return chain

    def confirm(self, snapshot: Snapshot, position: Position) -> bool:
        """Would every read give the same again, here and now?"""
        if snapshot.changes == self.changes and snapshot._position == position:
            return True
        reads = snapshot.reads
        for key, (version, value) in reads.items():
            now_version, now = self.read_at(key, position)
            if now_version is not version or now is not value:
                if not looks_the_same(now, value, snapshot.picks.get(key)):
                    return False
                reads[key] = now_version, now
        for key in self.written_of(snapshot.initial):
            read = reads[key] = self.read_at(key, position)
            if not looks_the_same(read[1], snapshot.initial[key][1], snapshot.picks.get(key)):
                return False
        for passed in snapshot.ranges:
            for key in self.known_keys(passed.start, passed.stop, False):
                if key not in reads and key not in snapshot.initial:  # new since then
                    read = reads[key] = self.read_at(key, position)
                    if read[1] is not ABSENT:
                        return False
        return all(self.is_addable(key) for key in snapshot.adds)

    def _register_reads(self, entry: Entry, of_written: dict[Key, Read]) -> None:
        """`of_written`: its reads but for those of what nobody has written to."""
        for key, (version, _) in of_written.items():
            if version is None:
                continue
            if version.readers is None:
                version.readers = entry
            else:
                version.readers = joined(version.readers, entry, key, version)
        fresh = self._fresh
        fresh[entry] = set(entry.reads)
        if len(fresh) > self._fresh_max:
            self._note_reads_of_ground(next(iter(fresh)))

    def _note_reads_of_ground(self, entry: Entry) -> None:
        """It is not fresh any more."""
        del self._fresh[entry]
        of_ground = self._readers
        for key, (version, _) in entry.reads.items():
            if version is None:
                readers = of_ground.get(key)
                of_ground[key] = entry if readers is None else joined(readers, entry, key, None)

    def _note_read(self, entry: Entry, key: Key, version: Version | None, value: Any) -> None:
        entry.reads[key] = version, value
        if version is not None:
            version.readers = joined(version.readers, entry, key, version)
        elif entry in self._fresh:
            self._fresh[entry].add(key)
        else:
            self._readers[key] = joined(self._readers.get(key), entry, key, None)

    def _disturb_readers(self, entry: Entry) -> None:
        """It has moved, or has read nothing any more."""
        for key, (version, _) in entry.reads.items():
            disturb(self._readers.get(key) if version is None else version.readers)

    def _take_over_readers(self, key: Key, version: Version) -> None:
        """Its version is settled: who has read it has read the ground. Who had read what was the
        ground until now, is settled as well."""
        readers = readers_after(version.readers, key, version, ())
        for reader in readers:
            reader.reads[key] = None, version.value
        noted = [reader for reader in readers if reader not in self._fresh]
        if noted:
            self._readers[key] = noted[0] if len(noted) == 1 else Crowd(*noted)

    def _insert_versions(self, entry: Entry) -> None:
        chains, settled, of_ground = self._chains, self._settled, self._readers
        asked_for = self._in_order is not None or bool(self._ranges)
        fresh = self._fresh_readers(entry.versions, entry.position)
        for key, version in entry.versions.items():
            if chains.setdefault(key, version) is version:
                if key not in settled:
                    settled[key] = _INITIAL
                    if self._keys is not None:
                        self._keys.add(key)
                    if asked_for:
                        self._note_key(key)
                        fresh = self._fresh_readers(entry.versions, entry.position)
            elif not self._chain(key).insert(version, self._doubts):
                continue
            if fresh or (of_ground and key in of_ground):
                self._doubt_readers_of_ground(key, entry.position, fresh)
        if self._adders:
            for key in entry.versions:
                self._withdraw_adders(key, entry.position)

    def _note_key(self, key: Key) -> None:
        """Nobody has ever written to it until now."""
        if self._in_order is not None:
            self._new_keys[key] = None
        if self._ranges:
            self._doubt_scans(key)

    def _withdraw_adders(self, key: Key, position: Position) -> None:
        """Who added blindly to what may be no integer, or too large a one, has to look."""
        adders = self._adders.get(key)
        if adders and not self.is_addable(key):
            for adder in [each for each in adders if each.position > position]:
                self._withdraw(adder)

    def _fresh_readers(self, written: dict[Key, Version], position: Position) -> list[Entry]:
        """The fresh ones after `position` that have read any of these registers."""
        keys = set(written)  # two sets are compared faster than anything else
        return [
            reader
            for reader, read in self._fresh.items()
            if reader.position > position and not keys.isdisjoint(read)
        ]

    def _doubt_readers_of_ground(self, key: Key, position: Position, fresh: list[Entry]) -> None:
        """Something stands right on the ground now, at `position`. `fresh`: which of the fresh ones
        may have read it."""
        readers = readers_after(self._readers.get(key), key, None, position)
        asked = [reader for reader in fresh if reads_version(reader, key, None)]
        if asked:
            readers = sorted({*readers, *asked}, key=_position)
        for reader in readers:
            self._doubts.append((reader, key))

    def _doubt_scans(self, key: Key) -> None:
        for reader in self._ranges.readers(place(key)):
            if key not in reader.reads:
                # It passed where the key was not: that is a read of its absence.
                self._note_read(reader, key, None, self._ground(key))
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
            read = entry.reads.get(key) if entry.phase is Phase.EXECUTED else None
            if read is None or _may_come_back(read[0], key, entry):
                continue
            version, value = self.read_at(key, entry.position)
            if version is read[0] and value is read[1]:
                continue
            if looks_the_same(value, read[1], entry.picks.get(key)) and not _is_inside(
                version, entry
            ):
                disturb(self._readers.get(key) if read[0] is None else read[0].readers)
                self._note_read(entry, key, version, value)
            else:
                self._withdraw(entry)

    def _withdraw(self, entry: Entry) -> None:
        """Hide what the entry wrote: it has to be executed again."""
        if entry.phase is not Phase.EXECUTED:
            return
        self.changes += 1
        entry.phase = Phase.WAITING
        if isinstance(entry, Stretch):
            self._stretches.remove(entry)
        hidden: dict[Key, Version] = {}
        for key, version in entry.versions.items():
            chain = self._chain(key)
            if chain.remove(version, self._doubts):
                hidden[key] = version
            if chain.is_bare:
                del self._chains[key]
                self._drop_if_gone(key)
        if hidden:
            entry.hidden = hidden
            self._unsure.add(entry.position)
        self._disturb_readers(entry)
        self._forget(entry)
        self._withdrawn.append(entry)

    def _forget(self, entry: Entry) -> None:
        """What it read and wrote is no longer its own."""
        for passed in entry.ranges:
            self._ranges.remove(passed)
        for key in entry.adds:
            adders = self._adders[key]
            adders.pop(entry, None)
            if not adders:
                del self._adders[key]
        reads, of_ground = entry.reads, self._readers
        entry.forget()
        if entry in self._fresh:
            del self._fresh[entry]
            return
        for key, (version, _) in reads.items():
            if version is None:
                readers = of_ground.get(key)
                if readers is entry or (isinstance(readers, Crowd) and readers.is_left()):
                    del of_ground[key]

    def _drop_if_gone(self, key: Key) -> None:
        """A register that holds nothing, and is not to hold anything, need not be remembered."""
        if key not in self._chains and self._ground(key) is self._base.read(key) is ABSENT:
            del self._settled[key]
            if self._keys is not None:
                self._keys.drop(key)
            if key in self._new_keys:
                del self._new_keys[key]
            elif self._in_order is not None:
                self._in_order.discard(key)


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


def _position(entry: Entry) -> Position:
    return entry.position
