"""Options that several commands have, and the kinds of their values: durations, faults and scripted
calls, read into the real thing.

A value that cannot be meant raises `UsageError`, whose message says what is allowed; the command
prints it and exits with code 2.
"""

import math
import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from creek.errors import BadValue, UnknownName, UsageError
from creek.execution.datatype import DataType
from creek.simulation.fault_text import UNITS_US, duration_text, parse_duration_us, parse_faults
from creek.simulation.faults import Fault, check
from creek.simulation.workload import Invocation

warehouses_option = click.option(
    "--warehouses",
    default=5,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many TPC-C has.",
)

CALL_FORM = "'[strong] NAME [ARGUMENT ...] on REPLICA at TIME'"


DURATION_US_MAX = 3_600_000_000
"""An hour of simulated time: more than anybody waits for."""
MEASURED_US_MIN = 100_000
"""What happens in less says nothing about a live cluster."""


class Duration(click.ParamType[int]):
    """A duration up to an hour, in microseconds; from nothing, or from `least_us`, on."""

    name = "duration"

    def __init__(self, least_us: int = 0) -> None:
        self._least_us = least_us

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        duration_us = parse_duration_us(value)
        if not self._least_us <= duration_us <= DURATION_US_MAX:
            option = param.opts[0] if param is not None else "a duration"
            least = duration_text(self._least_us)
            raise BadValue(f"{option} is {value}: it must be between {least} and 1h")
        return duration_us


class Rate(click.FloatRange):
    """So many in a second, more than none."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        rate: float = super().convert(value, param, ctx)
        if not math.isfinite(rate):
            self.fail(f"{value} is no number of calls in a second.", param, ctx)
        return rate


class NewFolder(click.ParamType[Path]):
    """A folder that is to be made."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        refuse_here(path, param.opts[0] if param is not None else "a folder")
        return path


def refuse_here(path: Path, what: str) -> None:
    """Whatever is written aside first, and moved into place when it is whole, cannot be put where
    somebody stands."""
    here = Path.cwd()
    if path.resolve() in (here, *here.parents):
        raise UsageError(f"{what} is '{path}', where you are: name a folder that is to be made")


def is_given(context: click.Context, name: str) -> bool:
    """Was the option named, and not left to its default?"""
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


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
            faults += _faults(part, replicas, duration_us)
        except UnknownName as error:
            hint = "'creek simulate --help-faults' explains them"
            raise UsageError(f"{place}{error} ({hint})") from error
        except UsageError as error:
            raise UsageError(f"{place}{error}") from error
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _faults(text: str, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    faults = parse_faults(text)
    check(faults, replicas)
    for fault in faults:
        check_in_time("fault", fault.at_us, duration_us)
    return faults


def check_in_time(what: str, at_us: int, duration_us: int) -> None:
    if at_us > duration_us:
        raise UsageError(
            f"a {what} at {duration_text(at_us)}, but the run ends at "
            f"{duration_text(duration_us)}: give a longer --duration"
        )


def parse_call(text: str, datatype: DataType) -> Invocation:
    """A scripted call, such as `strong withdraw ann 50 on 2 at 150ms`."""
    words = text.split()
    strong = words[:1] == ["strong"]
    if words[:1] in (["strong"], ["weak"]):
        del words[0]
    match words:
        case [name, *arguments, "on", replica, "at", time] if replica.isdecimal():
            operation = datatype.call(name, *map(argument_of, arguments))
            return Invocation(parse_duration_us(time), int(replica), operation, strong)
        case [*_, "at", number, unit] if unit in UNITS_US:
            raise BadValue(f"call '{text}': write {number}{unit}, without a space")
        case _:
            raise BadValue(f"'{text}' is not a call: write {CALL_FORM}")


def import_from_here() -> None:
    """Let data types be found where the user is, as `python -m` does."""
    here = os.getcwd()
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)


def argument_of(text: str) -> Any:
    """A JSON value where the word is one, else the word itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
