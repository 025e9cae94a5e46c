"""Ready-made data types, one per module, and the table of them.

A module defines a `DataType` and `sample`, which draws a random plausible operation for tests and
simulations from a seeded generator. Data types are independent of the replication scheme.

The data type `sql` is imported at its first use, because its engine takes longer to import than all
other data types together. The tables have no entry for it if its engine is not installed.
"""

from collections.abc import Callable, Iterator, MutableMapping
from importlib.util import find_spec
from random import Random
from typing import Any, Final, TypeAlias

from creekdb.datatypes import bank, counter, kv, lists, register, transactions
from creekdb.errors import UnknownName
from creekdb.execution.datatype import DataType as DataType
from creekdb.execution.sql_engine import REQUIRED_PACKAGE, load_sql_engine

OperationSampler: TypeAlias = Callable[[Random], tuple[str, tuple[Any, ...]]]
"""Draws the name and the arguments of an operation."""


class DataTypeTable(MutableMapping[str, DataType]):
    """Data types by name, some of which are imported at their first use."""

    def __init__(self, *datatypes: DataType) -> None:
        self._datatypes: dict[str, DataType | None] = {each.name: each for each in datatypes}
        self._imports: dict[str, Callable[[], DataType]] = {}

    def add_import(self, name: str, import_datatype: Callable[[], DataType]) -> None:
        """Add a data type that is imported at its first use."""
        self._imports[name] = import_datatype
        self._datatypes[name] = None

    def __getitem__(self, name: str) -> DataType:
        datatype = self._datatypes[name]
        if datatype is None:
            datatype = self._datatypes[name] = self._imports[name]()
        return datatype

    def __setitem__(self, name: str, datatype: DataType) -> None:
        self._datatypes[name] = datatype

    def __delitem__(self, name: str) -> None:
        del self._datatypes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._datatypes

    def __iter__(self) -> Iterator[str]:
        return iter(self._datatypes)

    def __len__(self) -> int:
        return len(self._datatypes)


DATATYPES: Final = DataTypeTable(
    register.REGISTER,
    counter.COUNTER,
    lists.LIST,
    kv.KV,
    bank.BANK,
    transactions.TRANSACTIONS,
)

SAMPLERS: dict[str, OperationSampler] = {
    register.REGISTER.name: register.sample,
    counter.COUNTER.name: counter.sample,
    lists.LIST.name: lists.sample,
    kv.KV.name: kv.sample,
    bank.BANK.name: bank.sample,
    transactions.TRANSACTIONS.name: transactions.sample,
}


def _import_sql() -> DataType:
    from creekdb.datatypes.sql import SQL  # noqa: PLC0415 - at the first use

    return SQL


def _sample_sql(random: Random) -> tuple[str, tuple[Any, ...]]:
    from creekdb.datatypes import sql  # noqa: PLC0415 - at the first use

    return sql.sample(random)


if find_spec(REQUIRED_PACKAGE) is not None:
    DATATYPES.add_import("sql", _import_sql)
    SAMPLERS["sql"] = _sample_sql


def get_datatype(name: str) -> DataType:
    """Return the data type with this name, or raise `UnknownName`."""
    if name not in DATATYPES:
        if name == "sql":
            load_sql_engine(name)  # raises an error that names the missing package
        raise UnknownName("data type", name, list(DATATYPES))
    return DATATYPES[name]
