"""New-Order and Delivery.

New-Order (clause 2.4): a customer orders five to fifteen items from one or more warehouses.
Conflicts come from D_NEXT_O_ID, which numbers the orders of a district, and from the stock of
frequently ordered items.

Delivery (clause 2.7): delivers the oldest new order of each district of a warehouse. One
transaction covers all ten districts, as clause 2.7.4.2 permits. Districts without a new order are
skipped. Deliveries of one warehouse conflict with each other, and rarely with other transactions.
"""

from typing import Any

from creekdb.execution.transaction import Transaction
from creekdb.tpcc.layout import LAST_ORDER, OLDEST_NEW_ORDER, TpccTables
from creekdb.tpcc.population.random_values import ORIGINAL_MARK
from creekdb.tpcc.schema import (
    C_BALANCE,
    C_CREDIT,
    C_DELIVERY_CNT,
    C_DISCOUNT,
    C_LAST,
    D_NEXT_O_ID,
    D_TAX,
    DISTRICT_TEXT,
    DISTRICTS,
    I_DATA,
    I_NAME,
    I_PRICE,
    O_C_ID,
    O_CARRIER_ID,
    O_OL_CNT,
    OL_AMOUNT,
    OL_DELIVERY_D,
    S_DATA,
    S_DIST,
    S_ORDER_CNT,
    S_QUANTITY,
    S_REMOTE_CNT,
    S_YTD,
    W_TAX,
)

REORDER_MARGIN = 10
REORDER_AMOUNT = 91
RATE_SCALE = 10_000
"""Representation of a tax or discount of 100 %."""


class UnusedItem(Exception):
    """An order contains an unused item number: the transaction rolls back (clause 2.4.2.3)."""


def new_order(
    tables: TpccTables,
    tx: Transaction,
    w: int,
    d: int,
    c: int,
    lines: tuple[tuple[int, int, int], ...],
) -> tuple[Any, ...]:
    """Order `lines` of (item, supplying warehouse, quantity).

    Return (order, date, last name, credit, discount, tax of the warehouse, tax of the district,
    total) and, for each line, (name, remaining stock, brand or generic, price, amount).
    """
    now = tx.timestamp
    (w_tax,) = tables.warehouse.pick(tx, (w,), W_TAX)
    district = tables.district.row(tx, w, d)
    d_tax = district.fixed[D_TAX]
    order = district.get(D_NEXT_O_ID)
    district.set(D_NEXT_O_ID, order + 1)
    district.save()
    last, credit, discount = tables.customer.pick(tx, (w, d, c), C_LAST, C_CREDIT, C_DISCOUNT)
    all_local = 1
    for _, supplier, _ in lines:
        if supplier != w:
            all_local = 0
    tables.orders.insert(tx, (w, d, order), (c, now, len(lines), all_local, None))
    tables.new_order.insert(tx, (w, d, order), ())
    tx.put((LAST_ORDER, w, d, c), order)

    total = 0
    line_results: list[tuple[Any, ...]] = []
    for number, (i, supplier, quantity) in enumerate(lines, 1):
        item = tables.item.find(tx, i)
        if item is None:
            raise UnusedItem("Item number is not valid")
        stock, remaining = _take_stock(tables, tx, supplier, i, quantity, supplier != w)
        price = item[I_PRICE]
        amount = quantity * price
        total += amount
        info = stock[S_DIST][(d - 1) * DISTRICT_TEXT : d * DISTRICT_TEXT]
        tables.order_line.insert(
            tx, (w, d, order, number), (i, supplier, quantity, amount, info, None)
        )
        brand = "B" if ORIGINAL_MARK in item[I_DATA] and ORIGINAL_MARK in stock[S_DATA] else "G"
        line_results.append((item[I_NAME], remaining, brand, price, amount))

    scaled_total = total * (RATE_SCALE - discount) * (RATE_SCALE + w_tax + d_tax)
    rounded = (scaled_total + RATE_SCALE * RATE_SCALE // 2) // (RATE_SCALE * RATE_SCALE)
    head = (order, now, last, credit, discount, w_tax, d_tax, rounded)
    return (*head, *line_results)


def _take_stock(
    tables: TpccTables, tx: Transaction, w: int, i: int, quantity: int, is_remote: bool
) -> tuple[tuple[Any, ...], int]:
    """Reduce and, if low, refill a stock; return its fixed columns and the new quantity."""
    stock = tables.stock.row(tx, w, i)
    fixed = stock.fixed
    remaining: int = stock.get(S_QUANTITY) - quantity
    if remaining < REORDER_MARGIN:
        remaining += REORDER_AMOUNT
    stock.set(S_QUANTITY, remaining)
    stock.add(S_YTD, quantity)
    stock.add(S_ORDER_CNT, 1)
    if is_remote:
        stock.add(S_REMOTE_CNT, 1)
    stock.save()
    return fixed, remaining


def delivery(tables: TpccTables, tx: Transaction, w: int, carrier: int) -> tuple[int | None, ...]:
    """Return the number of the delivered order, or None, for each district."""
    return tuple([_deliver(tables, tx, w, d, carrier) for d in range(1, DISTRICTS + 1)])


def _deliver(tables: TpccTables, tx: Transaction, w: int, d: int, carrier: int) -> int | None:
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
