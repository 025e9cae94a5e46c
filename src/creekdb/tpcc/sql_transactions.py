"""The five transactions of TPC-C as SQL statements inside operations, for the layout `sql`.

Arguments, responses, errors and effects are those of `creekdb.tpcc.transactions`. Statements that
change a row also return what the transaction shows of it.

A statement is compiled once per text. The texts depend on the number of items of an order at most.
"""

from functools import cache
from typing import Any, Final

from creekdb.execution.transaction import Transaction
from creekdb.tpcc.population.random_values import ORIGINAL_MARK
from creekdb.tpcc.schema import C_CREDIT, CUSTOMER, DISTRICT_TEXT, DISTRICTS, ORDER_LINE
from creekdb.tpcc.transactions import (
    BAD_CREDIT,
    DATA_MAX,
    DATA_SHOWN,
    RECENT_ORDERS,
    REORDER_AMOUNT,
    REORDER_MARGIN,
    UnusedItem,
    rounded_total,
)

# --- New-Order -----------------------------------------------------------------------------------

_TAX: Final = "SELECT w_tax FROM warehouse WHERE w_id = ?"
_NEXT_ORDER: Final = """
UPDATE district SET d_next_o_id = d_next_o_id + 1
WHERE d_w_id = ? AND d_id = ?
RETURNING d_tax, d_next_o_id
"""
_ORDERING_CUSTOMER: Final = """
SELECT c_last, c_credit, c_discount FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?
"""
_INSERT_ORDER: Final = "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, NULL)"
_INSERT_NEW_ORDER: Final = "INSERT INTO new_order VALUES (?, ?, ?)"
_TAKE_STOCK: Final = f"""
UPDATE stock SET
    s_quantity = s_quantity - ?1 + iif(s_quantity - ?1 < {REORDER_MARGIN}, {REORDER_AMOUNT}, 0),
    s_ytd = s_ytd + ?1,
    s_order_cnt = s_order_cnt + 1,
    s_remote_cnt = s_remote_cnt + ?2
WHERE s_w_id = ?3 AND s_i_id = ?4
RETURNING s_quantity, s_data, s_dist
"""


@cache
def _select_items(count: int) -> str:
    marks = ", ".join("?" * count)
    return f"SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN ({marks})"


@cache
def _insert_lines(count: int) -> str:
    width = len(ORDER_LINE.key) + len(ORDER_LINE.columns)
    row = f"({', '.join('?' * (width - 1))}, NULL)"
    return f"INSERT INTO order_line VALUES {', '.join([row] * count)}"


def new_order(
    tx: Transaction, w: Any, d: Any, c: Any, lines: tuple[tuple[Any, Any, Any], ...]
) -> tuple[Any, ...]:
    now = tx.timestamp
    ((w_tax,),) = _rows(tx, "warehouse", (w,), _TAX, w)
    ((d_tax, next_order),) = _rows(tx, "district", (w, d), _NEXT_ORDER, w, d)
    order = next_order - 1
    ((last, credit, discount),) = _rows(tx, "customer", (w, d, c), _ORDERING_CUSTOMER, w, d, c)
    all_local = int(all(supplier == w for _, supplier, _ in lines))
    tx.sql(_INSERT_ORDER, w, d, order, c, now, len(lines), all_local)
    tx.sql(_INSERT_NEW_ORDER, w, d, order)

    numbers = list(dict.fromkeys(i for i, _, _ in lines))
    found = tx.sql(_select_items(len(numbers)), *numbers).rows if lines else ()
    items = {i: item for i, *item in found}
    total = 0
    inserted: list[Any] = []
    line_results: list[tuple[Any, ...]] = []
    for number, (i, supplier, quantity) in enumerate(lines, 1):
        if i not in items:
            raise UnusedItem("Item number is not valid")
        price, name, i_data = items[i]
        is_remote = supplier != w
        ((remaining, s_data, s_dist),) = _rows(
            *(tx, "stock", (supplier, i), _TAKE_STOCK), *(quantity, is_remote, supplier, i)
        )
        info = s_dist[(d - 1) * DISTRICT_TEXT : d * DISTRICT_TEXT]
        amount = quantity * price
        total += amount
        inserted += (w, d, order, number, i, supplier, quantity, amount, info)
        brand = "B" if ORIGINAL_MARK in i_data and ORIGINAL_MARK in s_data else "G"
        line_results.append((name, remaining, brand, price, amount))
    if lines:
        tx.sql(_insert_lines(len(lines)), *inserted)

    rounded = rounded_total(total, discount, w_tax, d_tax)
    return (order, now, last, credit, discount, w_tax, d_tax, rounded, *line_results)


# --- Delivery ------------------------------------------------------------------------------------

_OLDEST: Final = "SELECT o_id FROM oldest_new_order WHERE w_id = ? AND d_id = ?"
_NEXT_OLDEST: Final = "UPDATE oldest_new_order SET o_id = ? WHERE w_id = ? AND d_id = ?"
_DELETE_NEW_ORDER: Final = """
DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?
"""
_SET_CARRIER: Final = """
UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ? RETURNING o_c_id
"""
_DELIVER_LINES: Final = """
UPDATE order_line SET ol_delivery_d = ?
WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?
RETURNING ol_amount
"""
_CHARGE: Final = """
UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1
WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?
"""


def delivery(tx: Transaction, w: Any, carrier: Any) -> tuple[int | None, ...]:
    return tuple([_deliver(tx, w, d, carrier) for d in range(1, DISTRICTS + 1)])


def _deliver(tx: Transaction, w: Any, d: int, carrier: Any) -> int | None:
    ((number,),) = _rows(tx, "district", (w, d), _OLDEST, w, d)
    if tx.sql(_DELETE_NEW_ORDER, w, d, number).row_count == 0:
        return None
    tx.sql(_NEXT_OLDEST, number + 1, w, d)
    ((c,),) = tx.sql(_SET_CARRIER, carrier, w, d, number).rows
    amounts = tx.sql(_DELIVER_LINES, tx.timestamp, w, d, number).rows
    tx.sql(_CHARGE, sum([amount for (amount,) in amounts]), w, d, c)
    return int(number)


# --- Payment -------------------------------------------------------------------------------------

_PAY_WAREHOUSE: Final = """
UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?
RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip
"""
_PAY_DISTRICT: Final = """
UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?
RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip
"""
_NAMESAKES: Final = """
SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first, c_id
"""
_PAY: Final = f"""
UPDATE customer SET
    c_balance = c_balance - ?1,
    c_ytd_payment = c_ytd_payment + ?1,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = iif(c_credit = '{BAD_CREDIT}', substr(?2 || c_data, 1, {DATA_MAX}), c_data)
WHERE c_w_id = ?3 AND c_d_id = ?4 AND c_id = ?5
RETURNING {", ".join(CUSTOMER.fixed)}, c_balance, c_payment_cnt, c_data
"""
_INSERT_HISTORY: Final = "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


def payment(
    tx: Transaction, w: Any, d: Any, c_w: Any, c_d: Any, customer: Any, amount: Any
) -> tuple[Any, ...]:
    now = tx.timestamp
    ((w_name, *w_address),) = _rows(tx, "warehouse", (w,), _PAY_WAREHOUSE, amount, w)
    ((d_name, *d_address),) = _rows(tx, "district", (w, d), _PAY_DISTRICT, amount, w, d)
    c = _find_customer(tx, c_w, c_d, customer)
    entry = f"{c} {c_d} {c_w} {d} {w} {amount // 100}.{amount % 100:02} "
    ((*shown, number, c_data),) = _rows(
        *(tx, "customer", (c_w, c_d, c), _PAY),
        *(amount, entry, c_w, c_d, c),
    )
    data = f"{w_name}    {d_name}"
    tx.sql(_INSERT_HISTORY, c_w, c_d, c, number, w, d, now, amount, data)
    shown_data = c_data[:DATA_SHOWN] if shown[C_CREDIT] == BAD_CREDIT else None
    return (c, now, *w_address, *d_address, *shown, shown_data)


# --- Order-Status --------------------------------------------------------------------------------

_STATUS: Final = """
SELECT c_first, c_middle, c_last, c_balance FROM customer
WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?
"""
_LAST_ORDER: Final = """
SELECT o_id, o_entry_d, o_carrier_id FROM orders
WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ?
ORDER BY o_id DESC LIMIT 1
"""
_LINES: Final = """
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?
ORDER BY ol_number
"""


def order_status(tx: Transaction, w: Any, d: Any, customer: Any) -> tuple[Any, ...]:
    c = _find_customer(tx, w, d, customer)
    (named,) = _rows(tx, "customer", (w, d, c), _STATUS, w, d, c)
    (order,) = tx.sql(_LAST_ORDER, w, d, c).rows
    return (c, *named, *order, *tx.sql(_LINES, w, d, order[0]).rows)


# --- Stock-Level ---------------------------------------------------------------------------------

_NUMBER: Final = "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?"
_LOW_STOCK: Final = """
SELECT count(*) FROM (
    SELECT DISTINCT ol_i_id FROM order_line
    WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id >= ?3 AND ol_o_id < ?4
) JOIN stock ON s_w_id = ?1 AND s_i_id = ol_i_id
WHERE s_quantity < ?5
"""


def stock_level(tx: Transaction, w: Any, d: Any, threshold: Any) -> int:
    ((stop,),) = _rows(tx, "district", (w, d), _NUMBER, w, d)
    ((count,),) = tx.sql(_LOW_STOCK, w, d, stop - RECENT_ORDERS, stop, threshold).rows
    return int(count)


def _find_customer(tx: Transaction, w: Any, d: Any, customer: Any) -> int:
    """Return the customer's number, given the number or a last name (`find_customer` in layout)."""
    if type(customer) is int:
        return customer
    namesakes = tx.sql(_NAMESAKES, w, d, customer).rows
    if not namesakes:
        raise LookupError(f"no customer of district {w}, {d} is called {customer}")
    return int(namesakes[(len(namesakes) - 1) // 2][0])


def _rows(
    tx: Transaction, table: str, key: tuple[Any, ...], statement: str, *parameters: Any
) -> Any:
    """Execute a statement on a row that must exist, and return its rows."""
    rows = tx.sql(statement, *parameters).rows
    if not rows:
        raise LookupError(f"there is no {table} {', '.join(map(str, key))}")
    return rows
