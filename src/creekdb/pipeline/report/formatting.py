"""Numbers and names as people read them."""

from math import isinf
from typing import Any

from creekdb.pipeline.report.paper.reference_values import NAMES
from creekdb.pipeline.report.quantities import Band, Unit

NOTHING = "–"
SPACE = "\u00a0"
"""Between a number and its unit: no line ends there."""


def name_of(scheme: str) -> str:
    return NAMES.get(scheme, scheme)


def number(value: float, unit: Unit) -> str:
    match unit:
        case Unit.PER_SECOND:
            return throughput(value)
        case Unit.MICROSECONDS:
            return f"{value / 1000:.2f}{SPACE}ms"
        case Unit.SHARE:
            return share(value)
        case Unit.RATIO:
            return f"{value:.2f}".replace("-", "−")
        case Unit.COUNT:
            return f"{value:,.0f}".replace(",", SPACE)


def milliseconds(value_us: float) -> str:
    """Of something that happened once: with as many digits as mean something."""
    ms = value_us / 1000
    text = f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"
    return f"{text.replace(',', SPACE)}{SPACE}ms"


def span(low: float, high: float, unit: Unit) -> str:
    """A range, with its unit once; one number where both ends look the same."""
    one, two = number(low, unit), number(high, unit)
    if one == two:
        return one
    first, _, suffix = one.partition(SPACE)
    shared = not suffix.isdigit() and two.endswith(f"{SPACE}{suffix}")
    return f"{first}–{two}" if suffix and shared else f"{one}–{two}"


def band(given: Band, unit: Unit) -> str:
    if isinf(given.high):
        return f"≥{SPACE}{number(given.low, unit)}"
    if isinf(given.low):
        return f"≤{SPACE}{number(given.high, unit)}"
    return span(given.low, given.high, unit)


def throughput(value: float) -> str:
    return f"{thousands(value)}{SPACE}tx/s"


def thousands(value: float) -> str:
    if value < 1_000:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value >= 10_000 else f"{value / 1000:.2f}k"


def share(value: float) -> str:
    """Never rounded up to all of it."""
    text = f"{value:.1%}"
    if text == "100.0%" and value < 1:
        text = f"{value:.2%}" if value < 0.99995 else "99.99%"
    return f"{text.removesuffix('%')}{SPACE}%"


def percent(value: float) -> str:
    return f"{value * 100:.0f}{SPACE}%"


def percents(low: float, high: float) -> str:
    one, two = percent(low), percent(high)
    return one if one == two else f"{one.partition(SPACE)[0]}–{two}"


def seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def parameter(name: str, value: Any) -> str:
    """The value of a parameter of an experiment, as a label."""
    match name, value:
        case "strong_share", None:
            return "Payment"
        case "strong_share", float():
            return percent(value)
        case "exec_scale", float():
            return f"×{SPACE}{value:g}"
        case _, bool():
            return "yes" if value else "no"
        case _:
            return str(value)
