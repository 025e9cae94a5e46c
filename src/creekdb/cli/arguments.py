"""Parsing of the arguments of a run: durations, faults and scripted calls.

An invalid value raises `UsageError`, whose message states the valid values. The command prints the
message and exits with code 2.
"""

from pathlib import Path
from typing import Any

import click

from creekdb.cli.options import parse_argument
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.simulation.faults.fault_types import Fault, check_faults
from creekdb.simulation.faults.fields import UNITS_US, format_duration, parse_duration_us
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.kernel.scenario import ScriptedInvocation

CALL_SYNTAX = "'[strong] NAME [ARGUMENT ...] on REPLICA at TIME'"


DURATION_US_MAX = 3_600_000_000
"""Upper bound for a duration: one hour, in microseconds."""
MEASUREMENT_US_MIN = 100_000
"""Lower bound for a meaningful measurement of a live cluster, in microseconds."""


class DurationParam(click.ParamType[int]):
    """A duration in microseconds, from `min_us` to one hour."""

    name = "duration"

    def __init__(self, min_us: int = 0) -> None:
        self._min_us = min_us

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        duration_us = parse_duration_us(value)
        if not self._min_us <= duration_us <= DURATION_US_MAX:
            option = param.opts[0] if param is not None else "a duration"
            minimum = format_duration(self._min_us)
            raise BadValue(f"{option} is {value}: it must be between {minimum} and 1h")
        return duration_us


DURATION = DurationParam()
MEASUREMENT = DurationParam(MEASUREMENT_US_MIN)


def read_faults(
    path: Path | None, entries: tuple[str, ...], replicas: int, duration_us: int
) -> tuple[Fault, ...]:
    """Return the faults of a file, in which `#` begins a comment, and those of `entries`.

    An error in the file names its line.
    """
    parts = [("", entry) for entry in entries]
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the faults in {path}: {error}") from error
        lines = enumerate(text.splitlines(), start=1)
        parts[:0] = [(f"{path}, line {number}: ", line.partition("#")[0]) for number, line in lines]
    faults: list[Fault] = []
    for location, part in parts:
        try:
            faults += _parse_checked_faults(part, replicas, duration_us)
        except UnknownName as error:
            hint = "'creek simulate --help-faults' explains them"
            raise UsageError(f"{location}{error} ({hint})") from error
        except UsageError as error:
            raise UsageError(f"{location}{error}") from error
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _parse_checked_faults(text: str, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    faults = parse_faults(text)
    check_faults(faults, replicas)
    for fault in faults:
        check_before_end("fault", fault.at_us, duration_us)
    return faults


def check_before_end(noun: str, at_us: int, duration_us: int) -> None:
    if at_us > duration_us:
        raise UsageError(
            f"a {noun} at {format_duration(at_us)} is after the end of the run at "
            f"{format_duration(duration_us)}: increase --duration"
        )


def parse_call(text: str, datatype: DataType) -> ScriptedInvocation:
    """Parse a scripted call, such as `strong withdraw ann 50 on 2 at 150ms`."""
    words = text.split()
    strong = words[:1] == ["strong"]
    if words[:1] in (["strong"], ["weak"]):
        del words[0]
    match words:
        case [name, *arguments, "on", replica, "at", time] if replica.isdecimal():
            operation = datatype.call(name, *map(parse_argument, arguments))
            return ScriptedInvocation(parse_duration_us(time), int(replica), operation, strong)
        case [*_, "at", number, unit] if unit in UNITS_US:
            raise BadValue(f"call '{text}': write {number}{unit}, without a space")
        case _:
            raise BadValue(f"'{text}' is not a call: write {CALL_SYNTAX}")
