"""The kinds of option values: durations, faults and scripted calls, read into the real thing.

A value that cannot be meant raises `UsageError`, whose message says what is allowed; the command
prints it and exits with code 2.
"""

from pathlib import Path
from typing import Any

import click
import msgspec

from creek.errors import BadValue, UsageError
from creek.execution.datatype import DataType
from creek.simulation.fault_text import parse_duration_us, parse_fault, parse_faults
from creek.simulation.faults import Fault
from creek.simulation.workload import Invocation

CALL_FORM = "'[strong] NAME [ARGUMENT ...] on REPLICA at TIME'"


DURATION_US_MAX = 3_600_000_000
"""An hour of simulated time: more than anybody waits for."""


class Duration(click.ParamType[int]):
    """A duration from nothing to an hour, in microseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        duration_us = parse_duration_us(value)
        if not 0 <= duration_us <= DURATION_US_MAX:
            option = param.opts[0] if param is not None else "a duration"
            raise BadValue(f"{option} is {value}: it must be between 0s and 1h")
        return duration_us


def read_faults(path: Path | None, entries: tuple[str, ...]) -> tuple[Fault, ...]:
    """The schedule in a file, in which `#` begins a comment, and the entries given one by one."""
    listed: tuple[Fault, ...] = ()
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the faults in {path}: {error}") from error
        listed = parse_faults("\n".join(line.partition("#")[0] for line in text.splitlines()))
    faults = (*listed, *(parse_fault(entry) for entry in entries if entry.strip()))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def parse_call(text: str, datatype: DataType) -> Invocation:
    """A scripted call, such as `strong withdraw ann 50 on 2 at 150ms`."""
    words = text.split()
    strong = words[:1] == ["strong"]
    if words[:1] in (["strong"], ["weak"]):
        del words[0]
    match words:
        case [name, *arguments, "on", replica, "at", time] if replica.isdecimal():
            operation = datatype.call(name, *map(_argument, arguments))
            return Invocation(parse_duration_us(time), int(replica), operation, strong)
        case _:
            raise BadValue(f"'{text}' is not a call: write {CALL_FORM}")


def _argument(text: str) -> Any:
    """A JSON value where the word is one, else the word itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
