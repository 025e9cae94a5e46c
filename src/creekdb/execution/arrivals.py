"""Registers that are to be a state, taken in a few at a time.

Whatever is to be known of each one is found out as it comes: once all are there they are put in
place together, at no cost, however many they are. What was in that place before is left here, to be
given up a few at a time as well: to forget much at once takes long, too.
"""

from collections.abc import Sequence
from typing import Any

from creekdb.execution.base import Base
from creekdb.execution.digest import StateDigest
from creekdb.execution.sorted_keys import SortedKeys
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key


class Arrivals:
    """`base` is what lies below them. `digested`: is a digest of them asked for? `ordered`: will
    somebody ask for them in order?"""

    __slots__ = ("_base", "_count", "digest", "held", "in_order", "keys")

    def __init__(self, base: Base, digested: bool, ordered: bool = False) -> None:
        self._base = base
        self._count = 0
        self.held: dict[Key, Any] = {}
        """By register; `ABSENT` where one of the base was deleted."""
        self.keys: list[Key] = []
        self.in_order = SortedKeys() if ordered else None
        self.digest = StateDigest() if digested else None

    def add(self, held: Sequence[tuple[Key, Any]], deleted: Sequence[Key]) -> None:
        self._count += len(held) + len(deleted)
        before = len(self.keys)
        self.held.update(held)
        self.keys += [key for key, _ in held]
        if deleted:
            self.held.update(dict.fromkeys(deleted, ABSENT))
            self.keys += deleted
        if self.in_order is not None:
            for key in self.keys[before:]:
                self.in_order.add(key)
        digest, base = self.digest, self._base
        if digest is not None:
            for key, value in held:
                digest.replace(key, base.read(key), value)
            for key in deleted:
                digest.replace(key, base.read(key), ABSENT)

    def is_sound(self) -> bool:
        """Was no register taken in twice?"""
        return len(self.held) == self._count

    def leave(self, held: dict[Key, Any], keys: list[Key], in_order: SortedKeys | None) -> None:
        """These were taken over from here, and replaced those."""
        self.held, self.keys, self.in_order = held, keys, in_order
        self._count = len(held)

    def give_up(self, most: int) -> bool:
        """Forget at most so many of what is here; False when there is nothing any more."""
        held, keys = self.held, self.keys
        del keys[max(0, len(keys) - most) :]
        for _ in range(min(most, len(held))):
            held.popitem()
        if self.in_order is not None and not self.in_order.give_up(most):
            self.in_order = None
        return bool(held or keys or self.in_order is not None)
