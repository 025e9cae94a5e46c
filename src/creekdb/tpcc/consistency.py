"""TPC-C's consistency conditions (clause 3.3.2) as a check of a replica's state.

The twelve conditions are those of the specification, except for the eleventh. The original (orders
minus new orders are 2,100 in every district) holds for the population only, since every delivery
removes a new order. Here the difference must be 2,100 more than the deliveries that the district's
customers have counted. Both are equal initially, and this one is an invariant.

One more condition, `index`, is specific to this implementation: the index registers agree with the
rows. In the layout `sql`, these are the queue of new orders and the index of a customer's orders.

A state is the population and the registers that differ from it. The check covers all rows, or only
the *touched* ones. Touched are the orders and customers that a differing register belongs to, and
their districts. All other rows have their initial values, and contribute known amounts to the sums.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from sortedcontainers import SortedKeyList

from creekdb.execution.keys import collation_key, merge_sorted_keys, prefix_range
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.sql.catalog import INDEX_PREFIX, ROW_PREFIX
from creekdb.tpcc.layout import LAST_ORDER, OLDEST_NEW_ORDER, register_prefixes
from creekdb.tpcc.population.registers import PopulationBase
from creekdb.tpcc.schema import (
    C_BALANCE,
    C_DELIVERY_CNT,
    C_YTD_PAYMENT,
    CUSTOMER,
    CUSTOMERS,
    D_NEXT_O_ID,
    D_YTD,
    DELIVERED,
    DISTRICT,
    DISTRICTS,
    H_AMOUNT,
    H_D_ID,
    H_W_ID,
    HISTORY,
    INITIAL_D_YTD,
    INITIAL_PAYMENT,
    NEW_ORDER,
    O_C_ID,
    O_CARRIER_ID,
    O_OL_CNT,
    OL_AMOUNT,
    OL_DELIVERY_D,
    ORDER_LINE,
    ORDERS,
    TABLES,
    W_YTD,
    WAREHOUSE,
    TableSchema,
)

RowKey: TypeAlias = tuple[str | int, ...]
"""Name of a table, and the key of one of its rows."""
DistrictKey: TypeAlias = tuple[int, int]
"""A warehouse and one of its districts."""

_CUSTOMER_REGISTERS: Final = (CUSTOMER.name, HISTORY.name, LAST_ORDER)
_ORDER_REGISTERS: Final = (ORDERS.name, ORDER_LINE.name, NEW_ORDER.name)
_DISTRICT_REGISTERS: Final = (DISTRICT.name, OLDEST_NEW_ORDER)
_TABLE_OF_COLUMN: Final = {
    column: table.name for table in TABLES.values() for column in table.columns
}


CONDITIONS: Final = (*(f"3.3.2.{number}" for number in range(1, 13)), "index")
VIOLATIONS_MAX: Final = 20


class ConsistencyViolation(NamedTuple):
    condition: str
    """One of `CONDITIONS`."""
    row_key: RowKey
    """Key of the row that violates the condition."""
    message: str

    def __str__(self) -> str:
        return f"condition {self.condition} at {self.row_key}: {self.message}"


def find_violations(
    base: PopulationBase,
    overrides: Mapping[Key, Any],
    *,
    only_touched: bool = False,
    limit: int = VIOLATIONS_MAX,
) -> list[ConsistencyViolation]:
    """Return at most `limit` violations of the conditions; an empty list if all hold.

    The state is `base` with the registers in `overrides`, where `ABSENT` marks a deleted one.
    `only_touched` restricts the check to rows that an override belongs to.
    """
    scope = _touched_scope(overrides)
    if not only_touched:
        for w in range(1, base.population.warehouses + 1):
            for d in range(1, DISTRICTS + 1):
                scope[w, d].orders.update(range(1, CUSTOMERS + 1))
                scope[w, d].customers.update(range(1, CUSTOMERS + 1))
    return list(islice(_ConsistencyCheck(base, overrides, scope).violations(), limit))


class _DistrictScope(NamedTuple):
    """Orders and customers of one district to check."""

    orders: set[int]
    customers: set[int]


_Scope: TypeAlias = defaultdict[DistrictKey, _DistrictScope]


def _touched_scope(overrides: Mapping[Key, Any]) -> _Scope:
    scope: _Scope = defaultdict(lambda: _DistrictScope(set(), set()))
    for key in overrides:
        if not isinstance(key, tuple):
            continue
        name, parts = _located(key)
        if name == WAREHOUSE.name:
            parts, name = (*parts, 1), DISTRICT.name
        if name in _ORDER_REGISTERS:
            scope[parts[:2]].orders.add(parts[2])
        elif name in _CUSTOMER_REGISTERS:
            scope[parts[:2]].customers.add(parts[2])
        elif name in _DISTRICT_REGISTERS:
            scope[parts[:2]]  # adds the district
    return scope


def _located(key: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return the table or index of a register, and the key of the row without its names."""
    if key[0] == INDEX_PREFIX and key[1] == ORDERS.name:
        return ORDERS.name, key[-3:]  # an index entry ends with the key of its row
    if key[0] == ROW_PREFIX:
        return key[1], key[2:]
    return _TABLE_OF_COLUMN.get(str(key[0]), key[0]), key[1:]


class _StateReader:
    """Rows of a state, in any layout."""

    def __init__(self, base: PopulationBase, overrides: Mapping[Key, Any]) -> None:
        self._base = base
        self._overrides = overrides
        self._override_keys = SortedKeyList(overrides, key=collation_key)
        self._layout = base.layout
        self._prefixes = register_prefixes(base.layout)

    def row(self, table: TableSchema, *key: Any) -> tuple[Any, ...] | None:
        """Return the register of a row's fixed columns, or None. It may hold more columns."""
        stored = self._register((*self._prefixes[table.name][0], *key))
        if stored is None:
            return None
        row: tuple[Any, ...] = stored[len(key) :] if self._layout == "sql" else stored
        return row

    def value(self, table: TableSchema, column: int, row: tuple[Any, ...], *key: Any) -> Any:
        """Return a column of a row whose register of fixed columns is `row`."""
        return self._register((table.columns[column], *key)) if self._is_split else row[column]

    def sum(self, table: TableSchema, column: int, *key: int) -> int:
        if self._is_split:
            return self._register((table.columns[column], *key)) or 0
        row = self.row(table, *key)
        return 0 if row is None else row[column]

    def keys(self, table: TableSchema, *prefix: int) -> Iterator[tuple[Any, ...]]:
        """Yield the keys of the rows that begin with `prefix`, without names."""
        names = self._prefixes[table.name][0]
        for key in self._registers_below((*names, *prefix)):
            yield key[len(names) :]

    def oldest_new_order(self, w: int, d: int) -> Any:
        """Return the content of the index, or None."""
        stored = self._register((*self._prefixes[OLDEST_NEW_ORDER][0], w, d))
        return stored[2] if self._layout == "sql" and stored is not None else stored

    def last_order(self, w: int, d: int, c: int) -> Any:
        """Return the content of the index, or None."""
        prefix = (*self._prefixes[LAST_ORDER][0], w, d, c)
        if self._layout == "sql":
            return max([key[-1] for key in self._registers_below(prefix)], default=None)
        return self._register(prefix)

    @property
    def _is_split(self) -> bool:
        return self._layout == "fine"

    def _register(self, key: tuple[Any, ...]) -> Any:
        value = self._overrides[key] if key in self._overrides else self._base.read(key)
        return None if value is ABSENT else value

    def _registers_below(self, prefix: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        start, stop = prefix_range(prefix)
        written = self._override_keys.irange_key(start, stop, (True, False))
        initial = self._base.keys(start, stop, False)
        for key in merge_sorted_keys(iter(written), initial, False):
            if self._overrides.get(key) is not ABSENT:
                assert isinstance(key, tuple)
                yield key


@dataclass(slots=True)
class _Order:
    customer: int | None
    """O_C_ID, or None if the order does not exist."""
    ol_cnt: int
    is_delivered: bool
    """True if O_CARRIER_ID is set."""
    is_new: bool
    lines: int = 0
    lines_delivered: int = 0
    amount_delivered: int = 0


class _ConsistencyCheck:
    def __init__(self, base: PopulationBase, overrides: Mapping[Key, Any], scope: _Scope) -> None:
        self._population = base.population
        self._rows = _StateReader(base, overrides)
        self._scope = scope
        self._paid_at: Counter[DistrictKey] = Counter()
        """Sum of H_AMOUNT by the district that received the payments."""

    def violations(self) -> Iterator[ConsistencyViolation]:
        for w, d in sorted(self._scope):
            numbers, customers = self._scope[w, d]
            orders = {number: self._order(w, d, number) for number in sorted(numbers)}
            orders_of: dict[int, dict[int, _Order]] = {c: {} for c in customers}
            for number, order in orders.items():
                if order.customer is not None:
                    orders_of.setdefault(order.customer, {})[number] = order
            yield from self._check_district(w, d, orders, orders_of)
            for number, order in orders.items():
                yield from _check_order((ORDERS.name, w, d, number), order)
            for c in sorted(orders_of):
                yield from self._check_customer(w, d, c, orders_of[c])
            self._paid_at[w, d] += (CUSTOMERS - len(orders_of)) * INITIAL_PAYMENT
        for w in sorted({w for w, _ in (*self._scope, *self._paid_at)}):
            yield from self._check_sums(w)

    def _order(self, w: int, d: int, o: int) -> _Order:
        rows = self._rows
        fixed = rows.row(ORDERS, w, d, o)
        carrier = None if fixed is None else rows.value(ORDERS, O_CARRIER_ID, fixed, w, d, o)
        order = _Order(
            customer=None if fixed is None else fixed[O_C_ID],
            ol_cnt=0 if fixed is None else fixed[O_OL_CNT],
            is_delivered=carrier is not None,
            is_new=rows.row(NEW_ORDER, w, d, o) is not None,
        )
        for key in rows.keys(ORDER_LINE, w, d, o):
            line = rows.row(ORDER_LINE, *key)
            assert line is not None, "a listed row exists"
            order.lines += 1
            if rows.value(ORDER_LINE, OL_DELIVERY_D, line, *key) is not None:
                order.lines_delivered += 1
                order.amount_delivered += line[OL_AMOUNT]
        return order

    def _check_sums(self, w: int) -> Iterator[ConsistencyViolation]:
        at, w_ytd = (WAREHOUSE.name, w), self._rows.sum(WAREHOUSE, W_YTD, w)
        districts = range(1, DISTRICTS + 1)
        ytd = [self._rows.sum(DISTRICT, D_YTD, w, d) for d in districts]
        paid = [
            self._paid_at[w, d] + (0 if (w, d) in self._scope else INITIAL_D_YTD) for d in districts
        ]
        yield from _compare("3.3.2.1", at, "W_YTD", w_ytd, "the sum of D_YTD", sum(ytd))
        yield from _compare("3.3.2.8", at, "W_YTD", w_ytd, "the sum of H_AMOUNT", sum(paid))
        for d, left, right in zip(districts, ytd, paid, strict=True):
            district = (DISTRICT.name, w, d)
            yield from _compare("3.3.2.9", district, "D_YTD", left, "the sum of H_AMOUNT", right)

    def _check_district(
        self, w: int, d: int, orders: Mapping[int, _Order], customers: Iterable[int]
    ) -> Iterator[ConsistencyViolation]:
        rows, at = self._rows, (DISTRICT.name, w, d)
        numbers = [key[2] for key in rows.keys(ORDERS, w, d)]
        new_numbers = [key[2] for key in rows.keys(NEW_ORDER, w, d)]
        oldest, newest = min(new_numbers, default=0), max(new_numbers, default=0)
        next_o_id = rows.sum(DISTRICT, D_NEXT_O_ID, w, d)
        left, right = "D_NEXT_O_ID - 1", "max(O_ID)"
        yield from _compare("3.3.2.2", at, left, next_o_id - 1, right, max(numbers, default=0))
        if new_numbers:
            yield from _compare("3.3.2.2", at, left, next_o_id - 1, "max(NO_O_ID)", newest)
            left, right = f"from NO_O_ID {oldest} to {newest}", "the number of NEW_ORDER rows"
            yield from _compare("3.3.2.3", at, left, newest - oldest + 1, right, len(new_numbers))
        ol_cnt = sum(order.ol_cnt for order in orders.values())
        lines = sum(order.lines for order in orders.values())
        left, right = "the sum of O_OL_CNT", "the number of ORDER_LINE rows"
        yield from _compare("3.3.2.4", at, left, ol_cnt, right, lines)
        delivered = len(numbers) - len(new_numbers)
        counted = sum(rows.sum(CUSTOMER, C_DELIVERY_CNT, w, d, c) for c in customers)
        left, right = "ORDERS less NEW_ORDER rows", f"{DELIVERED} and the sum of C_DELIVERY_CNT"
        yield from _compare("3.3.2.11", at, left, delivered, right, DELIVERED + counted)
        index = rows.oldest_new_order(w, d)
        left, right = "the oldest new order in the index", "the one in the table"
        yield from _compare("index", at, left, index, right, oldest or next_o_id)

    def _check_customer(
        self, w: int, d: int, c: int, orders: Mapping[int, _Order]
    ) -> Iterator[ConsistencyViolation]:
        rows, at = self._rows, (CUSTOMER.name, w, d, c)
        paid = 0
        for key in rows.keys(HISTORY, w, d, c):
            row = rows.row(HISTORY, *key)
            assert row is not None, "a listed row exists"
            paid += row[H_AMOUNT]
            self._paid_at[row[H_W_ID], row[H_D_ID]] += row[H_AMOUNT]
        balance = rows.sum(CUSTOMER, C_BALANCE, w, d, c)
        delivered = sum(order.amount_delivered for order in orders.values())
        right = f"delivered {delivered} less paid {paid}"
        yield from _compare("3.3.2.10", at, "C_BALANCE", balance, right, delivered - paid)
        total = balance + rows.sum(CUSTOMER, C_YTD_PAYMENT, w, d, c)
        left, right = "C_BALANCE + C_YTD_PAYMENT", "the amount delivered"
        yield from _compare("3.3.2.12", at, left, total, right, delivered)
        index = rows.last_order(w, d, c)
        last = max((self._population.last_order(w, d, c), *orders))
        left, right = "the last order in the index", "the one in the table"
        yield from _compare("index", at, left, index, right, last)


def _check_order(at: RowKey, order: _Order) -> Iterator[ConsistencyViolation]:
    carrier = "a carrier" if order.is_delivered else "no carrier"
    if order.customer is None:
        if order.is_new:
            yield ConsistencyViolation("3.3.2.5", at, "a NEW_ORDER row exists, but no ORDERS row")
    elif order.is_delivered == order.is_new:
        row = "a" if order.is_new else "no"
        message = f"the order has {carrier} and {row} NEW_ORDER row"
        yield ConsistencyViolation("3.3.2.5", at, message)
    right = "the number of ORDER_LINE rows"
    yield from _compare("3.3.2.6", at, "O_OL_CNT", order.ol_cnt, right, order.lines)
    if order.lines_delivered != (order.lines if order.is_delivered else 0):
        lines = f"{order.lines_delivered} of {order.lines} lines have a delivery date"
        yield ConsistencyViolation("3.3.2.7", at, f"the order has {carrier}, and {lines}")


def _compare(
    condition: str, at: RowKey, left: str, left_value: Any, right: str, right_value: Any
) -> Iterator[ConsistencyViolation]:
    if left_value != right_value:
        message = f"{left} is {left_value}, and {right} is {right_value}"
        yield ConsistencyViolation(condition, at, message)
