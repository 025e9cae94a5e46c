"""A data type of one's own, by where it is imported from: `package.module:variable`."""

from types import ModuleType

from creekdb.errors import UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.module_loader import module_of
from creekdb.protocol.request import NOOP


def imported(name: str) -> DataType:
    module, variable = module_of("data type", name)
    datatype = getattr(module, variable, None)
    if datatype is None and not hasattr(module, variable):
        raise UsageError(f"data type {name}: {module.__name__} has no '{variable}'{_there(module)}")
    if not isinstance(datatype, DataType):
        kind = type(datatype).__name__
        raise UsageError(
            f"data type {name}: '{variable}' is a {kind}, no creekdb.DataType{_there(module)}"
        )
    if datatype.operations == (NOOP.name,):
        what = f"declare some with @{variable}.operation"
        raise UsageError(f"data type {name} has no operations: {what}")
    return datatype


def _there(module: ModuleType) -> str:
    """The data types that it has, to choose from."""
    there = [f"{module.__name__}:{each}" for each, it in vars(module).items() if _is_one(it)]
    return f"; there is {', '.join(there)}" if there else ""


def _is_one(value: object) -> bool:
    return isinstance(value, DataType)
