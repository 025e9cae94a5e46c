"""The settled state as it was at one moment, gone through a few registers at a time.

Meanwhile requests go on being settled. So whoever changes a register says before what it held, and
the image, which may not have come to it yet, remembers that. Taking an image costs nothing, however
large the state is; what is settled while it is gone through costs a place to remember it.

A dictionary that changes cannot be gone through in parts. The keys can, since they also stand in a
list that only grows; the images themselves rid it of those that are gone.
"""

from typing import Any

from creekdb.execution.base import Base
from creekdb.execution.chains import INITIAL, settled_part
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
