"""Requests of clients, and the order in which replicas speculate on them.

Algorithm 1, lines 1-3. A request is immutable and passed by value. This module does not depend on
the transport or the execution of requests.
"""

from typing import Any, NamedTuple, TypeAlias

import msgspec

from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.values import freeze_arguments, freeze_value

_encode = msgspec.msgpack.Encoder(order="sorted").encode


class OrderKey(NamedTuple):
    """Key of the order `<` (line 3): timestamps compare first, identifiers break ties."""

    timestamp: int
    id: Dot


class Operation(msgspec.Struct, frozen=True, array_like=True):
    """`op : ops(F)`: name and arguments of an operation of the data type."""

    name: str
    """Name under which the operation is declared."""
    arguments: tuple[Any, ...] = ()
    """Positional arguments."""

    __post_init__ = freeze_arguments  # type: ignore[misc]  # called with the new operation


class Request(msgspec.Struct, frozen=True, array_like=True):
    """`Req` (line 1). `timestamp` is in microseconds; `context` is `causalCtx`, ⊥ if weak."""

    timestamp: int
    id: Dot
    operation: Operation
    strong: bool
    context: Dots | None = None

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.timestamp, self.id)


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """Result of an operation: the returned value or the raised error.

    Both are deterministic; `error` is None on success.
    """

    value: Any = None
    """Returned value."""
    error: str | None = None
    """Raised error, as `TypeName: message`."""

    __post_init__ = freeze_value  # type: ignore[misc]  # called with the new outcome

    def same_as(self, other: "Outcome") -> bool:
        """True if both encode to the same bytes: 1, 1.0 and True are three values."""
        return self is other or _encode(self) == _encode(other)


NOOP = Operation("noop")
"""Strong operation that only stabilises (Section 4.4). Every data type has it."""

Batch: TypeAlias = tuple[Dot, ...]
"""Value of one consensus instance: identifiers of strong requests, in delivery order. Each may
follow identifiers of weak requests, its cut (`creekdb.protocol.broadcast.cuts`)."""
