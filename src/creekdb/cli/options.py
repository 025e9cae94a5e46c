"""Options shared by several commands, their parameter types, and limits of the commands.

An invalid value raises `UsageError`, whose message states the valid values. The command prints the
message and exits with code 2.
"""

import math
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from click.core import ParameterSource

from creekdb.cli.declaration import option
from creekdb.errors import UsageError


class Rate(click.FloatRange):
    """A positive, finite number per second."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        rate: float = super().convert(value, param, ctx)
        if not math.isfinite(rate):
            self.fail(f"{value} is not a finite number of calls per second.", param, ctx)
        return rate


class NewDirectory(click.ParamType[Path]):
    """A directory that the command creates."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        reject_working_directory(path, param.opts[0] if param is not None else "the directory")
        return path


EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
EXISTING_DIRECTORY = click.Path(path_type=Path, exists=True, file_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)
NEW_DIRECTORY = NewDirectory()
RATE = Rate()

AS_JSON = option("Print one JSON object.", flag="--json")
WAREHOUSES = option("Number of TPC-C warehouses.", 5, click.IntRange(min=1))
DEFAULT_SCHEME = "creek"
NEW_RUN = option("Run directory to create.", type=NEW_DIRECTORY, required=True)


def reject_working_directory(path: Path, option: str) -> None:
    """Raise `UsageError` for the working directory and its parents.

    Output is written aside and moved into place when complete, so it cannot replace them.
    """
    working_directory = Path.cwd()
    if path.resolve() in (working_directory, *working_directory.parents):
        raise UsageError(
            f"{option} is '{path}', which contains the working directory: name a new directory"
        )


def explicit_options(names: Collection[str]) -> list[str]:
    """Return the options among these names that are set explicitly, not by their defaults."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT
    ]


def add_working_directory_to_path() -> None:
    """Make data types and schemes importable from the working directory, like `python -m`.

    The script `creek` does not, so every command that imports one calls this function.
    """
    working_directory = os.getcwd()
    if "" not in sys.path and working_directory not in sys.path:
        sys.path.insert(0, working_directory)


def parse_argument(text: str) -> Any:
    """Return the JSON value of the text, or the text itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        if text[:1] in ("{", "[", '"') or text in ("True", "False", "None"):
            click.echo(f"creek: {text} looks like JSON, but is sent as a string", err=True)
        elif _is_number(text):
            click.echo(f"creek: {text} looks like a number, but is sent as a string", err=True)
        return text


def _is_number(text: str) -> bool:
    """True for text that Python reads as a number, such as NaN, 1e400 or 007."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class CommandLimits(NamedTuple):
    """Limits of the commands. `main` takes others, so that tests need not wait."""

    refused_retry_s: float = 5.0
    """Time for which refused connections are retried, in seconds: the cluster may be starting."""
    notice_delay_s: float = 1.0
    """Delay before the notice that a response is pending, in seconds."""
    status_timeout_s: float = 2.0
    """Upper bound for the wait of `creek status` for a replica, in seconds."""
    probes_required_seeds: int = 2000
    """Number of seeds that are expected to fire every probe."""
    hash_seeds: tuple[str, ...] = ("1", "2")
    """Hash seeds of `creek simulate --debug`: the first one that this process does not have."""


def command_limits() -> CommandLimits:
    """Return the limits of the running command."""
    return click.get_current_context().find_object(CommandLimits) or CommandLimits()
