"""Fields of faults: the textual form and the valid values of each kind of field.

A fault class annotates its fields with the kinds defined here. The language and the validation of
all faults derive from these annotations.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias

from creekdb.errors import BadValue

UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_DURATION = re.compile(r"([+-]?\d+(?:\.\d+)?)(us|ms|s|m|h|d)")


def parse_duration_us(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        joined = "".join(text.split())
        if joined != text and _DURATION.fullmatch(joined):
            raise BadValue(f"'{text}' has a space before its unit: write {joined}")
        raise BadValue(f"'{text}' is not a duration: write a number and us, ms, s, m, h or d")
    return round(float(match[1]) * UNITS_US[match[2]])


def format_duration(duration_us: int) -> str:
    """Format a duration in the largest unit that represents it exactly."""
    for unit, length_us in reversed(UNITS_US.items()):
        if duration_us and duration_us % length_us == 0:
            return f"{duration_us // length_us}{unit}"
    return "0s"


def format_duration_rounded(duration_us: int) -> str:
    """Format a duration with three significant digits."""
    rounded_us = round(duration_us, min(0, 3 - len(str(abs(duration_us)))))
    for unit, length_us in reversed(UNITS_US.items()):
        if abs(rounded_us) >= length_us:
            return f"{_format_rounded(rounded_us / length_us)}{unit}"
    return "0s"


def _format_rounded(number: float) -> str:
    return f"{float(f'{number:.3g}'):g}"


class NumberStyle(NamedTuple):
    duration: Callable[[int], str]
    number: Callable[[float], str]


EXACT = NumberStyle(format_duration, str)
ROUNDED = NumberStyle(format_duration_rounded, _format_rounded)


CLAUSES = ("x", "by", "for", "at")
"""Words before fields, in the order in which a fault is formatted."""


class FieldKind(NamedTuple):
    """Textual form and valid values of a field."""

    description: str
    """Noun phrase for errors."""
    clause: str
    """Word before the field: one of `CLAUSES`. Fields without one are the subject of the fault."""
    parse: Callable[[str], Any]
    format: Callable[[Any, NumberStyle], str] = lambda value, style: str(value)
    check: Callable[[Any], None] = lambda value: None
    """Raises `BadValue` if a value is invalid."""


def _parse_replica(text: str) -> int:
    if not re.fullmatch(r"\d+", text):
        raise BadValue(f"'{text}' is not a replica: replicas are numbered from 0")
    return int(text)


def _parse_groups(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(_parse_replica, group.split(","))) for group in text.split("|"))


def _format_groups(groups: tuple[tuple[int, ...], ...], style: NumberStyle) -> str:
    return "|".join(",".join(map(str, group)) for group in groups)


def _check_groups(groups: tuple[tuple[int, ...], ...]) -> None:
    replicas = [replica for group in groups for replica in group]
    if len(set(replicas)) < len(replicas):
        raise BadValue("a partition names a replica twice: each may be in one group only")


def _parse_number(description: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadValue(f"{description} is missing") from None


_PROBABILITY = "a probability such as 10% or 0.1"
_FACTOR = "a factor such as x5"


def _parse_probability(text: str) -> float:
    value = _parse_number(_PROBABILITY, text.removesuffix("%"))
    return value / 100 if text.endswith("%") else value


def _check(is_valid: Callable[[Any], bool], problem: str) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if not is_valid(value):
            raise BadValue(problem.format(value))

    return check


_check_probability = _check(
    lambda value: 0 <= value <= 1, "a probability of {}: it must be between 0 and 1"
)
_check_factor = _check(
    lambda value: 0 < value <= 1_000_000,
    "a factor of {}: it must be above 0 and at most 1000000",
)
_check_time = _check(lambda us: us >= 0, "a fault at {} us: a time must not be negative")
_check_duration = _check(lambda us: us >= 0, "a duration of {} us: it must not be negative")


def _format_number(number: float, style: NumberStyle) -> str:
    return style.number(number)


_OFFSET = FieldKind("a duration", "by", parse_duration_us, lambda us, style: style.duration(us))

Offset: TypeAlias = Annotated[int, _OFFSET]
"""Positive or negative duration."""
Increase: TypeAlias = Annotated[int, _OFFSET._replace(check=_check_duration)]
Duration: TypeAlias = Annotated[int, _OFFSET._replace(clause="for", check=_check_duration)]
Time: TypeAlias = Annotated[int, _OFFSET._replace(clause="at", check=_check_time)]
ReplicaNumber: TypeAlias = Annotated[int, FieldKind("a replica", "", _parse_replica)]
Sender: TypeAlias = Annotated[int, FieldKind("a direction such as 0>1", "", _parse_replica)]
"""Replica before the `>` of a direction."""
Groups: TypeAlias = Annotated[
    tuple[tuple[int, ...], ...],
    FieldKind("groups such as 0,1|2,3,4", "", _parse_groups, _format_groups, _check_groups),
]
Probability: TypeAlias = Annotated[
    float, FieldKind(_PROBABILITY, "", _parse_probability, _format_number, _check_probability)
]
Factor: TypeAlias = Annotated[
    float, FieldKind(_FACTOR, "x", partial(_parse_number, _FACTOR), _format_number, _check_factor)
]
