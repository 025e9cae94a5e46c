"""The version store (Section 4.4): every executed request's writes, side by side.

An operation runs on a `Snapshot`: the state as all requests before it left it. What it read is
kept. At all times every request that counts as executed is *valid*: each of its reads would give
the same value again. A change, be it a new version, a rollback or a move, is followed to exactly
those later requests whose reads it may have changed; one that would read something else is
*withdrawn*: its versions go, and their readers are looked at in turn. One that would read an equal
value is kept.

A scan reads every key it passes, present or not, and the range itself: a key that is new to the
store is a change for every later request that scanned past it (no phantoms).

The store knows positions, not lists: what is committed and what runs next is decided elsewhere.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec
from sortedcontainers import SortedKeyList

from creek.execution.chains import (
    TAIL,
    Chain,
    Doubts,
    Entry,
    Phase,
    Position,
    Range,
    Read,
    Version,
)
from creek.execution.keys import Place, place
from creek.execution.transaction import ABSENT, Execution
from creek.protocol.values import Key


class Base(Protocol):
    """Initial data below all versions. Pure: the same answer each time, everywhere."""

    def read(self, key: Key) -> Any:
        """The value under `key`, or `ABSENT`."""

    def keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]: ...


class Nothing:
    """No initial data."""

    def read(self, key: Key) -> Any:
        return ABSENT

    def keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        return iter(())


class Snapshot:
    """What one execution sees, and a record of what it looked at. A `View`."""

    __slots__ = ("_position", "_store", "adds", "ranges", "reads")

    def __init__(self, store: "VersionStore", position: Position) -> None:
        self._store = store
        self._position = position
        self.reads: dict[Key, Read] = {}
        self.ranges: list[Range] = []
        self.adds: dict[Key, None] = {}

    def read(self, key: Key) -> Any:
        known = self.reads.get(key)
        if known is not None:
            return known[1]
        read = self.reads[key] = self._store.read_at(key, self._position)
        return read[1]

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

    def addable(self, key: Key) -> bool:
        if not self._store.is_addable(key):
            return False
        self.adds[key] = None
        return True


class VersionStore:
    def __init__(self, base: Base | None = None) -> None:
        self._base = base or Nothing()
        self._chains: dict[Key, Chain] = {}
        self._written: SortedKeyList[Key, Place] = SortedKeyList(key=place)
        """The keys of chains that hold more than their base, or a base of their own."""
        self._ranges: dict[Place, dict[Range, None]] = {}
        """What executed scans went through, by what the ends of each have in common."""
        self._doubts: Doubts = []
        self._withdrawn: list[Entry] = []

    # --- reading ---------------------------------------------------------------------------------

    def snapshot(self, position: Position) -> Snapshot:
        return Snapshot(self, position)

    def read_at(self, key: Key, position: Position) -> Read:
        chain = self._chains.get(key)
        if chain is None:
            return None, self._base.read(key)
        return chain.at(position)

    def known_keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        """Every key that holds, or ever held, something in this range."""
        written = self._written.irange_key(start, stop, inclusive=(True, False), reverse=reverse)
        return _merged(written, self._base.keys(start, stop, reverse), reverse)

    def is_addable(self, key: Key) -> bool:
        return self._open(key).regular

    # --- changing --------------------------------------------------------------------------------

    def install(self, entry: Entry, snapshot: Snapshot, execution: Execution) -> bool:
        """Take over what an execution gave, if it is still valid where `entry` stands now."""
        if not self._confirm(entry, snapshot):
            return False
        entry.phase = Phase.EXECUTED
        entry.reads = snapshot.reads
        for key, (read, _) in entry.reads.items():
            version = read
            if version is None:
                version, value = self._open(key).at(entry.position)
                entry.reads[key] = version, value
            version.register(key, entry)
        entry.ranges = tuple(snapshot.ranges)
        for passed in entry.ranges:
            passed.reader = entry
            self._ranges.setdefault(_common(passed), {})[passed] = None
        if execution.outcome.error is not None or snapshot.adds:
            entry.adds = tuple(snapshot.adds)
            for key in entry.adds:
                self._open(key).adders[entry] = None
        for key, value in execution.writes.items():
            self._write(entry, key, Version(entry, value))
        for key, amount in execution.adds.items():
            self._write(entry, key, Version(entry, amount, delta=True))
        self._resolve()
        return True

    def move(self, entry: Entry, position: Position) -> None:
        """The entry now stands at an earlier position, before others that it used to follow."""
        assert position < entry.position
        if entry.phase is not Phase.EXECUTED:
            entry.position = position
            return
        chains = [(self._chains[key], version) for key, version in entry.versions.items()]
        places = [chain.index(version) for chain, version in chains]
        entry.position = position
        for key, (version, _) in entry.reads.items():
            if version is not None:
                version.disturb()
            self._doubts.append((entry, key))
        for (chain, _), index in zip(chains, places, strict=True):
            chain.reposition(index, self._doubts)
            self._withdraw_adders(chain, position)
        self._resolve()

    def settle(self, entry: Entry) -> None:
        """The entry and all before it are committed and executed: nothing there can change."""
        assert entry.phase is Phase.EXECUTED
        entry.phase = Phase.SETTLED
        for key, version in entry.versions.items():
            self._chains[key].settle(version)
        touched = (
            *entry.versions,
            *(key for key, read in entry.reads.items() if read[1] is ABSENT),
        )
        self._forget(entry)
        for key in touched:
            self._close_if_gone(key)

    def take_withdrawn(self) -> list[Entry]:
        """The entries that lost their validity since the last time, to be executed again."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn

    # --- as a whole ------------------------------------------------------------------------------

    def settled_items(self) -> Iterator[tuple[Key, Any]]:
        """The registers as the settled requests left them, in the order of their keys."""
        for key in self._written:
            value = self._chains[key].versions[0].value
            if value is not ABSENT:
                yield key, value

    def items(self) -> Iterator[tuple[Key, Any]]:
        """The registers as all executed requests left them."""
        for key in self._written:
            _, value = self._chains[key].at(TAIL)
            if value is not ABSENT:
                yield key, value

    def register_count(self) -> int:
        return len(self._written)

    def load(self, state: tuple[tuple[Key, Any], ...]) -> None:
        """Start anew from a checkpoint's state: every entry of before is void."""
        self._chains = {key: Chain(key, value) for key, value in state}
        self._written = SortedKeyList(self._chains, key=place)
        self._ranges = {}
        self._doubts = []
        self._withdrawn = []

    # --- inside -----------------------------------------------------------------------------------

    def _open(self, key: Key) -> Chain:
        chain = self._chains.get(key)
        if chain is None:
            chain = self._chains[key] = Chain(key, self._base.read(key))
        return chain

    def _confirm(self, entry: Entry, snapshot: Snapshot) -> bool:
        """Would every read give the same again, where the entry stands now?"""
        position = entry.position
        reads = snapshot.reads
        for key, (version, value) in reads.items():
            now_version, now = self.read_at(key, position)
            if now_version is not version or now is not value:
                if not same(now, value):
                    return False
                reads[key] = now_version, now
        for passed in snapshot.ranges:
            for key in self.known_keys(passed.start, passed.stop, False):
                if key not in reads:  # new since then
                    read = reads[key] = self.read_at(key, position)
                    if read[1] is not ABSENT:
                        return False
        return all(self.is_addable(key) for key in snapshot.adds)

    def _write(self, entry: Entry, key: Key, version: Version) -> None:
        chain = self._open(key)
        is_new = len(chain.versions) == 1 and key not in self._written
        entry.versions[key] = version
        chain.insert(version, self._doubts)
        if is_new:
            self._written.add(key)
            self._doubt_scans(key)
        self._withdraw_adders(chain, entry.position)

    def _withdraw_adders(self, chain: Chain, position: Position) -> None:
        """Who added blindly to what may be no integer, or too large a one, has to look."""
        if chain.adders and not chain.regular:
            for adder in [each for each in chain.adders if each.position > position]:
                self._withdraw(adder)

    def _doubt_scans(self, key: Key) -> None:
        here = place(key)
        for length in range(len(here) + 1):
            for passed in self._ranges.get(here[:length], ()):
                if passed.start <= here < passed.stop and passed.reader is not None:
                    reader = passed.reader
                    if key not in reader.reads:
                        # It passed where the key was not: that is a read of its absence.
                        base = self._chains[key].versions[0]
                        reader.reads[key] = base, base.value
                        base.register(key, reader)
                    self._doubts.append((reader, key))

    def _resolve(self) -> None:
        doubts = self._doubts
        while doubts:
            entry, key = doubts.pop()
            read = entry.reads.get(key) if entry.phase is Phase.EXECUTED else None
            if read is None:
                continue
            version, value = self._chains[key].at(entry.position)
            if version is read[0] and value is read[1]:
                continue
            if same(value, read[1]):
                if read[0] is not None:
                    read[0].disturb()
                entry.reads[key] = version, value
                version.register(key, entry)
            else:
                self._withdraw(entry)

    def _withdraw(self, entry: Entry) -> None:
        """Hide what the entry wrote: it has to be executed again."""
        if entry.phase is not Phase.EXECUTED:
            return
        entry.phase = Phase.WAITING
        for key, version in entry.versions.items():
            self._chains[key].remove(version, self._doubts)
        for read, _ in entry.reads.values():
            if read is not None:
                read.disturb()
        self._forget(entry)
        self._withdrawn.append(entry)

    def _forget(self, entry: Entry) -> None:
        for passed in entry.ranges:
            common = _common(passed)
            passes = self._ranges[common]
            del passes[passed]
            if not passes:
                del self._ranges[common]
        for key in entry.adds:
            self._chains[key].adders.pop(entry, None)
        entry.reads, entry.versions = {}, {}
        entry.ranges, entry.adds = (), ()

    def _close_if_gone(self, key: Key) -> None:
        """A register that holds nothing, and that nobody has looked at, need not be remembered."""
        chain = self._chains.get(key)
        if chain is None or len(chain.versions) > 1 or chain.versions[0].value is not ABSENT:
            return
        if chain.adders or chain.versions[0].readers_after(key, ()):
            return
        if self._base.read(key) is ABSENT:
            del self._chains[key]
            self._written.discard(key)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down: True is not 1."""
    if left is right:
        return True
    if type(left) is not type(right) or left != right:
        return False
    if type(left) in (int, str, bool, bytes):
        return True
    return msgspec.msgpack.encode(left) == msgspec.msgpack.encode(right)


def _common(passed: Range) -> Place:
    """What every key inside the range starts with."""
    length = 0
    for left, right in zip(passed.start, passed.stop, strict=False):
        if left != right:
            break
        length += 1
    return passed.start[:length]


def _merged(left: Iterator[Key], right: Iterator[Key], reverse: bool) -> Iterator[Key]:
    """Two ordered sequences of keys as one, without repetition."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        if one == other:
            yield one
            one, other = next(left, None), next(right, None)
        elif (place(one) > place(other)) == reverse:
            yield one
            one = next(left, None)
        else:
            yield other
            other = next(right, None)
    if one is not None:
        yield one
        yield from left
    if other is not None:
        yield other
        yield from right
