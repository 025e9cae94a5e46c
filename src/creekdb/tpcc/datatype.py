"""Answers without the numbers that orders got.

Two New-Orders of one district that are asked for at different replicas within the time that a
message takes are both answered before either replica knows of the other: with the same number, and
one of them gets another number in the end, whatever the scheme. That alone keeps tentative answers
from being as accurate as the paper has them (Section 6.3: all of them, with 20 warehouses), so what
it compares must leave the numbers out. Here is what is left.

TPC-C as a data type: the five transactions on registers of one layout.

With its initial data, it is a data type whose name says all that is needed to build it again:
`tpcc-rows-5-0` is layout `rows`, five warehouses, and the population of seed 0. So a run that was
kept can be checked.
"""

import re
from functools import lru_cache, partial
from typing import Any, Final

from creekdb.errors import UnknownName
from creekdb.execution.base_state import BaseState
from creekdb.execution.datatype import DataType
from creekdb.tpcc.layout import LAYOUTS as LAYOUTS
from creekdb.tpcc.layout import TpccTables
from creekdb.tpcc.population.registers import PopulationBase
from creekdb.tpcc.population.rows import Population
from creekdb.tpcc.transactions.orders import delivery, new_order
from creekdb.tpcc.transactions.payment import payment
from creekdb.tpcc.transactions.queries import order_status, stock_level

ORDER_STATUS_NUMBER_INDEX = 5


def without_order_numbers(operation: str, answer: Any) -> Any:
    """What a transaction told its client, but for the numbers of orders."""
    if type(answer) is not tuple:
        return answer
    match operation:
        case "new_order":
            return answer[1:]
        case "delivery":
            return tuple([number is not None for number in answer])
        case "order_status":
            return (*answer[:ORDER_STATUS_NUMBER_INDEX], *answer[ORDER_STATUS_NUMBER_INDEX + 1 :])
        case _:
            return answer


UPDATE_TRANSACTIONS: Final = (new_order, payment, delivery)
READ_TRANSACTIONS: Final = (order_status, stock_level)

_POPULATED = re.compile(rf"tpcc-({'|'.join(LAYOUTS)})-(\d+)-(-?\d+)", re.ASCII)


@lru_cache(len(LAYOUTS))
def tpcc_datatype(layout: str) -> DataType:
    """`tpcc-rows` or `tpcc-fine`, to be run on a `PopulationBase` of the same layout."""
    return _declare_datatype(f"tpcc-{layout}", layout, None)


def populated_datatype_name(layout: str, warehouses: int, seed: int) -> str:
    if layout not in LAYOUTS:
        raise UnknownName("layout", layout, LAYOUTS)
    return f"tpcc-{layout}-{warehouses}-{seed}"


@lru_cache(1)
def populated_datatype(name: str) -> DataType:
    """The data type of that `populated_name`, which begins with its population. The same object
    each time, as long as no other is asked for: replicas share what it has computed."""
    match = _POPULATED.fullmatch(name)
    if match is None:
        raise UnknownName("data type", name, (populated_datatype_name("rows", 5, 0),))
    layout, warehouses, seed = match[1], int(match[2]), int(match[3])
    return datatype_on_population(Population(seed, warehouses), layout)


def datatype_on_population(population: Population, layout: str) -> DataType:
    """The same with a population that is there already, computed or read from somewhere."""
    name = populated_datatype_name(layout, population.warehouses, population.seed)
    return _declare_datatype(name, layout, PopulationBase(population, layout))


def _declare_datatype(name: str, layout: str, base: BaseState | None) -> DataType:
    tables = TpccTables(layout)
    declared = DataType(name, base=base)
    for transaction in UPDATE_TRANSACTIONS:
        declared.operation(name=transaction.__name__)(partial(transaction, tables))
    for query in READ_TRANSACTIONS:
        declared.operation(name=query.__name__, readonly=True)(partial(query, tables))
    return declared
