"""The settled state as it was at one moment, gone through a few registers at a time.

Meanwhile requests go on being settled. So whoever changes a register says before what it held, and
the image, which may not have come to it yet, remembers that. Taking an image costs nothing, however
large the state is; what is settled while it is gone through costs a place to remember it.

A dictionary that changes cannot be gone through in parts. The keys can, since they also stand in a
list that only grows; the images themselves rid it of those that are gone.

What the registers hold that were ever written to: settled values, and versions above them.

Most registers hold what they held in the beginning, or what settled requests left in them: of these
nothing is kept but the value. A register has versions only as long as one of them may still change.
All of it is found under the key at once, in one place.

It is also remembered which registers were changed last, so that whoever has read something a moment
ago need not look at all of it again.

This module does not know who has read what, and decides nothing.
"""

from collections.abc import Iterator
from typing import Any, Final

from creekdb.execution.base_state import BaseState, merge_sorted_keys
from creekdb.execution.keys import CollationKey, SortedKeys
from creekdb.execution.mvcc.entry import END_POSITION, Position, Read, Version
from creekdb.execution.mvcc.state_loader import StateDigest, StateLoader
from creekdb.execution.mvcc.version_chain import FROM_BASE, VersionChain, is_addable, stable_part
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key


class KeyList:
    """The registers of a state, each once, in a list that only grows."""

    __slots__ = ("keys", "removed")

    def __init__(self, keys: list[Key]) -> None:
        self.keys = keys
        self.removed: set[Key] = set()
        """Those on the list that the state does not have any more."""

    def add(self, key: Key) -> None:
        if key in self.removed:
            self.removed.discard(key)
        else:
            self.keys.append(key)

    def remove(self, key: Key) -> None:
        self.removed.add(key)


class CheckpointCursor:
    """Of what `held` holds below all versions. `tidies`: in the end the list of keys is replaced by
    one without those that are gone; only one image at a time may do that."""

    __slots__ = (
        "_absent_keys",
        "_base",
        "_compacts_keys",
        "_end",
        "_key_list",
        "_listed_keys",
        "_next_index",
        "_present_keys",
        "_preserved",
        "_registers",
        "is_closed",
    )

    def __init__(self, held: dict[Key, Any], keys: KeyList, base: BaseState, tidies: bool) -> None:
        self._registers = held
        self._key_list = keys
        self._listed_keys = keys.keys
        self._base = base
        self._compacts_keys = tidies
        self._next_index = 0
        self._end = len(self._listed_keys)
        self._preserved: dict[Key, Any] = {}
        self._present_keys: list[Key] = []
        self._absent_keys: list[Key] = []
        """Those that the state did not have when they were come to."""
        self.is_closed = False

    @property
    def count(self) -> int:
        return self._end

    def preserve(self, key: Key, value: Any) -> None:
        """The register is about to change, and held this."""
        self._preserved.setdefault(key, value)

    def take(self, most: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        """Of the next so many registers those that differ from the base, and those that hold
        nothing where the base has something; None when there are no more."""
        if self._next_index == self._end:
            self._compact_keys()
            self.close()
        if self.is_closed:
            return None
        registers, before, base = self._registers, self._preserved, self._base
        held: list[tuple[Key, Any]] = []
        deleted: list[Key] = []
        some = self._listed_keys[self._next_index : min(self._next_index + most, self._end)]
        self._next_index += len(some)
        for key in some:
            value = stable_part(registers.get(key, FROM_BASE))
            if self._compacts_keys:
                (self._present_keys if key in registers else self._absent_keys).append(key)
            value = before.get(key, value)
            if value is FROM_BASE or value is base.read(key):
                continue
            if value is ABSENT:
                deleted.append(key)
            else:
                held.append((key, value))
        return held, deleted

    def close(self) -> None:
        """Nobody goes on with it."""
        self.is_closed = True
        self._preserved, self._present_keys, self._absent_keys = {}, [], []

    def _compact_keys(self) -> None:
        keys, alive = self._key_list, self._present_keys
        if not self._compacts_keys or self.is_closed:
            return
        for key in self._absent_keys:
            if key in keys.removed:
                keys.removed.discard(key)
            else:
                alive.append(key)  # it is back
        alive += self._listed_keys[self._end :]
        keys.keys = alive


REMOVED_FRACTION: Final = 4
"""The list of keys is tidied when those that are gone are such a part of the others, or more."""

RECENT_CHANGES_MIN: Final = 32
"""How many of the last changes are remembered, at least."""


class RegisterTable:
    __slots__ = (
        "_cursors",
        "_digest",
        "_key_list",
        "_recent_changes",
        "_recent_changes_start",
        "_sorted_keys",
        "base",
        "change_count",
        "registers",
    )

    def __init__(self, base: BaseState, digest: StateDigest | None, images: bool) -> None:
        self.base = base
        self.registers: dict[Key, Any] = {}
        """By register, what settled requests left in it, `INITIAL` if there were none; or its
        `Chain` of versions. A version that is the only one stands for itself."""
        self.change_count = 0
        """Grows with whatever may change what a snapshot shows."""
        self._recent_changes: list[set[Key] | tuple[Key, ...]] = []
        """The registers that the last changes touched: as sets, once somebody looked."""
        self._recent_changes_start = 0
        """The number of the first of these changes."""
        self._digest = digest
        self._key_list = KeyList([]) if images else None
        self._cursors: list[CheckpointCursor] = []
        """Those that may not be over."""
        self._sorted_keys = SortedKeys() if images else None
        """The registers; unless it is allowed to take long when somebody first asks for them."""

    # --- reading ---------------------------------------------------------------------------------

    def read_at(self, key: Key, position: Position) -> Read:
        """What a request at `position` reads."""
        found = self.registers.get(key, FROM_BASE)
        if isinstance(found, Version):
            writer = found.writer
            if not found.is_delta and writer is not None:
                if writer.position < position:
                    return found, found.value  # as mostly
                found = found.stable_value
            else:
                return self.chain(key).read_at(position)
        elif isinstance(found, VersionChain):
            last = found.versions[-1]
            writer = last.writer
            if writer is not None and writer.position < position and not last.is_delta:
                return last, last.value
            return found.read_at(position)
        return None, self.base.read(key) if found is FROM_BASE else found

    def stable_value(self, key: Key) -> Any:
        """What settled requests left, or the base holds."""
        found = stable_part(self.registers.get(key, FROM_BASE))
        return self.base.read(key) if found is FROM_BASE else found

    def has_versions(self, key: Key) -> bool:
        found = self.registers.get(key)
        return isinstance(found, Version) or isinstance(found, VersionChain)  # noqa: SIM101 - compiled

    def written_keys(self, reads: dict[Key, Read]) -> list[Key]:
        """Those of the registers that somebody has written to, in the order of the reads."""
        held = self.registers
        if held.keys().isdisjoint(reads):
            return []  # as mostly, and quickly told
        return [key for key in reads if key in held]

    def known_keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """Every key that holds, or ever held, something in this range."""
        written = self._written_keys().between(start, stop, reverse)
        return merge_sorted_keys(written, self.base.keys(start, stop, reverse), reverse)

    def is_addable(self, key: Key) -> bool:
        if self.has_versions(key):
            return self.chain(key).is_addable
        return is_addable(self.stable_value(key))

    # --- changing --------------------------------------------------------------------------------

    def record_change(self, keys: dict[Key, Version]) -> None:
        """What these registers hold is changed now."""
        self.change_count += 1
        changed = self._recent_changes
        changed.append(tuple(keys))  # not the versions: nobody knows how long these would stay
        if len(changed) == 2 * RECENT_CHANGES_MIN:
            del changed[:RECENT_CHANGES_MIN]
            self._recent_changes_start += RECENT_CHANGES_MIN

    def record_full_change(self) -> None:
        """Anything may be changed now."""
        self.change_count += 1
        self._recent_changes = []
        self._recent_changes_start = self.change_count

    def changed_since(self, changes: int) -> list[set[Key]] | None:
        """The registers that were changed since there were so many changes; None if that was too
        long ago."""
        begin = changes - self._recent_changes_start
        if begin < 0:
            return None
        since: list[set[Key]] = []
        for index in range(begin, len(self._recent_changes)):
            keys = self._recent_changes[index]
            if not isinstance(keys, set):
                keys = self._recent_changes[index] = set(keys)  # compared faster than anything else
            since.append(keys)
        return since

    def add_key(self, key: Key) -> None:
        """Nobody had ever written to it until now."""
        if self._key_list is not None:
            self._key_list.add(key)
        if self._sorted_keys is not None:
            self._sorted_keys.add(key)

    def chain(self, key: Key) -> VersionChain:
        """The versions that are not settled, as a chain, also where there is only one."""
        found = self.registers[key]
        if isinstance(found, VersionChain):
            return found
        assert isinstance(found, Version)
        on_base = found.stable_value is FROM_BASE
        chain = VersionChain(key, self.base.read(key) if on_base else found.stable_value)
        chain.is_on_base = on_base
        chain.insert(found, [])
        self.registers[key] = chain
        found.stable_value = None
        return chain

    def stabilise(self, key: Key, version: Version) -> None:
        """What stands before the version cannot change any more."""
        found = self.registers[key]
        if found is version and not version.is_delta:
            old = version.stable_value
            self.registers[key] = version.value
        else:
            old = stable_part(found)
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
        """There is no version in the chain any more."""
        self.registers[key] = FROM_BASE if chain.is_on_base else chain.stable_value
        self.drop_if_absent(key)

    def drop_if_absent(self, key: Key) -> None:
        """A register that holds nothing, and is not to hold anything, need not be remembered."""
        found = self.registers[key]
        if found is not ABSENT and found is not FROM_BASE:
            return
        if self.base.read(key) is ABSENT:
            del self.registers[key]
            if self._key_list is not None:
                self._key_list.remove(key)
            if self._sorted_keys is not None:
                self._sorted_keys.remove(key)

    def load(self, arrived: StateLoader) -> None:
        """Start anew from what has arrived; what was here before is left there, unless an image of
        it is still gone through."""
        self.record_full_change()
        held, keys, in_order = self.registers, self._key_list, self._sorted_keys
        self.registers, self._sorted_keys = arrived.registers, arrived.sorted_keys
        if keys is not None:
            self._key_list = KeyList(arrived.keys)
        if self._digest is not None:
            assert arrived.digest is not None
            self._digest.value = arrived.digest.value
        if all(each.is_closed for each in self._cursors):
            arrived.adopt_replaced(held, [] if keys is None else keys.keys, in_order)
        else:
            arrived.adopt_replaced({}, [], in_order)
        self._cursors = []

    # --- as a whole ------------------------------------------------------------------------------

    def stable_items(self) -> Iterator[tuple[Key, Any]]:
        """The registers as the settled requests left them, in the order of their keys; with
        `ABSENT` for what was deleted."""
        for key in self._written_keys():
            value = stable_part(self.registers[key])
            if value is not FROM_BASE and value is not self.base.read(key):
                yield key, value

    def values(self) -> dict[Key, Any]:
        """The registers as all executed requests left them, with `ABSENT` for what was deleted, and
        perhaps some that are as the base has them."""
        values = self.registers.copy()
        others = [key for key, value in values.items() if _needs_lookup(value)]
        for key in others:
            if values[key] is FROM_BASE:
                del values[key]
            else:
                values[key] = self.read_at(key, END_POSITION)[1]
        return values

    def open_cursor(self) -> CheckpointCursor:
        """The registers as the settled requests left them, now: to be gone through in time."""
        assert self._key_list is not None
        self._cursors = [each for each in self._cursors if not each.is_closed]
        tidies = (
            not self._cursors
            and len(self._key_list.removed) > len(self.registers) // REMOVED_FRACTION
        )
        image = CheckpointCursor(self.registers, self._key_list, self.base, tidies)
        self._cursors.append(image)
        return image

    def _written_keys(self) -> SortedKeys:
        if self._sorted_keys is None:
            self._sorted_keys = SortedKeys(self.registers)
        return self._sorted_keys

    def _preserve(self, key: Key, old: Any) -> None:
        """It was settled anew, and the images are to show what it held."""
        if any(each.is_closed for each in self._cursors):
            self._cursors = [each for each in self._cursors if not each.is_closed]
        for image in self._cursors:
            image.preserve(key, old)


def _needs_lookup(found: Any) -> bool:
    return found is FROM_BASE or isinstance(found, Version) or isinstance(found, VersionChain)  # noqa: SIM101
