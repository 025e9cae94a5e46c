"""Footprints: the registers that a call of an operation can touch, as prefixes of their keys.

A prefix covers the keys that `tx.scan(prefix)` covers:

- a tuple: every tuple key that starts with it, the equal key included;
- a str: every str key that starts with it, the equal key included;
- an int: that key alone.

No prefix covers a register that Creek reserves, except one that begins like its key.

A footprint has prefixes that the operation may read and write, and others that it only reads. An
operation without a footprint may touch every register. `None` stands for its footprint.

An execution that leaves its footprint fails with the same error on every replica. So two requests
whose footprints are disjoint never depend on each other, whatever the operations do.
"""

from typing import Any, Final

from creekdb.errors import BadValue
from creekdb.execution.keys import (
    RESERVED_PREFIXES,
    CollationKey,
    check_key,
    prefix_range,
)
from creekdb.execution.serializable import describe_unserializable
from creekdb.protocol.values import Key

TEXT_LENGTH_MAX: Final = 400
"""Number of characters of a footprint or key that an error quotes."""


class OutsideFootprint(BaseException):
    """Raised inside an operation that touches a register outside its footprint.

    Not an `Exception`: a handler for all errors of the operation must not catch it.
    """


class PrefixSet:
    """Set of key prefixes."""

    __slots__ = ("_lengths", "_numbers", "_strings", "_tuples", "prefixes")

    def __init__(self, prefixes: tuple[Key, ...]) -> None:
        self.prefixes = prefixes
        tuples: set[Any] = {each for each in prefixes if type(each) is tuple}
        self._tuples = tuples
        self._lengths: list[int] = sorted({len(each) for each in tuples})
        self._strings: tuple[Any, ...] = tuple([each for each in prefixes if type(each) is str])
        self._numbers: set[Any] = {each for each in prefixes if type(each) is int}

    def covers(self, key: Any) -> bool:
        """True if a prefix covers the key."""
        if type(key) is tuple:
            components: tuple[Any, ...] = key
            for length in self._lengths:
                if components[:length] in self._tuples and (length or not is_reserved(components)):
                    return True
            return False
        if type(key) is str:
            text: str = key
            return text.startswith(self._strings)
        return key in self._numbers

    def covers_range(self, low: CollationKey, high: CollationKey) -> bool:
        """True if one prefix covers the whole range of keys."""
        for prefix in self.prefixes:
            if isinstance(prefix, int):
                continue
            start, stop = prefix_range(prefix)
            if start <= low and high <= stop:
                return True
        return False


class Footprint:
    """Key prefixes that one call of an operation can touch."""

    __slots__ = ("_readable", "_writable", "reads", "touches")

    def __init__(self, touches: tuple[Key, ...], reads: tuple[Key, ...] = ()) -> None:
        self.touches = touches
        """Prefixes that the operation may read and write."""
        self.reads = reads
        """Further prefixes that the operation may read."""
        self._writable: PrefixSet | None = None
        self._readable: PrefixSet | None = None

    def __repr__(self) -> str:
        text = repr(list(self.touches))
        if self.reads:
            text += f" and, to read, {list(self.reads)!r}"
        return shorten(text)

    def can_write(self, key: Any) -> bool:
        return key in self.touches or self._writable_prefixes().covers(key)

    def can_read(self, key: Any) -> bool:
        # An equal prefix covers the key. This is usual, and needs no `PrefixSet`.
        return key in self.touches or self._readable_prefixes().covers(key)

    def can_scan(self, low: CollationKey, high: CollationKey) -> bool:
        """True if one of the prefixes covers the whole range of keys."""
        return self._readable_prefixes().covers_range(low, high)

    def with_register(self, key: Key) -> "Footprint":
        """Return the footprint of a call that touches one more register."""
        return Footprint((*self.touches, key), self.reads)

    def _writable_prefixes(self) -> PrefixSet:
        if self._writable is None:
            self._writable = PrefixSet(self.touches)
        return self._writable

    def _readable_prefixes(self) -> PrefixSet:
        if self._readable is None:
            self._readable = (
                PrefixSet((*self.touches, *self.reads)) if self.reads else self._writable_prefixes()
            )
        return self._readable


def shorten(text: str) -> str:
    """Return the text as an error quotes it."""
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]}…"


def is_reserved(key: tuple[Any, ...]) -> bool:
    """True if the key belongs to Creek. The empty prefix does not cover it."""
    return len(key) > 0 and key[0] in RESERVED_PREFIXES


def make_footprint(operation: str, touches: Any, reads: Any) -> Footprint:
    """Return the footprint that an operation declares. Raise `BadValue` if it is invalid."""
    return Footprint(
        _checked_prefixes(operation, "touches", touches),
        _checked_prefixes(operation, "reads", reads),
    )


def _checked_prefixes(operation: str, parameter: str, prefixes: Any) -> tuple[Key, ...]:
    if type(prefixes) is not list:  # a tuple is one prefix
        _reject(operation, parameter, prefixes, f"it is a {type(prefixes).__name__}")
    for prefix in prefixes:
        try:
            check_key(prefix)
        except BadValue as error:
            _reject(operation, parameter, prefixes, str(error))
    return tuple(prefixes)


def _reject(operation: str, parameter: str, prefixes: Any, cause: str) -> None:
    # Only serialisable values have the same text in every process; a set is an example of others.
    is_shown = describe_unserializable(prefixes) is None
    returned = shorten(repr(prefixes)) if is_shown else f"a {type(prefixes).__name__}"
    raise BadValue(
        f"'{parameter}' of operation '{operation}' returned {returned}, which is no "
        f"list of key prefixes: {cause}; return a list of str, int or tuple"
    )
