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

from creekdb.execution.base_state import Base, merged
from creekdb.execution.keys import Place, SortedKeys
from creekdb.execution.mvcc.entry import TAIL, Position, Read, Version
from creekdb.execution.mvcc.state_loader import Arrivals, StateDigest
from creekdb.execution.mvcc.version_chain import INITIAL, Chain, is_addable, settled_part
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key


class Keys:
    """The registers of a state, each once, in a list that only grows."""

    __slots__ = ("gone", "listed")

    def __init__(self, keys: list[Key]) -> None:
        self.listed = keys
        self.gone: set[Key] = set()
        """Those on the list that the state does not have any more."""

    def add(self, key: Key) -> None:
        if key in self.gone:
            self.gone.discard(key)
        else:
            self.listed.append(key)

    def drop(self, key: Key) -> None:
        self.gone.add(key)


class SettledImage:
    """Of what `held` holds below all versions. `tidies`: in the end the list of keys is replaced by
    one without those that are gone; only one image at a time may do that."""

    __slots__ = (
        "_alive",
        "_at",
        "_base",
        "_before",
        "_end",
        "_held",
        "_keys",
        "_listed",
        "_missed",
        "_tidies",
        "is_over",
    )

    def __init__(self, held: dict[Key, Any], keys: Keys, base: Base, tidies: bool) -> None:
        self._held = held
        self._keys = keys
        self._listed = keys.listed
        self._base = base
        self._tidies = tidies
        self._at = 0
        self._end = len(self._listed)
        self._before: dict[Key, Any] = {}
        self._alive: list[Key] = []
        self._missed: list[Key] = []
        """Those that the state did not have when they were come to."""
        self.is_over = False

    @property
    def count(self) -> int:
        return self._end

    def keep(self, key: Key, value: Any) -> None:
        """The register is about to change, and held this."""
        self._before.setdefault(key, value)

    def take(self, most: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        """Of the next so many registers those that differ from the base, and those that hold
        nothing where the base has something; None when there are no more."""
        if self._at == self._end:
            self._tidy()
            self.close()
        if self.is_over:
            return None
        registers, before, base = self._held, self._before, self._base
        held: list[tuple[Key, Any]] = []
        deleted: list[Key] = []
        some = self._listed[self._at : min(self._at + most, self._end)]
        self._at += len(some)
        for key in some:
            value = settled_part(registers.get(key, INITIAL))
            if self._tidies:
                (self._alive if key in registers else self._missed).append(key)
            value = before.get(key, value)
            if value is INITIAL or value is base.read(key):
                continue
            if value is ABSENT:
                deleted.append(key)
            else:
                held.append((key, value))
        return held, deleted

    def close(self) -> None:
        """Nobody goes on with it."""
        self.is_over = True
        self._before, self._alive, self._missed = {}, [], []

    def _tidy(self) -> None:
        keys, alive = self._keys, self._alive
        if not self._tidies or self.is_over:
            return
        for key in self._missed:
            if key in keys.gone:
                keys.gone.discard(key)
            else:
                alive.append(key)  # it is back
        alive += self._listed[self._end :]
        keys.listed = alive


GONE_PART: Final = 4
"""The list of keys is tidied when those that are gone are such a part of the others, or more."""

CHANGES_MAX: Final = 32
"""How many of the last changes are remembered, at least."""


class Contents:
    __slots__ = (
        "_changed",
        "_changed_first",
        "_digest",
        "_images",
        "_in_order",
        "_keys",
        "base",
        "changes",
        "held",
    )

    def __init__(self, base: Base, digest: StateDigest | None, images: bool) -> None:
        self.base = base
        self.held: dict[Key, Any] = {}
        """By register, what settled requests left in it, `INITIAL` if there were none; or its
        `Chain` of versions. A version that is the only one stands for itself."""
        self.changes = 0
        """Grows with whatever may change what a snapshot shows."""
        self._changed: list[set[Key] | tuple[Key, ...]] = []
        """The registers that the last changes touched: as sets, once somebody looked."""
        self._changed_first = 0
        """The number of the first of these changes."""
        self._digest = digest
        self._keys = Keys([]) if images else None
        self._images: list[SettledImage] = []
        """Those that may not be over."""
        self._in_order = SortedKeys() if images else None
        """The registers; unless it is allowed to take long when somebody first asks for them."""

    # --- reading ---------------------------------------------------------------------------------

    def at(self, key: Key, position: Position) -> Read:
        """What a request at `position` reads."""
        found = self.held.get(key, INITIAL)
        if isinstance(found, Version):
            writer = found.writer
            if not found.delta and writer is not None:
                if writer.position < position:
                    return found, found.value  # as mostly
                found = found.ground
            else:
                return self.chain(key).at(position)
        elif isinstance(found, Chain):
            last = found.versions[-1]
            writer = last.writer
            if writer is not None and writer.position < position and not last.delta:
                return last, last.value
            return found.at(position)
        return None, self.base.read(key) if found is INITIAL else found

    def ground(self, key: Key) -> Any:
        """What settled requests left, or the base holds."""
        found = settled_part(self.held.get(key, INITIAL))
        return self.base.read(key) if found is INITIAL else found

    def has_versions(self, key: Key) -> bool:
        found = self.held.get(key)
        return isinstance(found, Version) or isinstance(found, Chain)  # noqa: SIM101 - compiled

    def written_of(self, reads: dict[Key, Read]) -> list[Key]:
        """Those of the registers that somebody has written to, in the order of the reads."""
        held = self.held
        if held.keys().isdisjoint(reads):
            return []  # as mostly, and quickly told
        return [key for key in reads if key in held]

    def known_keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        """Every key that holds, or ever held, something in this range."""
        written = self._written().between(start, stop, reverse)
        return merged(written, self.base.keys(start, stop, reverse), reverse)

    def is_addable(self, key: Key) -> bool:
        if self.has_versions(key):
            return self.chain(key).regular
        return is_addable(self.ground(key))

    # --- changing --------------------------------------------------------------------------------

    def note_change(self, keys: dict[Key, Version]) -> None:
        """What these registers hold is changed now."""
        self.changes += 1
        changed = self._changed
        changed.append(tuple(keys))  # not the versions: nobody knows how long these would stay
        if len(changed) == 2 * CHANGES_MAX:
            del changed[:CHANGES_MAX]
            self._changed_first += CHANGES_MAX

    def note_upheaval(self) -> None:
        """Anything may be changed now."""
        self.changes += 1
        self._changed = []
        self._changed_first = self.changes

    def changed_since(self, changes: int) -> list[set[Key]] | None:
        """The registers that were changed since there were so many changes; None if that was too
        long ago."""
        begin = changes - self._changed_first
        if begin < 0:
            return None
        since: list[set[Key]] = []
        for index in range(begin, len(self._changed)):
            keys = self._changed[index]
            if not isinstance(keys, set):
                keys = self._changed[index] = set(keys)  # compared faster than anything else
            since.append(keys)
        return since

    def add_key(self, key: Key) -> None:
        """Nobody had ever written to it until now."""
        if self._keys is not None:
            self._keys.add(key)
        if self._in_order is not None:
            self._in_order.add(key)

    def chain(self, key: Key) -> Chain:
        """The versions that are not settled, as a chain, also where there is only one."""
        found = self.held[key]
        if isinstance(found, Chain):
            return found
        assert isinstance(found, Version)
        on_base = found.ground is INITIAL
        chain = Chain(key, self.base.read(key) if on_base else found.ground)
        chain.on_base = on_base
        chain.insert(found, [])
        self.held[key] = chain
        found.ground = None
        return chain

    def settle(self, key: Key, version: Version) -> None:
        """What stands before the version cannot change any more."""
        found = self.held[key]
        if found is version and not version.delta:
            old = version.ground
            self.held[key] = version.value
        else:
            old = settled_part(found)
            chain = self.chain(key)
            chain.settle(version)
            if chain.is_bare:
                self.held[key] = version.value
        if self._digest is not None:
            replaced = self.base.read(key) if old is INITIAL else old
            self._digest.replace(key, replaced, version.value)
        if self._images:
            self._keep(key, old)

    def remove_bare(self, key: Key, chain: Chain) -> None:
        """There is no version in the chain any more."""
        self.held[key] = INITIAL if chain.on_base else chain.ground
        self.drop_if_gone(key)

    def drop_if_gone(self, key: Key) -> None:
        """A register that holds nothing, and is not to hold anything, need not be remembered."""
        found = self.held[key]
        if found is not ABSENT and found is not INITIAL:
            return
        if self.base.read(key) is ABSENT:
            del self.held[key]
            if self._keys is not None:
                self._keys.drop(key)
            if self._in_order is not None:
                self._in_order.remove(key)

    def load(self, arrived: Arrivals) -> None:
        """Start anew from what has arrived; what was here before is left there, unless an image of
        it is still gone through."""
        self.note_upheaval()
        held, keys, in_order = self.held, self._keys, self._in_order
        self.held, self._in_order = arrived.held, arrived.in_order
        if keys is not None:
            self._keys = Keys(arrived.keys)
        if self._digest is not None:
            assert arrived.digest is not None
            self._digest.value = arrived.digest.value
        if all(each.is_over for each in self._images):
            arrived.leave(held, [] if keys is None else keys.listed, in_order)
        else:
            arrived.leave({}, [], in_order)
        self._images = []

    # --- as a whole ------------------------------------------------------------------------------

    def settled_items(self) -> Iterator[tuple[Key, Any]]:
        """The registers as the settled requests left them, in the order of their keys; with
        `ABSENT` for what was deleted."""
        for key in self._written():
            value = settled_part(self.held[key])
            if value is not INITIAL and value is not self.base.read(key):
                yield key, value

    def values(self) -> dict[Key, Any]:
        """The registers as all executed requests left them, with `ABSENT` for what was deleted, and
        perhaps some that are as the base has them."""
        values = self.held.copy()
        others = [key for key, value in values.items() if _is_no_value(value)]
        for key in others:
            if values[key] is INITIAL:
                del values[key]
            else:
                values[key] = self.at(key, TAIL)[1]
        return values

    def image(self) -> SettledImage:
        """The registers as the settled requests left them, now: to be gone through in time."""
        assert self._keys is not None
        self._images = [each for each in self._images if not each.is_over]
        tidies = not self._images and len(self._keys.gone) > len(self.held) // GONE_PART
        image = SettledImage(self.held, self._keys, self.base, tidies)
        self._images.append(image)
        return image

    def _written(self) -> SortedKeys:
        if self._in_order is None:
            self._in_order = SortedKeys(self.held)
        return self._in_order

    def _keep(self, key: Key, old: Any) -> None:
        """It was settled anew, and the images are to show what it held."""
        if any(each.is_over for each in self._images):
            self._images = [each for each in self._images if not each.is_over]
        for image in self._images:
            image.keep(key, old)


def _is_no_value(found: Any) -> bool:
    return found is INITIAL or isinstance(found, Version) or isinstance(found, Chain)  # noqa: SIM101
