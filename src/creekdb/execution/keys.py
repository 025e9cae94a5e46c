"""The order of keys: total, and the same in every process.

Integers come first, then strings by code point, then tuples, component by component with the same
rule; a tuple comes right before its extensions. A key's *place* is a flat tuple that Python
compares in that order. A range of keys is a half-open range of places, so that it can end where no
key is: after every key that starts with a prefix, for instance. Must not know what is stored.

Registers that Creek keeps for itself stand behind all others, where no operation looks.
"""

from typing import Any, Final, TypeAlias

from creekdb.errors import BadValue
from creekdb.execution.carriable import SHORT_MAX, SHORT_MIN, is_ascii, problem
from creekdb.protocol.membership.configuration import MEMBERS
from creekdb.protocol.values import Key

Place: TypeAlias = tuple[Any, ...]

_INT: Final = 0
_STR: Final = 1
_TUPLE: Final = 2
_END: Final = 3
_BEHIND: Final = 4
KINDS: Final = 5
FIRST_PLACE: Final[Place] = ()
LAST_PLACE: Final[Place] = (_END,)

CLIENTS: Final = "creek.calls"
OURS: Final = frozenset((CLIENTS, "creekdb.client", MEMBERS))
"""With what the keys of registers begin that Creek keeps for itself, or did once: what is kept in
another form has another name."""


def check_key(key: Any) -> None:
    """Raise `BadValue` unless `key` is one. A bool is not: `True` and `1` are the same register."""
    kind = type(key)
    if kind is tuple:
        components: tuple[Any, ...] = key
        for each in components:
            kind = type(each)
            if kind is int:
                number: int = each
                if SHORT_MIN <= number <= SHORT_MAX:
                    continue
            elif kind is str and is_ascii(each):
                continue
            _check_component(each)
    elif kind is not str or not is_ascii(key):
        _check_component(key)


def kind_of(key: Key) -> int:
    """All keys of one kind stand before all of the next one. Two keys of a kind are compared by
    Python as their places are, unless a number stands in one where the other has a string: that is
    a TypeError."""
    if isinstance(key, tuple):
        return _BEHIND if key and key[0] in OURS else _TUPLE
    return _STR if isinstance(key, str) else _INT


def place(key: Key) -> Place:
    """Where `key` stands among all keys."""
    kind = kind_of(key)
    if not isinstance(key, tuple):
        return (kind, key)
    flat: list[str | int] = [kind]
    for each in key:
        flat += (_STR, each) if type(each) is str else (_INT, each)
    return tuple(flat)


def prefix_range(prefix: str | tuple[str | int, ...]) -> tuple[Place, Place]:
    """The places of the keys of the same type, tuple or str, that start with `prefix`."""
    start = place(prefix)
    if isinstance(prefix, tuple):
        return start, (*start, _END)
    return start, _after_strings_starting_with(prefix)


def _after_strings_starting_with(prefix: str) -> Place:
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return (_TUPLE,)
    return (_STR, kept[:-1] + chr(ord(kept[-1]) + 1))


def _check_component(component: Any) -> None:
    kind = type(component)
    if kind is not str and kind is not int:
        raise BadValue(
            f"a key is a str, an int or a tuple of these, not one with a {kind.__name__}"
        )
    found = problem(component)
    if found is not None:
        raise BadValue(f"a key holds {found}, which cannot be sent")
