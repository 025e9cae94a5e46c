"""A data type of one's own, by where it is imported from: `package.module:variable`.

The module is the user's: whatever is wrong with it is told in a line, with its place.
"""

import traceback
from importlib import import_module
from types import ModuleType

from creek.errors import UsageError
from creek.execution.datatype import DataType
from creek.protocol.request import NOOP


def imported(name: str) -> DataType:
    module, _, variable = name.partition(":")
    found = _module(name, module)
    datatype = getattr(found, variable, None)
    if datatype is None and not hasattr(found, variable):
        raise UsageError(f"data type {name}: {module} has no '{variable}'{_there(found)}")
    if not isinstance(datatype, DataType):
        kind = type(datatype).__name__
        raise UsageError(
            f"data type {name}: '{variable}' is a {kind}, no creek.DataType{_there(found)}"
        )
    if datatype.operations == (NOOP.name,):
        what = f"declare some with @{variable}.operation"
        raise UsageError(f"data type {name} has no operations: {what}")
    return datatype


def _module(name: str, module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if module.endswith(".py"):
            why = f"write {module.removesuffix('.py')}, without '.py'"
        elif f"{module}.".startswith(f"{missing}."):
            why = f"there is no module '{missing}' in this folder, on PYTHONPATH or installed"
        else:
            why = f"{module} imports '{missing}', and there is no such module"
    except SyntaxError as error:
        why = f"{error.filename}, line {error.lineno}: {error.msg}"
    except Exception as error:  # noqa: BLE001 - the module may raise whatever it likes
        kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
        why = f"{module} cannot be imported: {kind}{error} ({_place(error, module)})"
    raise UsageError(f"data type {name}: {why}")


def _place(error: Exception, module: str) -> str:
    """Where it was raised; if that is not in the module, from where that was called."""
    frames = traceback.extract_tb(error.__traceback__)
    path = f"{module.replace('.', '/')}.py"
    inside = [each for each in frames if each.filename.endswith(path)]
    last = (inside or frames)[-1]
    return f"{last.filename}, line {last.lineno}"


def _there(module: ModuleType) -> str:
    """The data types that it has, to choose from."""
    there = [f"{module.__name__}:{each}" for each, it in vars(module).items() if _is_one(it)]
    return f"; there is {', '.join(there)}" if there else ""


def _is_one(value: object) -> bool:
    return isinstance(value, DataType)
