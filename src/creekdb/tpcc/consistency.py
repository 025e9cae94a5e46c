"""TPC-C's consistency conditions (clause 3.3.2) as a check of a replica's state.

The twelve conditions are those of the specification, except for the eleventh. The original (orders
minus new orders are 2,100 in every district) holds for the population only, since every delivery
removes a new order. Here the difference must be 2,100 more than the deliveries that the district's
customers have counted. Both are equal initially, and this one is an invariant.

One more condition, `index`, is specific to this implementation: the index registers agree with the
rows.

A state is the population and the registers that differ from it. `ConsistencyFacts` counts and sums
the rows that the conditions refer to: all rows, or only the *touched* ones. Touched are the orders
and customers that a differing register belongs to, and their districts. All other rows have their
initial values, and contribute known amounts to the sums. The facts carry no verdicts; the `_check`
functions derive the violations from them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from creekdb.execution.keys import prefix_range
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.tpcc.layout import LAST_ORDER, OLDEST_NEW_ORDER
from creekdb.tpcc.overlay import OverlayState
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


@dataclass(slots=True)
class OrderFacts:
    customer: int | None
    """O_C_ID, or None if the order does not exist."""
    ol_cnt: int
    is_delivered: bool
    """True if O_CARRIER_ID is set."""
    is_new: bool
    lines: int
    lines_delivered: int
    amount_delivered: int


@dataclass(slots=True)
class CustomerFacts:
    balance: int
    ytd_payment: int
    delivery_cnt: int
    paid: int
    """Sum of H_AMOUNT."""
    last_order: int | None
    """Value of the index register."""
    last_order_in_table: int
    """Highest number among the customer's orders."""
    amount_delivered: int = 0


@dataclass(slots=True)
class DistrictFacts:
    next_o_id: int
    ytd: int
    oldest_new_order: int | None
    """Value of the index register."""
    order_count: int
    order_max: int
    new_order_count: int
    new_order_min: int
    new_order_max: int
    """Both bounds are 0 if there are no new orders."""
    orders: dict[int, OrderFacts] = field(default_factory=dict)
    customers: dict[int, CustomerFacts] = field(default_factory=dict)


@dataclass(slots=True)
class ConsistencyScope:
    """The orders and customers to check, by district."""

    orders: dict[DistrictKey, set[int]] = field(default_factory=dict)
    customers: dict[DistrictKey, set[int]] = field(default_factory=dict)


class ConsistencyFacts:
    def __init__(
        self, base: PopulationBase, overrides: Mapping[Key, Any], only_touched: bool
    ) -> None:
        self._base = base
        self._state = OverlayState(base, overrides)
        self._is_split = base.layout == "fine"
        scope = self._touched_scope if only_touched else self._full_scope
        self._scope = scope(overrides)
        self._paid_at: dict[DistrictKey, int] = {}

    def districts(self) -> Iterator[tuple[DistrictKey, DistrictFacts]]:
        for district in sorted(self._scope.orders):
            facts = self._district(*district)
            self._collect_orders(district, facts)
            self._collect_customers(district, facts)
            yield district, facts

    def paid(self, w: int, d: int) -> int:
        """Return the sum of H_AMOUNT paid at the district. Requires exhausted `districts()`."""
        is_seen = (w, d) in self._scope.orders
        return self._paid_at.get((w, d), 0) + (0 if is_seen else INITIAL_D_YTD)

    def warehouses(self) -> list[int]:
        """Return the warehouses in scope and those that received payments."""
        return sorted({w for w, _ in (*self._scope.orders, *self._paid_at)})

    def warehouse_ytd(self, w: int) -> int:
        return self._sum(WAREHOUSE, W_YTD, w)

    def district_ytd(self, w: int, d: int) -> int:
        return self._sum(DISTRICT, D_YTD, w, d)

    def _district(self, w: int, d: int) -> DistrictFacts:
        order_numbers = [key[3] for key in self._keys(ORDERS, w, d)]
        new_order_numbers = [key[3] for key in self._keys(NEW_ORDER, w, d)]
        return DistrictFacts(
            next_o_id=self._sum(DISTRICT, D_NEXT_O_ID, w, d),
            ytd=self.district_ytd(w, d),
            oldest_new_order=self._register(OLDEST_NEW_ORDER, w, d),
            order_count=len(order_numbers),
            order_max=max(order_numbers, default=0),
            new_order_count=len(new_order_numbers),
            new_order_min=min(new_order_numbers, default=0),
            new_order_max=max(new_order_numbers, default=0),
        )

    def _collect_orders(self, district: DistrictKey, facts: DistrictFacts) -> None:
        customers = self._scope.customers.setdefault(district, set())
        for number in sorted(self._scope.orders[district]):
            order = facts.orders[number] = self._order(*district, number)
            if order.customer is not None:
                customers.add(order.customer)

    def _collect_customers(self, district: DistrictKey, facts: DistrictFacts) -> None:
        scope = self._scope.customers[district]
        for c in sorted(scope):
            facts.customers[c] = self._customer(*district, c)
        self._add_payment(district, (CUSTOMERS - len(scope)) * INITIAL_PAYMENT)
        for number, order in facts.orders.items():
            if order.customer is not None:
                customer = facts.customers[order.customer]
                customer.amount_delivered += order.amount_delivered
                customer.last_order_in_table = max(customer.last_order_in_table, number)

    def _order(self, w: int, d: int, o: int) -> OrderFacts:
        fixed = self._register(ORDERS.name, w, d, o)
        carrier = None if fixed is None else self._value(ORDERS, O_CARRIER_ID, fixed, w, d, o)
        facts = OrderFacts(
            customer=None if fixed is None else fixed[O_C_ID],
            ol_cnt=0 if fixed is None else fixed[O_OL_CNT],
            is_delivered=carrier is not None,
            is_new=self._register(NEW_ORDER.name, w, d, o) is not None,
            lines=0,
            lines_delivered=0,
            amount_delivered=0,
        )
        for key in self._keys(ORDER_LINE, w, d, o):
            line = self._state.read(key)
            facts.lines += 1
            if self._value(ORDER_LINE, OL_DELIVERY_D, line, *key[1:]) is not None:
                facts.lines_delivered += 1
                facts.amount_delivered += line[OL_AMOUNT]
        return facts

    def _customer(self, w: int, d: int, c: int) -> CustomerFacts:
        paid = 0
        for key in self._keys(HISTORY, w, d, c):
            row = self._state.read(key)
            paid += row[H_AMOUNT]
            self._add_payment((row[H_W_ID], row[H_D_ID]), row[H_AMOUNT])
        return CustomerFacts(
            balance=self._sum(CUSTOMER, C_BALANCE, w, d, c),
            ytd_payment=self._sum(CUSTOMER, C_YTD_PAYMENT, w, d, c),
            delivery_cnt=self._sum(CUSTOMER, C_DELIVERY_CNT, w, d, c),
            paid=paid,
            last_order=self._register(LAST_ORDER, w, d, c),
            last_order_in_table=self._base.population.last_order(w, d, c),
        )

    def _add_payment(self, district: DistrictKey, amount: int) -> None:
        self._paid_at[district] = self._paid_at.get(district, 0) + amount

    # --- reading a row in either layout ----------------------------------------------------------

    def _register(self, *key: Any) -> Any:
        value = self._state.read(key)
        return None if value is ABSENT else value

    def _value(self, table: TableSchema, column: int, row: tuple[Any, ...], *key: Any) -> Any:
        """Return a column of a row whose register of fixed columns is `row`."""
        return self._register(table.columns[column], *key) if self._is_split else row[column]

    def _sum(self, table: TableSchema, column: int, *key: int) -> int:
        if self._is_split:
            return self._register(table.columns[column], *key) or 0
        row = self._register(table.name, *key)
        return 0 if row is None else row[column]

    def _keys(self, table: TableSchema, *prefix: int) -> Iterator[tuple[Any, ...]]:
        for key in self._state.keys(*prefix_range((table.name, *prefix)), False):
            assert isinstance(key, tuple)
            yield key

    # --- scope -----------------------------------------------------------------------------------

    def _full_scope(self, overrides: Mapping[Key, Any]) -> ConsistencyScope:
        """Return all rows of the population, and the touched rows beyond it."""
        scope = self._touched_scope(overrides)
        for w in range(1, self._base.population.warehouses + 1):
            for d in range(1, DISTRICTS + 1):
                scope.orders.setdefault((w, d), set()).update(range(1, CUSTOMERS + 1))
                scope.customers.setdefault((w, d), set()).update(range(1, CUSTOMERS + 1))
        return scope

    def _touched_scope(self, overrides: Mapping[Key, Any]) -> ConsistencyScope:
        scope = ConsistencyScope()
        for key in overrides:
            if not isinstance(key, tuple):
                continue
            name: Any = _TABLE_OF_COLUMN.get(str(key[0]), key[0])
            parts: tuple[Any, ...] = key[1:]
            if name == WAREHOUSE.name:
                parts, name = (*parts, 1), DISTRICT.name
            if name not in (*_CUSTOMER_REGISTERS, *_ORDER_REGISTERS, *_DISTRICT_REGISTERS):
                continue
            orders = scope.orders.setdefault(parts[:2], set())
            customers = scope.customers.setdefault(parts[:2], set())
            if name in _ORDER_REGISTERS:
                orders.add(parts[2])
            elif name in _CUSTOMER_REGISTERS:
                customers.add(parts[2])
        return scope


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
    return list(islice(_check_state(ConsistencyFacts(base, overrides, only_touched)), limit))


def _check_state(state_facts: ConsistencyFacts) -> Iterator[ConsistencyViolation]:
    for district, facts in state_facts.districts():
        yield from _check_district(district, facts)
        for number, order in facts.orders.items():
            yield from _check_order(("orders", *district, number), order)
        for number, customer in facts.customers.items():
            yield from _check_customer(("customer", *district, number), customer)
    for w in state_facts.warehouses():
        yield from _check_sums(state_facts, w)


def _check_sums(state_facts: ConsistencyFacts, w: int) -> Iterator[ConsistencyViolation]:
    districts = range(1, DISTRICTS + 1)
    ytd = [state_facts.district_ytd(w, d) for d in districts]
    paid = [state_facts.paid(w, d) for d in districts]
    at, w_ytd = ("warehouse", w), state_facts.warehouse_ytd(w)
    yield from _compare("3.3.2.1", at, "W_YTD", w_ytd, "the sum of D_YTD", sum(ytd))
    yield from _compare("3.3.2.8", at, "W_YTD", w_ytd, "the sum of H_AMOUNT", sum(paid))
    for d, left, right in zip(districts, ytd, paid, strict=True):
        at_district = ("district", w, d)
        yield from _compare("3.3.2.9", at_district, "D_YTD", left, "the sum of H_AMOUNT", right)


def _check_district(district: DistrictKey, facts: DistrictFacts) -> Iterator[ConsistencyViolation]:
    at = ("district", *district)
    last, newest, oldest = facts.next_o_id - 1, facts.new_order_max, facts.new_order_min
    yield from _compare("3.3.2.2", at, "D_NEXT_O_ID - 1", last, "max(O_ID)", facts.order_max)
    if facts.new_order_count:
        yield from _compare("3.3.2.2", at, "D_NEXT_O_ID - 1", last, "max(NO_O_ID)", newest)
        left, right = f"from NO_O_ID {oldest} to {newest}", "the number of NEW_ORDER rows"
        numbers = newest - oldest + 1
        yield from _compare("3.3.2.3", at, left, numbers, right, facts.new_order_count)
    ol_cnt = sum(order.ol_cnt for order in facts.orders.values())
    lines = sum(order.lines for order in facts.orders.values())
    right = "the number of ORDER_LINE rows"
    yield from _compare("3.3.2.4", at, "the sum of O_OL_CNT", ol_cnt, right, lines)
    delivered = facts.order_count - facts.new_order_count
    counted = DELIVERED + sum(each.delivery_cnt for each in facts.customers.values())
    left, right = "ORDERS less NEW_ORDER rows", f"{DELIVERED} and the sum of C_DELIVERY_CNT"
    yield from _compare("3.3.2.11", at, left, delivered, right, counted)
    left, right = "the oldest new order in the index", "the one in the table"
    first = oldest or facts.next_o_id
    yield from _compare("index", at, left, facts.oldest_new_order, right, first)


def _check_order(at: RowKey, order: OrderFacts) -> Iterator[ConsistencyViolation]:
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


def _check_customer(at: RowKey, customer: CustomerFacts) -> Iterator[ConsistencyViolation]:
    delivered, balance, paid = customer.amount_delivered, customer.balance, customer.paid
    right = f"delivered {delivered} less paid {paid}"
    yield from _compare("3.3.2.10", at, "C_BALANCE", balance, right, delivered - paid)
    left, total = "C_BALANCE + C_YTD_PAYMENT", balance + customer.ytd_payment
    yield from _compare("3.3.2.12", at, left, total, "the amount delivered", delivered)
    left, right = "the last order in the index", "the one in the table"
    in_table = customer.last_order_in_table
    yield from _compare("index", at, left, customer.last_order, right, in_table)


def _compare(
    condition: str, at: RowKey, left: str, left_value: Any, right: str, right_value: Any
) -> Iterator[ConsistencyViolation]:
    """Yield a violation if the two values differ."""
    if left_value != right_value:
        message = f"{left} is {left_value}, and {right} is {right_value}"
        yield ConsistencyViolation(condition, at, message)
