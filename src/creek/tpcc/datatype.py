"""TPC-C as a data type: the five transactions on registers of one layout."""

from functools import lru_cache, partial
from typing import Final

from creek.execution.datatype import DataType
from creek.tpcc.delivery import delivery
from creek.tpcc.layout import LAYOUTS as LAYOUTS
from creek.tpcc.layout import Tables
from creek.tpcc.new_order import new_order
from creek.tpcc.order_status import order_status
from creek.tpcc.payment import payment
from creek.tpcc.stock_level import stock_level

TRANSACTIONS: Final = (new_order, payment, delivery)
QUERIES: Final = (order_status, stock_level)


@lru_cache(len(LAYOUTS))
def datatype(layout: str) -> DataType:
    """`tpcc-rows` or `tpcc-fine`, to be run on a `PopulationBase` of the same layout."""
    tables = Tables(layout)
    declared = DataType(f"tpcc-{layout}")
    for transaction in TRANSACTIONS:
        declared.operation(name=transaction.__name__)(partial(transaction, tables))
    for query in QUERIES:
        declared.operation(name=query.__name__, readonly=True)(partial(query, tables))
    return declared
