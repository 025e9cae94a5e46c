"""Registers that were ever written: stable values, and versions above them.

Most registers hold initial data, or the value that stable requests left. The table keeps only the
value of the latter, and nothing of the former. A register has versions only while one of them may
still change. All data of a register is stored under its key, in one dict.

The table also records the registers of the last changes. A snapshot taken shortly before then need
not read everything again. The table neither records reads nor decides on rollbacks.

A `CheckpointCursor` traverses the stable state of one moment, a few registers at a time, while
requests continue to become stable. When a register changes, the table passes the previous value to
each open cursor, which preserves it. Opening a cursor costs nothing, however large the state is.
Each change during the traversal costs one entry in a dict.

A dict that changes cannot be traversed in parts. The keys are therefore also kept in a list that
only grows. Cursors compact the list by dropping removed keys.
"""

from collections.abc import Iterator
from typing import Any, Final

from creekdb.execution.base_state import BaseState
from creekdb.execution.keys import CollationKey, SortedKeys, merge_sorted_keys
from creekdb.execution.mvcc.entry import END_POSITION, Position, Read, Version
from creekdb.execution.mvcc.state_loader import StateDigest, StateLoader
from creekdb.execution.mvcc.version_chain import FROM_BASE, VersionChain, is_addable, stable_part
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key


class KeyList:
    """Keys of the registers, each once, in a list that only grows."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys = keys
        self.removed: set[Key] = set()
        """Keys in the list that no longer have a register."""

    def add(self, key: Key) -> None:
        if key in self.removed:
            self.removed.discard(key)
        else:
            self.keys.append(key)


class CheckpointCursor:
    """Traversal of the stable values of `registers` at one moment.

    With `compacts_keys`, the end of the traversal replaces the key list by one without removed
    keys. Only one cursor at a time may do that.
    """

    def __init__(
        self, registers: dict[Key, Any], key_list: KeyList, base: BaseState, compacts_keys: bool
    ) -> None:
        self._registers = registers
        self._key_list = key_list
        self._listed_keys = key_list.keys
        self._base = base
        self._compacts_keys = compacts_keys
        self._next_index = 0
        self.count = len(self._listed_keys)
        self.preserved: dict[Key, Any] = {}
        """Previous values of registers that changed since the cursor was opened."""
        self._present_keys: list[Key] = []
        self._absent_keys: list[Key] = []
        """Keys that had no register when the cursor reached them."""
        self.is_closed = False

    def take(self, count: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        """Return the next `count` registers: items that differ from the base, and deleted keys.

        Deleted keys are those that only the base holds. Return None at the end.
        """
        if self._next_index == self.count:
            self._compact_keys()
            self.close()
        if self.is_closed:
            return None
        registers, preserved, base = self._registers, self.preserved, self._base
        items: list[tuple[Key, Any]] = []
        deleted: list[Key] = []
        batch = self._listed_keys[self._next_index : min(self._next_index + count, self.count)]
        self._next_index += len(batch)
        for key in batch:
            value = stable_part(registers.get(key, FROM_BASE))
            if self._compacts_keys:
                (self._present_keys if key in registers else self._absent_keys).append(key)
            value = preserved.get(key, value)
            if value is FROM_BASE or value is base.read(key):
                continue
            if value is ABSENT:
                deleted.append(key)
            else:
                items.append((key, value))
        return items, deleted

    def close(self) -> None:
        """End the traversal and release its memory."""
        self.is_closed = True
        self.preserved, self._present_keys, self._absent_keys = {}, [], []

    def _compact_keys(self) -> None:
        key_list, present_keys = self._key_list, self._present_keys
        if not self._compacts_keys or self.is_closed:
            return
        for key in self._absent_keys:
            if key in key_list.removed:
                key_list.removed.discard(key)
            else:
                present_keys.append(key)  # added again
        present_keys += self._listed_keys[self.count :]
        key_list.keys = present_keys


REMOVED_FRACTION: Final = 4
"""Divisor of the number of registers. The key list is compacted if more keys were removed than the
quotient."""

RECENT_CHANGES_MIN: Final = 32
"""Minimum number of recent changes that the table records."""


class RegisterTable:
    """Contents of all registers, and the log of their recent changes."""

    def __init__(self, base: BaseState, digest: StateDigest | None, with_cursors: bool) -> None:
        self.base = base
        self.registers: dict[Key, Any] = {}
        """Content by register: the stable value, `FROM_BASE` if no version is stable, or a
        `VersionChain`. An only version is stored without a chain."""
        self.change_count = 0
        """Number of changes that may affect a snapshot."""
        self._recent_changes: list[set[Key] | tuple[Key, ...]] = []
        """Registers of the last changes, converted to sets when they are first needed."""
        self._recent_changes_start = 0
        """Number of the first of these changes."""
        self._digest = digest
        self._key_list = KeyList([]) if with_cursors else None
        self._cursors: list[CheckpointCursor] = []
        """Cursors that may still be open."""
        self._sorted_keys = SortedKeys() if with_cursors else None
        """Keys of the registers. None if sorting them may be deferred to the first scan."""

    # --- reading ---------------------------------------------------------------------------------

    def read_at(self, key: Key, position: Position) -> Read:
        """Return the version and value that a request at `position` reads."""
        content = self.registers.get(key, FROM_BASE)
        if isinstance(content, Version):
            writer = content.writer
            if not content.is_delta and writer is not None:
                if writer.position < position:
                    return content, content.value  # the usual case
                content = content.stable_value
            else:
                return self.chain(key).read_at(position)
        elif isinstance(content, VersionChain):
            last = content.versions[-1]
            writer = last.writer
            if writer is not None and writer.position < position and not last.is_delta:
                return last, last.value
            return content.read_at(position)
        return None, self.base.read(key) if content is FROM_BASE else content

    def stable_value(self, key: Key) -> Any:
        """Return the value that stable requests left, or that of the base."""
        content = stable_part(self.registers.get(key, FROM_BASE))
        return self.base.read(key) if content is FROM_BASE else content

    def has_versions(self, key: Key) -> bool:
        content = self.registers.get(key)
        return isinstance(content, Version) or isinstance(content, VersionChain)  # noqa: SIM101 - compiled

    def written_keys(self, reads: dict[Key, Read]) -> list[Key]:
        """Return the registers that were ever written, in the order of the reads."""
        registers = self.registers
        if registers.keys().isdisjoint(reads):
            return []  # the usual case, and fast
        return [key for key in reads if key in registers]

    def known_keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """Return the keys in the range that hold, or ever held, a value."""
        written = self._written_keys().between(start, stop, reverse)
        return merge_sorted_keys(written, self.base.keys(start, stop, reverse), reverse)

    def is_addable(self, key: Key) -> bool:
        if self.has_versions(key):
            return self.chain(key).is_addable
        return is_addable(self.stable_value(key))

    # --- changing --------------------------------------------------------------------------------

    def record_change(self, keys: dict[Key, Version]) -> None:
        """Record a change of these registers."""
        self.change_count += 1
        changed = self._recent_changes
        changed.append(tuple(keys))  # without the versions, which would otherwise stay in memory
        if len(changed) == 2 * RECENT_CHANGES_MIN:
            del changed[:RECENT_CHANGES_MIN]
            self._recent_changes_start += RECENT_CHANGES_MIN

    def record_full_change(self) -> None:
        """Record a change that may affect every register."""
        self.change_count += 1
        self._recent_changes = []
        self._recent_changes_start = self.change_count

    def changed_since(self, change_count: int) -> list[set[Key]] | None:
        """Return the registers of the changes after the first `change_count`.

        Return None if these changes are no longer recorded.
        """
        first = change_count - self._recent_changes_start
        if first < 0:
            return None
        since: list[set[Key]] = []
        for index in range(first, len(self._recent_changes)):
            keys = self._recent_changes[index]
            if not isinstance(keys, set):
                keys = self._recent_changes[index] = set(keys)  # a set compares fastest
            since.append(keys)
        return since

    def add_key(self, key: Key) -> None:
        """Add a key that was never written before."""
        if self._key_list is not None:
            self._key_list.add(key)
        if self._sorted_keys is not None:
            self._sorted_keys.add(key)

    def chain(self, key: Key) -> VersionChain:
        """Return the versions that are not stable as a chain, even if there is only one."""
        content = self.registers[key]
        if isinstance(content, VersionChain):
            return content
        assert isinstance(content, Version)
        on_base = content.stable_value is FROM_BASE
        chain = VersionChain(key, self.base.read(key) if on_base else content.stable_value)
        chain.is_on_base = on_base
        chain.insert(content, [])
        self.registers[key] = chain
        content.stable_value = None
        return chain

    def stabilise(self, key: Key, version: Version) -> None:
        """Make a version stable: no request can precede it any more."""
        content = self.registers[key]
        if content is version and not version.is_delta:
            old = version.stable_value
            self.registers[key] = version.value
        else:
            old = stable_part(content)
            chain = self.chain(key)
            chain.stabilise(version)
            if chain.is_empty:
                self.registers[key] = version.value
        if self._digest is not None:
            replaced = self.base.read(key) if old is FROM_BASE else old
            self._digest.replace(key, replaced, version.value)
        if self._cursors:
            self._preserve(key, old)

    def remove_chain(self, key: Key, chain: VersionChain) -> None:
        """Replace a chain without versions by its stable value."""
        self.registers[key] = FROM_BASE if chain.is_on_base else chain.stable_value
        self.drop_if_absent(key)

    def drop_if_absent(self, key: Key) -> None:
        """Drop a register that holds no value, unless the base has one."""
        content = self.registers[key]
        if content is not ABSENT and content is not FROM_BASE:
            return
        if self.base.read(key) is ABSENT:
            del self.registers[key]
            if self._key_list is not None:
                self._key_list.removed.add(key)
            if self._sorted_keys is not None:
                self._sorted_keys.remove(key)

    def load(self, loader: StateLoader) -> None:
        """Install a loaded state.

        The loader receives the replaced state, unless a cursor still traverses it.
        """
        self.record_full_change()
        registers, key_list, sorted_keys = self.registers, self._key_list, self._sorted_keys
        self.registers, self._sorted_keys = loader.registers, loader.sorted_keys
        if key_list is not None:
            self._key_list = KeyList(loader.keys)
        if self._digest is not None:
            assert loader.digest is not None
            self._digest.value = loader.digest.value
        if all(each.is_closed for each in self._cursors):
            loader.adopt_replaced(registers, [] if key_list is None else key_list.keys, sorted_keys)
        else:
            loader.adopt_replaced({}, [], sorted_keys)
        self._cursors = []

    # --- whole state -----------------------------------------------------------------------------

    def stable_items(self) -> Iterator[tuple[Key, Any]]:
        """Yield the registers of the stable state in key order, with `ABSENT` for deleted ones."""
        for key in self._written_keys():
            value = stable_part(self.registers[key])
            if value is not FROM_BASE and value is not self.base.read(key):
                yield key, value

    def values(self) -> dict[Key, Any]:
        """Return the registers after all executed requests, with `ABSENT` for deleted ones.

        The result may include registers that are equal to the base.
        """
        return {key: self.read_at(key, END_POSITION)[1] for key in self.registers}

    def open_cursor(self) -> CheckpointCursor:
        """Return a cursor over the current stable state."""
        assert self._key_list is not None
        self._cursors = [each for each in self._cursors if not each.is_closed]
        compacts_keys = (
            not self._cursors
            and len(self._key_list.removed) > len(self.registers) // REMOVED_FRACTION
        )
        cursor = CheckpointCursor(self.registers, self._key_list, self.base, compacts_keys)
        self._cursors.append(cursor)
        return cursor

    @property
    def key_list(self) -> KeyList:
        assert self._key_list is not None
        return self._key_list

    def add_cursor(self, cursor: CheckpointCursor) -> None:
        """Preserve previous values for a cursor that `open_cursor` did not create."""
        self._cursors.append(cursor)

    def _written_keys(self) -> SortedKeys:
        if self._sorted_keys is None:
            self._sorted_keys = SortedKeys(self.registers)
        return self._sorted_keys

    def _preserve(self, key: Key, old: Any) -> None:
        """Pass the previous value of a register to the open cursors."""
        if any(each.is_closed for each in self._cursors):
            self._cursors = [each for each in self._cursors if not each.is_closed]
        for cursor in self._cursors:
            cursor.preserved.setdefault(key, old)
