"""Options that several commands have, and the kinds of their values.

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

from creekdb.errors import UsageError

warehouses_option = click.option(
    "--warehouses",
    default=5,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many TPC-C has.",
)
DEFAULT_SCHEME = "creek"
scheme_option = click.option(
    "--scheme",
    default=DEFAULT_SCHEME,
    show_default=True,
    help="Which replicas: basic, creek, both, smr, bayou, archie, or yours as "
    "package.module:Class, which may be in this folder. A live cluster runs creek.",
)


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


class NewDirectory(click.ParamType[Path]):
    """A folder that is to be made."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        reject_working_directory(path, param.opts[0] if param is not None else "a folder")
        return path


def reject_working_directory(path: Path, what: str) -> None:
    """Whatever is written aside first, and moved into place when it is whole, cannot be put where
    somebody stands."""
    here = Path.cwd()
    if path.resolve() in (here, *here.parents):
        raise UsageError(f"{what} is '{path}', where you are: name a folder that is to be made")


def is_explicit(context: click.Context, name: str) -> bool:
    """Was the option named, and not left to its default?"""
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def add_working_directory_to_path() -> None:
    """Let data types and schemes be found where the user is, as `python -m` does. To be called by
    every command that takes one, since the script `creek` does not."""
    here = os.getcwd()
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)


def parse_argument(text: str) -> Any:
    """A JSON value where the word is one, else the word itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
