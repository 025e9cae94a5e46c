"""Stock-Level (clause 2.8): how many recently ordered items are low in stock. Writes nothing."""

from creekdb.execution.transaction import Transaction
from creekdb.tpcc.layout import Tables
from creekdb.tpcc.schema import D_NEXT_O_ID, O_OL_CNT, OL_I_ID, S_QUANTITY

ORDERS_SEEN = 20


def stock_level(tables: Tables, tx: Transaction, w: int, d: int, threshold: int) -> int:
    """Answers how many distinct items in the last twenty orders of the district are in stock, at
    its warehouse, with less than `threshold`."""
    stop = tables.district.value(tx, D_NEXT_O_ID, w, d)
    items: dict[int, None] = {}
    pick = tables.order_line.pick
    for order in range(stop - ORDERS_SEEN, stop):
        (count,) = tables.orders.pick(tx, (w, d, order), O_OL_CNT)
        for number in range(1, count + 1):
            items[pick(tx, (w, d, order, number), OL_I_ID)[0]] = None
    value = tables.stock.value
    return sum([value(tx, S_QUANTITY, w, i) < threshold for i in items])
