"""The nine tables of TPC-C (clause 1.3), their columns and their initial sizes.

A row is a flat tuple of its columns without those of its key. The store passes tuples on without
copying them, and a position is the fastest way to address a column. Three rules keep rows small and
equal in every process:

- money is an integer number of cents, a tax or discount of ten-thousandths, a date of microseconds;
- an empty column is None;
- S_DIST_01 to S_DIST_10 form one text of ten times 24 characters, which the reader slices.

Columns are ordered *fixed*, *mutable*, *sums*. Fixed columns never change after the insertion of
the row. Mutable columns are set, mostly to values that depend on the old one. Sums are integers
that transactions increase and decrease, mostly without reading them. A layout of registers may
separate the three groups (`creekdb.tpcc.layout`). Fixed columns come first, so they have the same
position in every layout.

HISTORY has no key in the specification. Its key is the customer and the number of the payment among
the payments of that customer, which is C_PAYMENT_CNT.
"""

from math import prod
from typing import Final, NamedTuple

DISTRICTS: Final = 10
CUSTOMERS: Final = 3_000
"""Customers per district, and its initial orders: one per customer."""
ITEMS: Final = 100_000
DELIVERED: Final = 2_100
"""Last initial order of a district that is delivered. The other 900 start as new orders."""
LINES_MIN: Final = 5
LINES_MAX: Final = 15
DISTRICT_TEXT: Final = 24
"""Length of S_DIST_xx and OL_DIST_INFO, in characters."""

INITIAL_PAYMENT: Final = 10_00
"""Initial payment of every customer, in cents: H_AMOUNT, C_YTD_PAYMENT and minus C_BALANCE."""
INITIAL_D_YTD: Final = CUSTOMERS * INITIAL_PAYMENT
INITIAL_W_YTD: Final = DISTRICTS * INITIAL_D_YTD
POPULATED_AT: Final = 0
"""Date of all initial rows, in microseconds."""


_DISTRICT_NUMBERS: Final = range(1, DISTRICTS + 1)
_CUSTOMER_NUMBERS: Final = range(1, CUSTOMERS + 1)
_ITEM_NUMBERS: Final = range(1, ITEMS + 1)


class TableSchema(NamedTuple):
    name: str
    key: tuple[str, ...]
    numbers: tuple[range, ...]
    """Initial values of each part of the key, without the warehouse and without OL_NUMBER."""
    fixed: tuple[str, ...] = ()
    mutable: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a row, in order."""
        return self.fixed + self.mutable + self.sums

    @property
    def has_warehouse(self) -> bool:
        """True if the key begins with a warehouse."""
        return self.key[0].endswith("w_id")

    @property
    def initial_units(self) -> int:
        """Initial rows per warehouse; of ORDER_LINE, the orders that rows belong to."""
        return prod(map(len, self.numbers))


WAREHOUSE: Final = TableSchema(
    "warehouse",
    key=("w_id",),
    numbers=(),
    fixed=("w_name", "w_street_1", "w_street_2", "w_city", "w_state", "w_zip", "w_tax"),
    sums=("w_ytd",),
)
W_NAME, W_STREET_1, W_STREET_2, W_CITY, W_STATE, W_ZIP, W_TAX, W_YTD = range(8)

DISTRICT: Final = TableSchema(
    "district",
    key=("d_w_id", "d_id"),
    numbers=(_DISTRICT_NUMBERS,),
    fixed=("d_name", "d_street_1", "d_street_2", "d_city", "d_state", "d_zip", "d_tax"),
    mutable=("d_next_o_id",),
    sums=("d_ytd",),
)
D_NAME, D_STREET_1, D_STREET_2, D_CITY, D_STATE, D_ZIP, D_TAX, D_NEXT_O_ID, D_YTD = range(9)

CUSTOMER: Final = TableSchema(
    "customer",
    key=("c_w_id", "c_d_id", "c_id"),
    numbers=(_DISTRICT_NUMBERS, _CUSTOMER_NUMBERS),
    fixed=(
        *("c_first", "c_middle", "c_last"),
        *("c_street_1", "c_street_2", "c_city", "c_state", "c_zip"),
        *("c_phone", "c_since", "c_credit", "c_credit_lim", "c_discount"),
    ),
    mutable=("c_data",),
    sums=("c_balance", "c_ytd_payment", "c_payment_cnt", "c_delivery_cnt"),
)
C_FIRST, C_MIDDLE, C_LAST, C_STREET_1, C_STREET_2, C_CITY, C_STATE, C_ZIP = range(8)
C_PHONE, C_SINCE, C_CREDIT, C_CREDIT_LIM, C_DISCOUNT, C_DATA = range(8, 14)
C_BALANCE, C_YTD_PAYMENT, C_PAYMENT_CNT, C_DELIVERY_CNT = range(14, 18)

HISTORY: Final = TableSchema(
    "history",
    key=("h_c_w_id", "h_c_d_id", "h_c_id", "h_number"),
    numbers=(_DISTRICT_NUMBERS, _CUSTOMER_NUMBERS, range(1, 2)),
    fixed=("h_w_id", "h_d_id", "h_date", "h_amount", "h_data"),
)
H_W_ID, H_D_ID, H_DATE, H_AMOUNT, H_DATA = range(5)

NEW_ORDER: Final = TableSchema(
    "new_order",
    key=("no_w_id", "no_d_id", "no_o_id"),
    numbers=(_DISTRICT_NUMBERS, _CUSTOMER_NUMBERS[DELIVERED:]),
)

ORDERS: Final = TableSchema(
    "orders",
    key=("o_w_id", "o_d_id", "o_id"),
    numbers=(_DISTRICT_NUMBERS, _CUSTOMER_NUMBERS),
    fixed=("o_c_id", "o_entry_d", "o_ol_cnt", "o_all_local"),
    mutable=("o_carrier_id",),
)
O_C_ID, O_ENTRY_D, O_OL_CNT, O_ALL_LOCAL, O_CARRIER_ID = range(5)

ORDER_LINE: Final = TableSchema(
    "order_line",
    key=("ol_w_id", "ol_d_id", "ol_o_id", "ol_number"),
    numbers=(_DISTRICT_NUMBERS, _CUSTOMER_NUMBERS),
    fixed=("ol_i_id", "ol_supply_w_id", "ol_quantity", "ol_amount", "ol_dist_info"),
    mutable=("ol_delivery_d",),
)
OL_I_ID, OL_SUPPLY_W_ID, OL_QUANTITY, OL_AMOUNT, OL_DIST_INFO, OL_DELIVERY_D = range(6)

ITEM: Final = TableSchema(
    "item",
    key=("i_id",),
    numbers=(_ITEM_NUMBERS,),
    fixed=("i_im_id", "i_name", "i_price", "i_data"),
)
I_IM_ID, I_NAME, I_PRICE, I_DATA = range(4)

STOCK: Final = TableSchema(
    "stock",
    key=("s_w_id", "s_i_id"),
    numbers=(_ITEM_NUMBERS,),
    fixed=("s_dist", "s_data"),
    mutable=("s_quantity",),
    sums=("s_ytd", "s_order_cnt", "s_remote_cnt"),
)
S_DIST, S_DATA, S_QUANTITY, S_YTD, S_ORDER_CNT, S_REMOTE_CNT = range(6)

TABLES: Final = {
    table.name: table
    for table in (
        *(WAREHOUSE, DISTRICT, CUSTOMER, HISTORY, NEW_ORDER),
        *(ORDERS, ORDER_LINE, ITEM, STOCK),
    )
}

TEXT_COLUMNS: Final = frozenset(
    (
        *("w_name", "w_street_1", "w_street_2", "w_city", "w_state", "w_zip"),
        *("d_name", "d_street_1", "d_street_2", "d_city", "d_state", "d_zip"),
        *("c_first", "c_middle", "c_last", "c_street_1", "c_street_2", "c_city", "c_state"),
        *("c_zip", "c_phone", "c_credit", "c_data"),
        *("h_data", "ol_dist_info", "i_name", "i_data", "s_dist", "s_data"),
    )
)
"""Columns with texts. All other columns are integers."""
NULLABLE_COLUMNS: Final = frozenset(("o_carrier_id", "ol_delivery_d"))
"""Columns that may be None."""
