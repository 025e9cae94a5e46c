"""Payment (clause 2.5): adds a customer's payment to the sums of a warehouse and a district.

The customer may belong to another warehouse than the one that receives the payment. In the layout
`rows`, payments at a warehouse conflict with each other and with the New-Orders of their districts.
"""

from typing import Any

from creekdb.execution.transaction import Transaction
from creekdb.tpcc.layout import TpccTables, find_customer
from creekdb.tpcc.schema import (
    C_BALANCE,
    C_CREDIT,
    C_DATA,
    C_DISCOUNT,
    C_PAYMENT_CNT,
    C_YTD_PAYMENT,
    D_NAME,
    D_STREET_1,
    D_YTD,
    D_ZIP,
    W_NAME,
    W_STREET_1,
    W_YTD,
    W_ZIP,
)

BAD_CREDIT = "BC"
DATA_MAX = 500
DATA_SHOWN = 200


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
