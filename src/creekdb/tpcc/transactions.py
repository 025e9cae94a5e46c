"""The five transactions of TPC-C, on the tables of the layouts `rows` and `fine`.

New-Order (clause 2.4): a customer orders five to fifteen items from one or more warehouses.
Conflicts come from D_NEXT_O_ID, which numbers the orders of a district, and from the stock of
frequently ordered items.

Payment (clause 2.5): adds a customer's payment to the sums of a warehouse and a district. The
customer may belong to another warehouse than the one that receives the payment. In the layout
`rows`, payments at a warehouse conflict with each other and with the New-Orders of their districts.

Delivery (clause 2.7): delivers the oldest new order of each district of a warehouse. One
transaction covers all ten districts, as clause 2.7.4.2 permits. Districts without a new order are
skipped. Deliveries of one warehouse conflict with each other, and rarely with other transactions.

Two transactions are read-only. Order-Status (clause 2.6) reports the state of a customer's last
order. Stock-Level (clause 2.8) counts the recently ordered items that are low in stock.
"""

from typing import Any

from creekdb.execution.transaction import Transaction
from creekdb.tpcc.layout import LAST_ORDER, OLDEST_NEW_ORDER, TpccTables, find_customer
from creekdb.tpcc.population.random_values import ORIGINAL_MARK
from creekdb.tpcc.schema import (
    C_BALANCE,
    C_CREDIT,
    C_DATA,
    C_DELIVERY_CNT,
    C_DISCOUNT,
    C_FIRST,
    C_LAST,
    C_PAYMENT_CNT,
    C_YTD_PAYMENT,
    D_NAME,
    D_NEXT_O_ID,
    D_STREET_1,
    D_TAX,
    D_YTD,
    D_ZIP,
    DISTRICT_TEXT,
    DISTRICTS,
    I_DATA,
    I_NAME,
    I_PRICE,
    O_C_ID,
    O_CARRIER_ID,
    O_ENTRY_D,
    O_OL_CNT,
    OL_AMOUNT,
    OL_DELIVERY_D,
    OL_I_ID,
    S_DATA,
    S_DIST,
    S_ORDER_CNT,
    S_QUANTITY,
    S_REMOTE_CNT,
    S_YTD,
    W_NAME,
    W_STREET_1,
    W_TAX,
    W_YTD,
    W_ZIP,
)

REORDER_MARGIN = 10
REORDER_AMOUNT = 91
RATE_SCALE = 10_000
"""Representation of a tax or discount of 100 %."""
BAD_CREDIT = "BC"
DATA_MAX = 500
DATA_SHOWN = 200
RECENT_ORDERS = 20


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

    rounded = rounded_total(total, discount, w_tax, d_tax)
    head = (order, now, last, credit, discount, w_tax, d_tax, rounded)
    return (*head, *line_results)


def rounded_total(total: int, discount: int, w_tax: int, d_tax: int) -> int:
    """Return the total of an order, with discount and taxes, in cents."""
    scaled_total = total * (RATE_SCALE - discount) * (RATE_SCALE + w_tax + d_tax)
    return (scaled_total + RATE_SCALE * RATE_SCALE // 2) // (RATE_SCALE * RATE_SCALE)


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


def payment(
    tables: TpccTables,
    tx: Transaction,
    w: int,
    d: int,
    c_w: int,
    c_d: int,
    customer: int | str,
    amount: int,
) -> tuple[Any, ...]:
    """Charge `amount` to the customer with this number, or to the middle one with this last name.

    Return the customer's number, the date, both addresses from the street to the zip code, the
    customer's columns from C_FIRST to C_DISCOUNT, and the new balance. The last element is the
    beginning of C_DATA if the credit is bad, else None.
    """
    now = tx.timestamp
    warehouse = tables.warehouse.row(tx, w)
    w_fixed = warehouse.fixed
    warehouse.add(W_YTD, amount)
    warehouse.save()
    district = tables.district.row(tx, w, d)
    d_fixed = district.fixed
    district.add(D_YTD, amount)
    district.save()

    c = find_customer(tx, c_w, c_d, customer)
    row = tables.customer.row(tx, c_w, c_d, c)
    fixed = row.fixed
    row.add(C_BALANCE, -amount)
    row.add(C_YTD_PAYMENT, amount)
    row.add(C_PAYMENT_CNT, 1)
    shown_data = None
    if fixed[C_CREDIT] == BAD_CREDIT:
        entry = f"{c} {c_d} {c_w} {d} {w} {amount // 100}.{amount % 100:02} "
        data = (entry + row.get(C_DATA))[:DATA_MAX]
        row.set(C_DATA, data)
        shown_data = data[:DATA_SHOWN]
    balance = row.get(C_BALANCE)
    number = row.get(C_PAYMENT_CNT)
    row.save()

    data = f"{w_fixed[W_NAME]}    {d_fixed[D_NAME]}"
    tables.history.insert(tx, (c_w, c_d, c, number), (w, d, now, amount, data))
    return (
        c,
        now,
        *w_fixed[W_STREET_1 : W_ZIP + 1],
        *d_fixed[D_STREET_1 : D_ZIP + 1],
        *fixed[: C_DISCOUNT + 1],
        balance,
        shown_data,
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
