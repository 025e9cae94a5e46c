"""One line of the table: what was measured, what came out, and the bar it is held against."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from benchmarks.scale import Scale


class Result(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    explanation: str
    """One plain sentence."""
    value: float
    unit: str = "×"
    bar: float | None = None
    """The value must not be greater; None when it is only reported."""
    exact: bool = False
    """The value must not be less than the bar either."""

    @property
    def missed(self) -> bool:
        if self.bar is None:
            return False
        return self.value != self.bar if self.exact else self.value > self.bar

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return "reported"
        return "missed" if self.missed else "ok"


class Benchmark(NamedTuple):
    name: str
    results: int
    """How many results `measure` gives: what the progress bar counts."""
    measure: Callable[[Scale], Iterator[Result]]
