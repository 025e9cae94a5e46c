"""Ready-made data types, one per module, and the table of them.

A module defines a `DataType` and `sample`, which draws a random plausible operation for tests and
simulations from a seeded generator. Data types are independent of the replication scheme.
"""

from collections.abc import Callable
from importlib.util import find_spec
from random import Random
from typing import Any, TypeAlias

from creekdb.datatypes import bank, counter, kv, lists, register, transactions
from creekdb.errors import UnknownName
from creekdb.execution.datatype import DataType as DataType
from creekdb.execution.sql_engine import REQUIRED_PACKAGE, load_sql_engine

OperationSampler: TypeAlias = Callable[[Random], tuple[str, tuple[Any, ...]]]
"""Draws the name and the arguments of an operation."""

DATATYPES: dict[str, DataType] = {
    each.name: each
    for each in (
        register.REGISTER,
        counter.COUNTER,
        lists.LIST,
        kv.KV,
        bank.BANK,
        transactions.TRANSACTIONS,
    )
}

SAMPLERS: dict[str, OperationSampler] = {
    register.REGISTER.name: register.sample,
    counter.COUNTER.name: counter.sample,
    lists.LIST.name: lists.sample,
    kv.KV.name: kv.sample,
    bank.BANK.name: bank.sample,
    transactions.TRANSACTIONS.name: transactions.sample,
}


if find_spec(REQUIRED_PACKAGE) is not None:
    from creekdb.datatypes import sql

    DATATYPES[sql.SQL.name] = sql.SQL
    SAMPLERS[sql.SQL.name] = sql.sample


def get_datatype(name: str) -> DataType:
    """Return the data type with this name, or raise `UnknownName`."""
    if name not in DATATYPES:
        if name == "sql":
            load_sql_engine(name)  # raises an error that names the missing package
        raise UnknownName("data type", name, list(DATATYPES))
    return DATATYPES[name]
