"""Delivery (clause 2.7): the oldest new order of each district of a warehouse is delivered.

One transaction for all ten districts, as clause 2.7.4.2 permits. A district without a new order is
skipped. Deliveries of one warehouse conflict with each other, and with hardly anything else.
"""

from creekdb.execution.transaction import Transaction
from creekdb.tpcc.layout import OLDEST_NEW_ORDER, Tables
from creekdb.tpcc.schema import (
    C_BALANCE,
    C_DELIVERY_CNT,
    DISTRICTS,
    O_C_ID,
    O_CARRIER_ID,
    O_OL_CNT,
    OL_AMOUNT,
    OL_DELIVERY_D,
)


def delivery(tables: Tables, tx: Transaction, w: int, carrier: int) -> tuple[int | None, ...]:
    """Answers the number of the delivered order, or None, for each district."""
    return tuple([_deliver(tables, tx, w, d, carrier) for d in range(1, DISTRICTS + 1)])


def _deliver(tables: Tables, tx: Transaction, w: int, d: int, carrier: int) -> int | None:
    number: int | None = tx.get((OLDEST_NEW_ORDER, w, d))
    if number is None:
        raise LookupError(f"there is no district {w}, {d}")
    if tables.new_order.find(tx, w, d, number) is None:
        return None
    tables.new_order.delete(tx, w, d, number)
    tx.put((OLDEST_NEW_ORDER, w, d), number + 1)

    order = tables.orders.row(tx, w, d, number)
    fixed = order.fixed
    order.set(O_CARRIER_ID, carrier)
    order.save()
    now = tx.timestamp
    amount = 0
    for index in range(1, fixed[O_OL_CNT] + 1):
        line = tables.order_line.row(tx, w, d, number, index)
        amount += line.fixed[OL_AMOUNT]
        line.set(OL_DELIVERY_D, now)
        line.save()

    customer = tables.customer.row(tx, w, d, fixed[O_C_ID])
    customer.add(C_BALANCE, amount)
    customer.add(C_DELIVERY_CNT, 1)
    customer.save()
    return number
