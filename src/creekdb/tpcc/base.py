"""The population as registers: the initial data below a version store, in either layout.

Implements `creekdb.execution.base_state.Base`. One object serves all replicas of a simulation: it
is pure, but for remembering what it computed last. It remembers in two generations: what is asked
for moves to the young one, and when that is full, the old one is dropped. So what is in use stays,
and all of it stays bounded.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from creekdb.errors import UnknownName
from creekdb.execution.keys import Place
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.tpcc.domain import Domain, Fence, walk
from creekdb.tpcc.layout import CUSTOMERS_NAMED, LAST_ORDER, LAYOUTS, OLDEST_NEW_ORDER
from creekdb.tpcc.names import LAST_NAMES
from creekdb.tpcc.population import Population
from creekdb.tpcc.schema import (
    CUSTOMER,
    CUSTOMERS,
    DELIVERED,
    DISTRICT,
    DISTRICTS,
    ITEMS,
    O_CARRIER_ID,
    OL_DELIVERY_D,
    ORDER_LINE,
    ORDERS,
    TABLES,
)

GENERATION: Final = 2**17
"""How many registers are remembered at least; about 0.5 kB each, and up to twice as many."""

_DISTRICTS: Final = range(1, DISTRICTS + 1)

Evaluate: TypeAlias = Callable[..., Any]
"""The value of a register, from the parts of its key after the name."""


class Register:
    """The registers of one name."""

    __slots__ = ("evaluate", "fence")

    def __init__(self, domain: Domain, evaluate: Evaluate) -> None:
        self.fence = Fence(domain)
        self.evaluate = evaluate


class PopulationBase:
    def __init__(self, population: Population, layout: str) -> None:
        if layout not in LAYOUTS:
            raise UnknownName("layout", layout, LAYOUTS)
        self.population = population
        self.layout = layout
        registers = _finding_registers(population)
        for name in TABLES:
            registers.update(_table_registers(population, name, layout))
        self._domains = {name: registers[name][0] for name in sorted(registers)}
        self._registers = {name: Register(*found) for name, found in registers.items()}
        self._young: dict[Key, Any] = {}
        self._old: dict[Key, Any] = {}

    def read(self, key: Key) -> Any:
        value = self._young.get(key)
        if value is not None:
            return value
        value = self._old.get(key) if self._old else None
        if value is None:
            value = self._compute(key)
            if value is ABSENT:
                return value  # quickly told, and there is no end of what is not there
        if len(self._young) >= GENERATION:
            self._old, self._young = self._young, {}
        self._young[key] = value
        return value

    def keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        return walk(self._domains, start, stop, reverse)

    @property
    def remembered(self) -> int:
        return len(self._young) + len(self._old)

    def _compute(self, key: Key) -> Any:
        if not isinstance(key, tuple) or not key or not isinstance(key[0], str):
            return ABSENT
        register = self._registers.get(key[0])
        if register is None or not register.fence.contains(key[1:]):
            return ABSENT
        evaluate = register.evaluate
        match len(key):  # written out: to unpack a tuple costs as much as all of this, compiled
            case 2:
                return evaluate(key[1])
            case 3:
                return evaluate(key[1], key[2])
            case 4:
                return evaluate(key[1], key[2], key[3])
            case _:
                return evaluate(key[1], key[2], key[3], key[4])


def _finding_registers(population: Population) -> dict[str, tuple[Domain, Evaluate]]:
    districts = _domain(population, DISTRICT.name)
    return {
        CUSTOMERS_NAMED: ((*districts, tuple(sorted(LAST_NAMES))), population.customers_named),
        LAST_ORDER: (_domain(population, CUSTOMER.name), population.last_order),
        OLDEST_NEW_ORDER: (districts, lambda w, d: DELIVERED + 1),
    }


def _table_registers(
    population: Population, name: str, layout: str
) -> dict[str, tuple[Domain, Evaluate]]:
    table = TABLES[name]
    domain = _domain(population, name)
    row: Evaluate = getattr(population, name)
    if layout == "rows":
        return {name: (domain, row)}
    fixed = len(table.fixed)
    registers: dict[str, tuple[Domain, Evaluate]] = {name: (domain, _slice(row, fixed))}
    for index, column in enumerate(table.columns[fixed:], fixed):
        registers[column] = (_filled(domain, name, index), _column(row, index))
    return registers


def _slice(row: Evaluate, stop: int) -> Evaluate:
    return lambda *key: row(*key)[:stop]


def _column(row: Evaluate, index: int) -> Evaluate:
    return lambda *key: row(*key)[index]


def _filled(domain: Domain, name: str, column: int) -> Domain:
    """The keys of the rows in which the column is not None."""
    if (name, column) in ((ORDERS.name, O_CARRIER_ID), (ORDER_LINE.name, OL_DELIVERY_D)):
        return (*domain[:2], range(1, DELIVERED + 1), *domain[3:])
    return domain


def _domain(population: Population, name: str) -> Domain:
    """The keys of the rows that a table starts with."""
    warehouses = range(1, population.warehouses + 1)
    customers = orders = range(1, CUSTOMERS + 1)
    items = range(1, ITEMS + 1)

    def lines(w: int, d: int, o: int) -> range:
        return range(1, population.line_count(w, d, o) + 1)

    domains: dict[str, Domain] = {
        "warehouse": (warehouses,),
        "district": (warehouses, _DISTRICTS),
        "customer": (warehouses, _DISTRICTS, customers),
        "history": (warehouses, _DISTRICTS, customers, range(1, 2)),
        "new_order": (warehouses, _DISTRICTS, range(DELIVERED + 1, CUSTOMERS + 1)),
        "orders": (warehouses, _DISTRICTS, orders),
        "order_line": (warehouses, _DISTRICTS, orders, lines),
        "item": (items,),
        "stock": (warehouses, items),
    }
    return domains[name]
