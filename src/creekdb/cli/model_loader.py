"""Models of the command line: built-in ones, and models and data types of users."""

from typing import NamedTuple

import click

from creekdb.checkers.blackbox import MODELS, STEPS_MAX, Model, datatype_model, get_model
from creekdb.cli.declaration import option
from creekdb.cli.options import add_working_directory_to_path
from creekdb.errors import UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.module_loader import import_user_module
from creekdb.server.runtime.config import load_datatype


class ModelArguments(NamedTuple):
    """Options of the commands that check observed calls."""

    model: str | None = option(
        "Model of the calls in a file: a name, or the import path of a model or a data type.",
        metavar=f"{'|'.join(MODELS)}|module:variable",
    )
    steps: int = option(
        "Upper bound for the steps of the search, for the calls on one object.",
        STEPS_MAX,
        click.IntRange(min=1),
    )


def load_model(name: str | None, path: object) -> Model:
    """Return the model of the calls in the file `path`."""
    if name is None:
        names = ", ".join(MODELS)
        raise UsageError(f"{path} is a file of calls: name its model with --model ({names})")
    if ":" not in name:
        is_datatype = name not in MODELS and name.startswith("tpcc")
        return datatype_model(load_datatype(name)) if is_datatype else get_model(name)
    add_working_directory_to_path()
    module, variable = import_user_module("model", name)
    found = getattr(module, variable, None)
    if isinstance(found, Model):
        return found
    if isinstance(found, DataType):
        return datatype_model(found)
    raise UsageError(
        f"{name} is not a model or a data type: name a variable with a "
        "creekdb.checkers.blackbox.Model or a creekdb.DataType"
    )
