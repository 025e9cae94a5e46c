"""One line of the table: a measurement, its value, and its upper bound."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from benchmarks.scale import Scale


class Result(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    explanation: str
    """One sentence."""
    value: float | None
    """None if nothing was measured, for example because a competitor is not installed."""
    unit: str = "×"
    bar: float | None = None
    """Upper bound of the value; None if the value is only reported."""
    exact: bool = False
    """True if the bar is also a lower bound."""

    @property
    def missed(self) -> bool:
        if self.bar is None or self.value is None:
            return False
        return self.value != self.bar if self.exact else self.value > self.bar

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        if self.bar is None:
            return "reported"
        return "missed" if self.missed else "ok"


def not_measured(what: str, explanation: str, bar: float | None = None) -> Result:
    """Return the result of a comparison with a program that is not installed."""
    return Result(what=what, explanation=explanation, value=None, bar=bar)


class Benchmark(NamedTuple):
    name: str
    results: int
    """Number of results that `measure` yields, for the progress bar."""
    measure: Callable[[Scale], Iterator[Result]]
