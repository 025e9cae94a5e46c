"""What clients are told to ask for, and how: models of them, scripts, and sources of operations."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import msgspec

from creekdb.errors import BadValue
from creekdb.protocol.request import Operation

Sample: TypeAlias = Callable[[Random], tuple[str, tuple[Any, ...]]]
"""Draws the name and the arguments of an operation."""

Source: TypeAlias = Callable[[int, Random], Operation]
"""The next operation that clients of a replica ask for, drawn where the source wants."""


def source_of(sample: Sample) -> Source:
    """The same for every replica."""

    def draw(replica: int, random: Random) -> Operation:
        name, arguments = sample(random)
        return Operation(name, tuple(arguments))

    return draw


class ClientModel(msgspec.Struct, frozen=True, kw_only=True):
    sessions: int = 2
    """At each replica, in the closed loop."""
    think_us: int = 10_000
    """On average, between an answer and the next operation."""
    operations_per_session: int = 0
    """How many operations a session asks for in the closed loop; 0 is no limit."""
    rate_per_second: float = 0.0
    """Operations per second at each replica; above 0 the loop is open."""
    strong_share: float = 0.3
    strong_kinds: tuple[str, ...] = ()
    """Operations with these names are strong, whatever the share."""
    tentative_only_share: float = 0.2
    """Of the strong operations, those whose client goes on after the tentative answer."""
    patience_us: int = 1_000_000
    """How long a client waits for an answer; 0 is for ever."""

    def __post_init__(self) -> None:
        for name in (
            "sessions",
            "think_us",
            "operations_per_session",
            "rate_per_second",
            "patience_us",
        ):
            if getattr(self, name) < 0:
                raise BadValue(f"{name} is {getattr(self, name)}: it must not be negative")
        for name in ("strong_share", "tentative_only_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadValue(f"{name} is {getattr(self, name)}: it must be between 0 and 1")


class Invocation(msgspec.Struct, frozen=True):
    """A scripted operation. `session` tells apart the scripted sessions at one replica."""

    at_us: int
    replica: int
    operation: Operation
    strong: bool = False
    session: int = 0

    def __post_init__(self) -> None:
        if self.at_us < 0:
            raise BadValue(f"an invocation at {self.at_us} us: a time must not be negative")
