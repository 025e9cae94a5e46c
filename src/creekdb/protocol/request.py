"""Requests: what clients ask for, and the order in which replicas speculate on it.

Algorithm 1, lines 1-3. A request is immutable from the moment it is made; replicas share it by
value. This module knows nothing of how requests travel or run.
"""

from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.values import freeze

_encode = msgspec.msgpack.Encoder(order="sorted").encode


class OrderKey(NamedTuple):
    """What `<` compares (line 3): timestamps first, identifiers to break ties."""

    timestamp: int
    id: Dot


class Operation(msgspec.Struct, frozen=True, array_like=True):
    """`op : ops(F)`: the name of an operation of the data type, and its arguments."""

    name: str
    """As it was declared."""
    arguments: tuple[Any, ...] = ()
    """By position."""

    def __post_init__(self) -> None:
        given = self.arguments
        arguments = freeze(given)
        if arguments is not given:
            force_setattr(self, "arguments", arguments)


class Request(msgspec.Struct, frozen=True, array_like=True):
    """`Req` (line 1). `timestamp` is in microseconds; `context` is `causalCtx`, ⊥ when weak."""

    timestamp: int
    id: Dot
    operation: Operation
    strong: bool
    context: Dots | None = None

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.timestamp, self.id)


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What an operation answered: a value or, when it raised, the error it raised.

    Both are deterministic results of the operation; `error` is None on success.
    """

    value: Any = None
    """What it returned."""
    error: str | None = None
    """What it raised: `TypeName: message`."""

    def __post_init__(self) -> None:
        given = self.value
        value = freeze(given)
        if value is not given:
            force_setattr(self, "value", value)

    def same_as(self, other: "Outcome") -> bool:
        """Equal as they travel: 1, 1.0 and True are three answers."""
        return self is other or _encode(self) == _encode(other)


NOOP = Operation("noop")
"""The strong operation that only stabilises (Section 4.4); every data type has it."""

Batch: TypeAlias = tuple[Dot, ...]
"""What one instance of consensus decides: identifiers of strong requests, in delivery order."""
