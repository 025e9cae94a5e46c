"""What a run is told in advance, read into the real thing: durations, faults and scripted calls.

A value that cannot be meant raises `UsageError`, whose message says what is allowed; the command
prints it and exits with code 2.
"""

from pathlib import Path
from typing import Any

import click

from creekdb.cli.options import parse_argument
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.simulation.faults.fault_types import Fault, check_faults
from creekdb.simulation.faults.language import (
    UNITS_US,
    format_duration,
    parse_duration_us,
    parse_faults,
)
from creekdb.simulation.kernel.scenario import ScriptedInvocation

CALL_SYNTAX = "'[strong] NAME [ARGUMENT ...] on REPLICA at TIME'"


DURATION_US_MAX = 3_600_000_000
"""An hour of simulated time: more than anybody waits for."""
MEASUREMENT_US_MIN = 100_000
"""What happens in less says nothing about a live cluster."""


class DurationParam(click.ParamType[int]):
    """A duration up to an hour, in microseconds; from nothing, or from `least_us`, on."""

    name = "duration"

    def __init__(self, least_us: int = 0) -> None:
        self._min_us = least_us

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        duration_us = parse_duration_us(value)
        if not self._min_us <= duration_us <= DURATION_US_MAX:
            option = param.opts[0] if param is not None else "a duration"
            least = format_duration(self._min_us)
            raise BadValue(f"{option} is {value}: it must be between {least} and 1h")
        return duration_us


def read_faults(
    path: Path | None, entries: tuple[str, ...], replicas: int, duration_us: int
) -> tuple[Fault, ...]:
    """The schedule in a file, in which `#` begins a comment, and the entries given one by one.

    A mistake in the file is told with its place.
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
    for place, part in parts:
        try:
            faults += _parse_checked_faults(part, replicas, duration_us)
        except UnknownName as error:
            hint = "'creek simulate --help-faults' explains them"
            raise UsageError(f"{place}{error} ({hint})") from error
        except UsageError as error:
            raise UsageError(f"{place}{error}") from error
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _parse_checked_faults(text: str, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    faults = parse_faults(text)
    check_faults(faults, replicas)
    for fault in faults:
        check_before_end("fault", fault.at_us, duration_us)
    return faults


def check_before_end(what: str, at_us: int, duration_us: int) -> None:
    if at_us > duration_us:
        raise UsageError(
            f"a {what} at {format_duration(at_us)}, but the run ends at "
            f"{format_duration(duration_us)}: give a longer --duration"
        )


def parse_call(text: str, datatype: DataType) -> ScriptedInvocation:
    """A scripted call, such as `strong withdraw ann 50 on 2 at 150ms`."""
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
