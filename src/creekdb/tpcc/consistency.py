"""What the consistency conditions look at, counted and added up from a state.

A state is the population and the registers that differ from it. A census takes either everything or
what was *touched*: the orders and customers that a differing register belongs to, and the districts
around them. What nobody touched is as the population has it, and contributes to sums what is known
of it. The census only looks; `creekdb.tpcc.consistency` judges.

TPC-C's consistency conditions (clause 3.3.2) as a check of a replica's state.

The twelve conditions are those of the specification, but for the eleventh: as it stands there
(orders minus new orders are 2,100 in every district) it holds for the population only, since every
delivery takes away a new order. Here it says 2,100 more than the deliveries that the district's
customers have counted, which is the same in the beginning and stays true.

One more condition, `index`, is ours: the registers by which rows are found tell the truth.
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
    """O_C_ID, or None when there is no such order."""
    ol_cnt: int
    is_delivered: bool
    """Has it a carrier?"""
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
    """The sum of H_AMOUNT."""
    last_order: int | None
    """What the register says."""
    last_order_in_table: int
    """What the orders say."""
    amount_delivered: int = 0


@dataclass(slots=True)
class DistrictFacts:
    next_o_id: int
    ytd: int
    oldest_new_order: int | None
    """What the register says."""
    order_count: int
    order_max: int
    new_order_count: int
    new_order_min: int
    new_order_max: int
    """Both 0 when there are none."""
    orders: dict[int, OrderFacts] = field(default_factory=dict)
    customers: dict[int, CustomerFacts] = field(default_factory=dict)


@dataclass(slots=True)
class ConsistencyScope:
    """The orders and customers to look at, by district."""

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
        """The sum of H_AMOUNT paid at the district; to be asked when all districts were seen."""
        is_seen = (w, d) in self._scope.orders
        return self._paid_at.get((w, d), 0) + (0 if is_seen else INITIAL_D_YTD)

    def warehouses(self) -> list[int]:
        """The warehouses that were looked at or paid at."""
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
            seen = facts.orders[number] = self._order(*district, number)
            if seen.customer is not None:
                customers.add(seen.customer)

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
        """A column of a row, of which the register of the fixed columns was read already."""
        return self._register(table.columns[column], *key) if self._is_split else row[column]

    def _sum(self, table: TableSchema, column: int, *key: int) -> int:
        if self._is_split:
            return self._register(table.columns[column], *key) or 0
        row = self._register(table.name, *key)
        return 0 if row is None else row[column]

    def _keys(self, table: TableSchema, *beginning: int) -> Iterator[tuple[Any, ...]]:
        for key in self._state.keys(*prefix_range((table.name, *beginning)), False):
            assert isinstance(key, tuple)
            yield key

    # --- what to look at -------------------------------------------------------------------------

    def _full_scope(self, overrides: Mapping[Key, Any]) -> ConsistencyScope:
        """What the population has, and what was touched beyond it."""
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
    row_key: tuple[str | int, ...]
    """The key of the row that it is about."""
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
    """What is wrong with the state: at most `limit` problems, none if all conditions hold.

    The state is `base` with the registers in `overrides`, where `ABSENT` stands for a deleted one.
    With `only_touched`, rows that no override belongs to are taken to be in order.
    """
    return list(islice(_check_state(ConsistencyFacts(base, overrides, only_touched)), limit))


def _check_state(census: ConsistencyFacts) -> Iterator[ConsistencyViolation]:
    for district, facts in census.districts():
        yield from _check_district(district, facts)
        for number, order in facts.orders.items():
            yield from _check_order(("orders", *district, number), order)
        for number, customer in facts.customers.items():
            yield from _check_customer(("customer", *district, number), customer)
    for w in census.warehouses():
        yield from _check_sums(census, w)


def _check_sums(census: ConsistencyFacts, w: int) -> Iterator[ConsistencyViolation]:
    districts = range(1, DISTRICTS + 1)
    ytd = [census.district_ytd(w, d) for d in districts]
    paid = [census.paid(w, d) for d in districts]
    w_ytd = census.warehouse_ytd(w)
    at = ("warehouse", w)
    if w_ytd != sum(ytd):
        yield _difference("3.3.2.1", at, "W_YTD", w_ytd, "the sum of D_YTD", sum(ytd))
    if w_ytd != sum(paid):
        yield _difference("3.3.2.8", at, "W_YTD", w_ytd, "the sum of H_AMOUNT", sum(paid))
    for d, left, right in zip(districts, ytd, paid, strict=True):
        if left != right:
            at_district = ("district", w, d)
            yield _difference("3.3.2.9", at_district, "D_YTD", left, "the sum of H_AMOUNT", right)


def _check_district(district: DistrictKey, facts: DistrictFacts) -> Iterator[ConsistencyViolation]:
    at = ("district", *district)
    last = facts.next_o_id - 1
    if last != facts.order_max:
        yield _difference("3.3.2.2", at, "D_NEXT_O_ID - 1", last, "max(O_ID)", facts.order_max)
    if facts.new_order_count:
        newest, oldest = facts.new_order_max, facts.new_order_min
        if last != newest:
            yield _difference("3.3.2.2", at, "D_NEXT_O_ID - 1", last, "max(NO_O_ID)", newest)
        if newest - oldest + 1 != facts.new_order_count:
            left, right = f"from NO_O_ID {oldest} to {newest}", "the number of NEW_ORDER rows"
            yield _difference(
                "3.3.2.3", at, left, newest - oldest + 1, right, facts.new_order_count
            )
    ol_cnt = sum(order.ol_cnt for order in facts.orders.values())
    lines = sum(order.lines for order in facts.orders.values())
    if ol_cnt != lines:
        right = "the number of ORDER_LINE rows"
        yield _difference("3.3.2.4", at, "the sum of O_OL_CNT", ol_cnt, right, lines)
    delivered = facts.order_count - facts.new_order_count
    counted = DELIVERED + sum(each.delivery_cnt for each in facts.customers.values())
    if delivered != counted:
        left, right = "ORDERS less NEW_ORDER rows", f"{DELIVERED} and the sum of C_DELIVERY_CNT"
        yield _difference("3.3.2.11", at, left, delivered, right, counted)
    first = facts.new_order_min or facts.next_o_id
    if facts.oldest_new_order != first:
        left, right = "the oldest new order in the register", "the one in the table"
        yield _difference("index", at, left, facts.oldest_new_order, right, first)


def _check_order(at: tuple[str | int, ...], order: OrderFacts) -> Iterator[ConsistencyViolation]:
    if order.customer is None:
        if order.is_new:
            yield ConsistencyViolation(
                "3.3.2.5", at, "it is a new order, but there is no such order"
            )
    elif order.is_delivered == order.is_new:
        carrier = "a carrier" if order.is_delivered else "no carrier"
        row = "a" if order.is_new else "no"
        yield ConsistencyViolation("3.3.2.5", at, f"it has {carrier} and {row} NEW_ORDER row")
    if order.ol_cnt != order.lines:
        right = "the number of ORDER_LINE rows"
        yield _difference("3.3.2.6", at, "O_OL_CNT", order.ol_cnt, right, order.lines)
    if order.lines_delivered != (order.lines if order.is_delivered else 0):
        carrier = "a carrier" if order.is_delivered else "no carrier"
        told = f"{order.lines_delivered} of {order.lines} lines have a date of delivery"
        yield ConsistencyViolation("3.3.2.7", at, f"it has {carrier}, and {told}")


def _check_customer(
    at: tuple[str | int, ...], customer: CustomerFacts
) -> Iterator[ConsistencyViolation]:
    delivered, balance = customer.amount_delivered, customer.balance
    if balance != delivered - customer.paid:
        right = f"delivered {delivered} less paid {customer.paid}"
        yield _difference("3.3.2.10", at, "C_BALANCE", balance, right, delivered - customer.paid)
    if balance + customer.ytd_payment != delivered:
        left = "C_BALANCE + C_YTD_PAYMENT"
        right = "the amount delivered"
        yield _difference("3.3.2.12", at, left, balance + customer.ytd_payment, right, delivered)
    if customer.last_order != customer.last_order_in_table:
        left, right = "the last order in the register", "the one in the table"
        yield _difference(
            "index", at, left, customer.last_order, right, customer.last_order_in_table
        )


def _difference(
    condition: str, where: tuple[str | int, ...], left: str, one: Any, right: str, other: Any
) -> ConsistencyViolation:
    return ConsistencyViolation(condition, where, f"{left} is {one}, and {right} is {other}")
