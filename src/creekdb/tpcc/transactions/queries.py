"""The read-only transactions Order-Status and Stock-Level.

Order-Status (clause 2.6) reports the state of a customer's last order. Stock-Level (clause 2.8)
counts the recently ordered items that are low in stock.
"""

from typing import Any

from creekdb.execution.transaction import Transaction
from creekdb.tpcc.layout import LAST_ORDER, TpccTables, find_customer
from creekdb.tpcc.schema import (
    C_BALANCE,
    C_FIRST,
    C_LAST,
    D_NEXT_O_ID,
    O_CARRIER_ID,
    O_ENTRY_D,
    O_OL_CNT,
    OL_AMOUNT,
    OL_DELIVERY_D,
    OL_I_ID,
    S_QUANTITY,
)


def order_status(
    tables: TpccTables, tx: Transaction, w: int, d: int, customer: int | str
) -> tuple[Any, ...]:
    """Report the last order of a customer.

    Return (customer's number, first, middle and last name, balance, order, date, carrier) and, for
    each line, (item, supplying warehouse, quantity, amount, date of delivery or None).
    """
    c = find_customer(tx, w, d, customer)
    row = tables.customer.row(tx, w, d, c)
    names = row.fixed[C_FIRST : C_LAST + 1]
    balance = row.get(C_BALANCE)
    number = tx.get((LAST_ORDER, w, d, c))
    order = tables.orders.row(tx, w, d, number)
    fixed = order.fixed
    line_results: list[tuple[Any, ...]] = []
    for index in range(1, fixed[O_OL_CNT] + 1):
        line = tables.order_line.row(tx, w, d, number, index)
        line_results.append((*line.fixed[OL_I_ID : OL_AMOUNT + 1], line.get(OL_DELIVERY_D)))
    return (c, *names, balance, number, fixed[O_ENTRY_D], order.get(O_CARRIER_ID), *line_results)


RECENT_ORDERS = 20


def stock_level(tables: TpccTables, tx: Transaction, w: int, d: int, threshold: int) -> int:
    """Return the number of distinct items, among the last twenty orders of the district, with a
    stock below `threshold` at its warehouse."""
    stop = tables.district.value(tx, D_NEXT_O_ID, w, d)
    items: dict[int, None] = {}
    pick = tables.order_line.pick
    for order in range(stop - RECENT_ORDERS, stop):
        (count,) = tables.orders.pick(tx, (w, d, order), O_OL_CNT)
        for number in range(1, count + 1):
            items[pick(tx, (w, d, order, number), OL_I_ID)[0]] = None
    value = tables.stock.value
    return sum([value(tx, S_QUANTITY, w, i) < threshold for i in items])
