"""Import of user modules from references of the form `package.module:variable`.

Every failure is reported as one line, with its location.
"""

import traceback
from importlib import import_module
from types import ModuleType

from creekdb.errors import UsageError


def import_user_module(subject: str, name: str) -> tuple[ModuleType, str]:
    """Return the module and the name of the variable, or raise `UsageError` about `subject`."""
    module, _, variable = name.partition(":")
    try:
        return import_module(module), variable
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if module.endswith(".py"):
            cause = f"write {module.removesuffix('.py')}, without '.py'"
        elif f"{module}.".startswith(f"{missing}."):
            cause = f"there is no module '{missing}' in this directory, on PYTHONPATH or installed"
        else:
            cause = f"{module} imports '{missing}', which does not exist"
    except SyntaxError as error:
        cause = f"{error.filename}, line {error.lineno}: {error.msg}"
    except Exception as error:  # noqa: BLE001 - the module may raise any exception
        kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
        cause = f"{module} cannot be imported: {kind}{error} ({_error_location(error, module)})"
    raise UsageError(f"{subject} {name}: {cause}")


def _error_location(error: Exception, module: str) -> str:
    """Return the last location inside the module, or that of the error if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    path = f"{module.replace('.', '/')}.py"
    inside = [each for each in frames if each.filename.endswith(path)]
    last = (inside or frames)[-1]
    return f"{last.filename}, line {last.lineno}"
