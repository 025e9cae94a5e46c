"""Modules of the user's, by where they are imported from: `package.module:variable`.

Whatever is wrong with one is told in a line, with its place.
"""

import traceback
from importlib import import_module
from types import ModuleType

from creekdb.errors import UsageError


def import_user_module(what: str, name: str) -> tuple[ModuleType, str]:
    """The module, and which variable of it is meant; or `UsageError`, of `what` is looked for."""
    module, _, variable = name.partition(":")
    try:
        return import_module(module), variable
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
        why = f"{module} cannot be imported: {kind}{error} ({_error_location(error, module)})"
    raise UsageError(f"{what} {name}: {why}")


def _error_location(error: Exception, module: str) -> str:
    """Where it was raised; if that is not in the module, from where that was called."""
    frames = traceback.extract_tb(error.__traceback__)
    path = f"{module.replace('.', '/')}.py"
    inside = [each for each in frames if each.filename.endswith(path)]
    last = (inside or frames)[-1]
    return f"{last.filename}, line {last.lineno}"
