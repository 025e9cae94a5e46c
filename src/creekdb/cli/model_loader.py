"""Models of the command line: built-in ones, and models and data types of users."""

from creekdb.checkers.blackbox import MODELS, Model, datatype_model, get_model
from creekdb.cli.options import add_working_directory_to_path
from creekdb.errors import UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.module_loader import import_user_module
from creekdb.server.runtime.config import load_datatype


def load_model(name: str) -> Model:
    """Return a model by its name, or by the import path of a model or a data type."""
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
