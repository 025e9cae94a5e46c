"""Numbers and names as text."""

from collections.abc import Mapping
from math import isinf
from typing import Any

from creekdb.pipeline.report.quantities import Band, Unit
from creekdb.schemes.registry import SCHEMES

NO_VALUE = "–"
NO_BREAK_SPACE = "\u00a0"
"""Separator of a number and its unit; it prevents a line break."""


def scheme_name(scheme: str) -> str:
    return (SCHEMES[scheme].label if scheme in SCHEMES else "") or scheme


def format_number(value: float | None, unit: Unit) -> str:
    """Format a number with its unit. None stands for a missing number."""
    if value is None:
        return NO_VALUE
    match unit:
        case Unit.PER_SECOND:
            return format_throughput(value)
        case Unit.MICROSECONDS:
            return f"{value / 1000:.2f}{NO_BREAK_SPACE}ms"
        case Unit.SHARE:
            return format_share(value)
        case Unit.RATIO:
            return f"{value:.2f}".replace("-", "−")
        case Unit.COUNT:
            return f"{value:,.0f}".replace(",", NO_BREAK_SPACE)


def format_ms(value_us: float) -> str:
    """Format a single observation, with digits according to its magnitude."""
    ms = value_us / 1000
    text = f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"
    return f"{text.replace(',', NO_BREAK_SPACE)}{NO_BREAK_SPACE}ms"


def format_span(low: float, high: float, unit: Unit) -> str:
    """Format a range with one unit, or one number if both ends format alike."""
    start, end = format_number(low, unit), format_number(high, unit)
    if start == end:
        return start
    first, _, suffix = start.partition(NO_BREAK_SPACE)
    shared = not suffix.isdigit() and end.endswith(f"{NO_BREAK_SPACE}{suffix}")
    return f"{first}–{end}" if suffix and shared else f"{start}–{end}"


def format_band(band: Band, unit: Unit) -> str:
    if isinf(band.high):
        return f"≥{NO_BREAK_SPACE}{format_number(band.low, unit)}"
    if isinf(band.low):
        return f"≤{NO_BREAK_SPACE}{format_number(band.high, unit)}"
    return format_span(band.low, band.high, unit)


def format_throughput(value: float) -> str:
    return f"{format_thousands(value)}{NO_BREAK_SPACE}tx/s"


def format_thousands(value: float) -> str:
    if value < 1_000:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value >= 10_000 else f"{value / 1000:.2f}k"


def format_share(value: float) -> str:
    """Format a share as a percentage; a share below 1 is never rounded up to 100 %."""
    text = f"{value:.1%}"
    if text == "100.0%" and value < 1:
        text = f"{value:.2%}" if value < 0.99995 else "99.99%"
    return f"{text.removesuffix('%')}{NO_BREAK_SPACE}%"


def format_percent(value: float) -> str:
    return f"{value * 100:.0f}{NO_BREAK_SPACE}%"


def format_percent_span(low: float, high: float) -> str:
    start, end = format_percent(low), format_percent(high)
    return start if start == end else f"{start.partition(NO_BREAK_SPACE)[0]}–{end}"


def format_load(run: Mapping[str, Any]) -> str:
    """Return the load of a run for its title; an empty text for closed-loop clients."""
    return "" if run["load_tps"] is None else f" at {format_throughput(run['load_tps'])}"


def format_seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def format_parameter(name: str, value: Any) -> str:
    """Format the value of an experiment parameter as a label."""
    match name, value:
        case "strong_share", None:
            return "Payment"
        case "strong_share", float():
            return format_percent(value)
        case "extensions", str():
            return value.replace(",", " + ").replace("_", " ") or "none"
        case "clock_skew_us", int():
            return f"{value / 1000:g}{NO_BREAK_SPACE}ms"
        case "exec_scale", float():
            return f"×{NO_BREAK_SPACE}{value:g}"
        case _, bool():
            return "yes" if value else "no"
        case _:
            return str(value)
