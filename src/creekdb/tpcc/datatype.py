"""TPC-C as a data type: the five transactions on the registers of one layout.

With its initial data, the name of the data type suffices to build it again. `tpcc-rows-5-0` is the
layout `rows`, five warehouses, and the population of seed 0. So a recorded run can be verified.

`without_order_numbers` removes the order numbers from a response. Two New-Orders of one district,
submitted at different replicas within one message delay, execute before either replica receives the
other. Both responses contain the same number, and one of them later changes, under every scheme.
This alone keeps tentative responses below the accuracy that the paper reports (Section 6.3: all
accurate with 20 warehouses). Its comparison must therefore exclude the numbers.
"""

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

from creekdb.errors import UnknownName
from creekdb.execution.datatype import DataType
from creekdb.tpcc import sql_transactions, transactions
from creekdb.tpcc.footprints import TpccFootprints
from creekdb.tpcc.layout import LAYOUTS, TpccTables, check_layout
from creekdb.tpcc.population.registers import PopulationBase
from creekdb.tpcc.population.rows import Population

ORDER_STATUS_NUMBER_INDEX = 5


def without_order_numbers(operation: str, response: Any) -> Any:
    """Return the response of a transaction without the numbers of orders."""
    if type(response) is not tuple:
        return response
    match operation:
        case "new_order":
            return response[1:]
        case "delivery":
            return tuple([number is not None for number in response])
        case "order_status":
            number = ORDER_STATUS_NUMBER_INDEX
            return response[:number] + response[number + 1 :]
        case _:
            return response


UPDATE_TRANSACTIONS: Final = ("new_order", "payment", "delivery")
READ_TRANSACTIONS: Final = ("order_status", "stock_level")

_POPULATED = re.compile(rf"tpcc-({'|'.join(LAYOUTS)})-(\d+)-(-?\d+)", re.ASCII)


def populated_datatype_name(layout: str, warehouses: int, seed: int) -> str:
    check_layout(layout)
    return f"tpcc-{layout}-{warehouses}-{seed}"


@lru_cache(1)
def populated_datatype(name: str) -> DataType:
    """Return the data type with that name (see `populated_datatype_name`) and its population.

    Repeated calls with one name return the same object, so that replicas share its cached rows.
    """
    match = _POPULATED.fullmatch(name)
    if match is None:
        raise UnknownName("data type", name, (populated_datatype_name("rows", 5, 0),))
    layout, warehouses, seed = match[1], int(match[2]), int(match[3])
    return datatype_on_population(Population(seed, warehouses), layout)


def datatype_on_population(population: Population, layout: str) -> DataType:
    """Return the data type for an existing population, computed or loaded."""
    name = populated_datatype_name(layout, population.warehouses, population.seed)
    datatype = DataType(name, base=PopulationBase(population, layout), sql=layout == "sql")
    footprints = TpccFootprints(layout)
    functions = transaction_functions(layout)
    for transaction in (*UPDATE_TRANSACTIONS, *READ_TRANSACTIONS):
        datatype.operation(
            name=transaction,
            readonly=transaction in READ_TRANSACTIONS,
            touches=footprints.touches[transaction],
            reads=footprints.reads[transaction],
        )(functions[transaction])
    return datatype


def transaction_functions(layout: str) -> dict[str, Callable[..., Any]]:
    """Return the five transactions by name."""
    names = (*UPDATE_TRANSACTIONS, *READ_TRANSACTIONS)
    if layout == "sql":
        return {name: getattr(sql_transactions, name) for name in names}
    tables = TpccTables(layout)
    return {name: partial(getattr(transactions, name), tables) for name in names}
