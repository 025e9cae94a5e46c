"""Types of PEP 249: constructors of parameters, type codes of columns, and accepted parameters.

SQL has NULL, INTEGER, REAL, TEXT and BLOB. A date or time is text in the format of SQLite's date
functions, so that `date(column)` and comparisons work.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Final

from creekdb.dbapi.errors import DataError, ProgrammingError

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - named by PEP 249
    """Return the date of a time in seconds since 1970, in UTC."""
    return datetime.fromtimestamp(ticks, UTC).date()


def TimeFromTicks(ticks: float) -> time:  # noqa: N802 - named by PEP 249
    """Return the time of day of a time in seconds since 1970, in UTC."""
    return datetime.fromtimestamp(ticks, UTC).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802 - named by PEP 249
    """Return a time in seconds since 1970 as a time in UTC without a time zone."""
    return datetime.fromtimestamp(ticks, UTC).replace(tzinfo=None)


class TypeObject:
    """Type code that equals the Python types of its values."""

    def __init__(self, name: str, *types: type) -> None:
        self._name = name
        self._types = types

    def __repr__(self) -> str:
        return self._name

    def __eq__(self, other: object) -> bool:
        return other is self or other in self._types

    def __hash__(self) -> int:
        return hash(self._name)


STRING: Final = TypeObject("STRING", str)
BINARY: Final = TypeObject("BINARY", bytes)
NUMBER: Final = TypeObject("NUMBER", int, float)
DATETIME: Final = TypeObject("DATETIME")
"""Equal to no type: dates are text."""
ROWID: Final = TypeObject("ROWID", int)


def column_type(rows: Sequence[Sequence[Any]], column: int) -> type | None:
    """Return the Python type of the first value of a column that is not NULL, or None."""
    for row in rows:
        if row[column] is not None:
            return type(row[column])
    return None


def convert_parameters(parameters: Any) -> tuple[Any, ...] | dict[str, Any]:
    """Return parameters as values of SQL: a list, or a dict for `:name`."""
    if isinstance(parameters, Mapping):
        return {str(name): _checked(str(name), value) for name, value in parameters.items()}
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise ProgrammingError(
            f"parameters are a sequence or a mapping, not {type(parameters).__name__}; "
            "write (value,) for one parameter",
            "07001",
        )
    return tuple([_checked(number, value) for number, value in enumerate(parameters, 1)])


def _checked(parameter: int | str, value: Any) -> Any:
    """Return a value of SQL for a parameter with this number or name. Raise `DataError`."""
    converted = convert_parameter(value)
    kind = type(converted)
    if kind is str or kind is bytes or kind is bool or converted is None:
        return converted
    if kind is int:
        if -(2**63) <= converted < 2**63:
            return converted
        problem = "an integer beyond 64 bits; pass a text or a float"
    elif kind is float:
        if math.isfinite(converted):
            return converted
        problem = f"{converted}, which SQL cannot store; pass None or a text"
    else:
        problem = f"a {kind.__name__}; pass None, bool, int, float, str, bytes, a date or a time"
    raise DataError(f"parameter {parameter} is {problem}")


def convert_parameter(value: Any) -> Any:
    """Return one parameter as a value of SQL, or unchanged if it has another type."""
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if type(value) not in (str, int, float, bytes, bool) and value is not None:
        return _plain_value(value)
    return value


def _plain_value(value: Any) -> Any:
    """Return an instance of a subclass, such as an enum or a numpy number, as a plain value."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        return item()
    return value
