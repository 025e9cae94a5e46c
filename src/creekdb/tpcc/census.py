"""What the consistency conditions look at, counted and added up from a state.

A state is the population and the registers that differ from it. A census takes either everything or
what was *touched*: the orders and customers that a differing register belongs to, and the districts
around them. What nobody touched is as the population has it, and contributes to sums what is known
of it. The census only looks; `creekdb.tpcc.conditions` judges.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import prefix_range
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.tpcc.base import PopulationBase
from creekdb.tpcc.layout import LAST_ORDER, OLDEST_NEW_ORDER
from creekdb.tpcc.overlay import Overlay
from creekdb.tpcc.schema import (
    C_BALANCE,
    C_DELIVERY_CNT,
    C_YTD_PAYMENT,
    CUSTOMER,
    CUSTOMERS,
    D_NEXT_O_ID,
    D_YTD,
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
    Table,
)

District: TypeAlias = tuple[int, int]
"""A warehouse and one of its districts."""

_OF_CUSTOMERS: Final = (CUSTOMER.name, HISTORY.name, LAST_ORDER)
_OF_ORDERS: Final = (ORDERS.name, ORDER_LINE.name, NEW_ORDER.name)
_OF_DISTRICTS: Final = (DISTRICT.name, OLDEST_NEW_ORDER)
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
    last_order_seen: int
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
class Scope:
    """The orders and customers to look at, by district."""

    orders: dict[District, set[int]] = field(default_factory=dict)
    customers: dict[District, set[int]] = field(default_factory=dict)


class Census:
    def __init__(
        self, base: PopulationBase, overrides: Mapping[Key, Any], only_touched: bool
    ) -> None:
        self._base = base
        self._state = Overlay(base, overrides)
        self._is_split = base.layout == "fine"
        scope = self._touched if only_touched else self._everything
        self._scope = scope(overrides)
        self._paid_at: dict[District, int] = {}

    def districts(self) -> Iterator[tuple[District, DistrictFacts]]:
        for district in sorted(self._scope.orders):
            facts = self._district(*district)
            self._look_at_orders(district, facts)
            self._look_at_customers(district, facts)
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

    def _look_at_orders(self, district: District, facts: DistrictFacts) -> None:
        customers = self._scope.customers.setdefault(district, set())
        for number in sorted(self._scope.orders[district]):
            seen = facts.orders[number] = self._order(*district, number)
            if seen.customer is not None:
                customers.add(seen.customer)

    def _look_at_customers(self, district: District, facts: DistrictFacts) -> None:
        scope = self._scope.customers[district]
        for c in sorted(scope):
            facts.customers[c] = self._customer(*district, c)
        self._pay(district, (CUSTOMERS - len(scope)) * INITIAL_PAYMENT)
        for number, order in facts.orders.items():
            if order.customer is not None:
                customer = facts.customers[order.customer]
                customer.amount_delivered += order.amount_delivered
                customer.last_order_seen = max(customer.last_order_seen, number)

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
            self._pay((row[H_W_ID], row[H_D_ID]), row[H_AMOUNT])
        return CustomerFacts(
            balance=self._sum(CUSTOMER, C_BALANCE, w, d, c),
            ytd_payment=self._sum(CUSTOMER, C_YTD_PAYMENT, w, d, c),
            delivery_cnt=self._sum(CUSTOMER, C_DELIVERY_CNT, w, d, c),
            paid=paid,
            last_order=self._register(LAST_ORDER, w, d, c),
            last_order_seen=self._base.population.last_order(w, d, c),
        )

    def _pay(self, district: District, amount: int) -> None:
        self._paid_at[district] = self._paid_at.get(district, 0) + amount

    # --- reading a row in either layout ----------------------------------------------------------

    def _register(self, *key: Any) -> Any:
        value = self._state.read(key)
        return None if value is ABSENT else value

    def _value(self, table: Table, column: int, row: tuple[Any, ...], *key: Any) -> Any:
        """A column of a row, of which the register of the fixed columns was read already."""
        return self._register(table.columns[column], *key) if self._is_split else row[column]

    def _sum(self, table: Table, column: int, *key: int) -> int:
        if self._is_split:
            return self._register(table.columns[column], *key) or 0
        row = self._register(table.name, *key)
        return 0 if row is None else row[column]

    def _keys(self, table: Table, *beginning: int) -> Iterator[tuple[Any, ...]]:
        for key in self._state.keys(*prefix_range((table.name, *beginning)), False):
            assert isinstance(key, tuple)
            yield key

    # --- what to look at -------------------------------------------------------------------------

    def _everything(self, overrides: Mapping[Key, Any]) -> Scope:
        """What the population has, and what was touched beyond it."""
        scope = self._touched(overrides)
        for w in range(1, self._base.population.warehouses + 1):
            for d in range(1, DISTRICTS + 1):
                scope.orders.setdefault((w, d), set()).update(range(1, CUSTOMERS + 1))
                scope.customers.setdefault((w, d), set()).update(range(1, CUSTOMERS + 1))
        return scope

    def _touched(self, overrides: Mapping[Key, Any]) -> Scope:
        scope = Scope()
        for key in overrides:
            if not isinstance(key, tuple):
                continue
            name: Any = _TABLE_OF_COLUMN.get(str(key[0]), key[0])
            parts: tuple[Any, ...] = key[1:]
            if name == WAREHOUSE.name:
                parts, name = (*parts, 1), DISTRICT.name
            if name not in (*_OF_CUSTOMERS, *_OF_ORDERS, *_OF_DISTRICTS):
                continue
            orders = scope.orders.setdefault(parts[:2], set())
            customers = scope.customers.setdefault(parts[:2], set())
            if name in _OF_ORDERS:
                orders.add(parts[2])
            elif name in _OF_CUSTOMERS:
                customers.add(parts[2])
        return scope
