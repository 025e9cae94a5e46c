"""Which keys there are in the beginning, and walking through a range of them in order.

A register's keys form a tree: its name, then a warehouse, then what that warehouse has, and so on.
A `KeyDomain` says what can follow a beginning of a key: a range of numbers, or sorted texts. So
neither asking for a key nor finding the first one of a range needs the others. Must not know
values.

The population as registers: the initial data below a version store, in either layout.

Implements `creekdb.execution.base_state.Base`. One object serves all replicas of a simulation: it
is pure, but for remembering what it computed last. It remembers in two generations: what is asked
for moves to the young one, and when that is full, the old one is dropped. So what is in use stays,
and all of it stays bounded.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from creekdb.errors import UnknownName
from creekdb.execution.keys import CollationKey
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.tpcc.layout import CUSTOMERS_NAMED, LAST_ORDER, LAYOUTS, OLDEST_NEW_ORDER
from creekdb.tpcc.population.random_values import LAST_NAMES
from creekdb.tpcc.population.rows import Population
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

KeyLevel: TypeAlias = range | tuple[str, ...] | Callable[..., range]
"""What can follow, without gaps, or how to tell from the parts of the key before it, without the
name."""
KeyDomain: TypeAlias = tuple[KeyLevel, ...]

_NO_RANGE: Final = -1
"""In place of where a range stops."""
_INT, _STR, _TUPLE = 0, 1, 2  # how a place tells kinds apart, see creekdb.execution.keys


class DomainMatcher:
    """What is a key of a domain, and what is not: told quickly where levels are ranges. What
    follows a beginning of a key is remembered until another one is asked for."""

    __slots__ = ("_domain", "_last_range", "_starts", "_stops")

    def __init__(self, domain: KeyDomain) -> None:
        self._domain = domain
        self._starts = [level.start if isinstance(level, range) else 0 for level in domain]
        self._stops = [level.stop if isinstance(level, range) else _NO_RANGE for level in domain]
        self._last_range: tuple[tuple[Any, ...], int, int] = (None,), 0, 0

    def contains(self, parts: tuple[Any, ...]) -> bool:
        """Are these, after the register's name, the parts of a key?"""
        if len(parts) != len(self._stops):
            return False
        for index in range(len(parts)):
            part = parts[index]
            start, stop = self._starts[index], self._stops[index]
            if stop == _NO_RANGE:
                level = self._domain[index]
                if not callable(level):
                    if type(part) is str and part in level:
                        continue
                    return False
                head, start, stop = self._last_range
                if head != parts[:index]:
                    head = parts[:index]
                    children = level(*head)
                    start, stop = children.start, children.stop
                    self._last_range = head, start, stop
            if type(part) is not int:
                return False
            number: int = part
            if not start <= number < stop:
                return False
        return True


def iterate_keys(
    domains: dict[str, KeyDomain], start: CollationKey, stop: CollationKey, reverse: bool
) -> Iterator[Key]:
    """The keys that stand in [start, stop). The names in `domains` must be sorted."""
    low = _child_bound(start, _TUPLE)
    high = _child_bound(stop, _TUPLE)
    if low is AFTER or high is BEFORE:
        return
    names: list[str] = list(domains)
    for name, name_low, name_high in _children(names, _STR, low, high, reverse):
        yield from _descend((name,), domains[name], name_low, name_high, reverse)


class _OutOfRange:
    """A bound that lies before, or after, everything below a node."""


BEFORE, AFTER = _OutOfRange(), _OutOfRange()
Bound: TypeAlias = CollationKey | _OutOfRange
"""Where a range begins or ends below a node: a place relative to it."""


def _child_bound(bound: Bound, tag: int, value: Any = None) -> Bound:
    """The bound as seen from the child with that tag and value."""
    if isinstance(bound, _OutOfRange):
        return bound
    step: tuple[Any, ...] = (tag,) if value is None else (tag, value)
    head = bound[: len(step)]
    if head == step:
        return bound[len(step) :]
    return BEFORE if head < step else AFTER


def _children(
    children: Sequence[Any], tag: int, low: Bound, high: Bound, reverse: bool
) -> Iterator[tuple[Any, Bound, Bound]]:
    """The children that the range touches, each with its bounds as seen from there."""
    first = 0 if low is BEFORE else _index(children, tag, low)
    last = len(children) if high is AFTER else _index(children, tag, high) + 1
    touched = children[first:last]
    for child in reversed(touched) if reverse else touched:
        yield child, _child_bound(low, tag, child), _child_bound(high, tag, child)


def _index(children: Sequence[Any], tag: int, bound: Bound) -> int:
    """The first child that does not end before the bound."""
    if isinstance(bound, _OutOfRange):
        return 0 if bound is BEFORE else len(children)
    if bound[:1] != (tag,):
        return 0 if bound[:1] < (tag,) else len(children)
    return 0 if len(bound) == 1 else bisect_left(children, bound[1])


def _descend(
    key: tuple[Any, ...], domain: KeyDomain, low: Bound, high: Bound, reverse: bool
) -> Iterator[Key]:
    depth = len(key) - 1
    level = domain[depth]
    children: Sequence[Any] = level(*key[1:]) if callable(level) else level
    tag = _INT if isinstance(children, range) else _STR
    is_last = depth + 1 == len(domain)
    if is_last and low is BEFORE and high is AFTER:
        for child in reversed(children) if reverse else children:
            yield (*key, child)
        return
    for child, child_low, child_high in _children(children, tag, low, high, reverse):
        if not is_last:
            yield from _descend((*key, child), domain, child_low, child_high, reverse)
        elif child_low in (BEFORE, ()) and child_high not in (BEFORE, ()):
            yield (*key, child)


CACHE_GENERATION_SIZE: Final = 2**17
"""How many registers are remembered at least; about 0.5 kB each, and up to twice as many."""

_DISTRICTS: Final = range(1, DISTRICTS + 1)

EvaluateRegister: TypeAlias = Callable[..., Any]
"""The value of a register, from the parts of its key after the name."""


class RegisterFamily:
    """The registers of one name."""

    __slots__ = ("evaluate", "matcher")

    def __init__(self, domain: KeyDomain, evaluate: EvaluateRegister) -> None:
        self.matcher = DomainMatcher(domain)
        self.evaluate = evaluate


class PopulationBase:
    def __init__(self, population: Population, layout: str) -> None:
        if layout not in LAYOUTS:
            raise UnknownName("layout", layout, LAYOUTS)
        self.population = population
        self.layout = layout
        registers = _index_registers(population)
        for name in TABLES:
            registers.update(_table_registers(population, name, layout))
        self._domains = {name: registers[name][0] for name in sorted(registers)}
        self._registers = {name: RegisterFamily(*found) for name, found in registers.items()}
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
        if len(self._young) >= CACHE_GENERATION_SIZE:
            self._old, self._young = self._young, {}
        self._young[key] = value
        return value

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        return iterate_keys(self._domains, start, stop, reverse)

    @property
    def cached_count(self) -> int:
        return len(self._young) + len(self._old)

    def _compute(self, key: Key) -> Any:
        if not isinstance(key, tuple) or not key or not isinstance(key[0], str):
            return ABSENT
        register = self._registers.get(key[0])
        if register is None or not register.matcher.contains(key[1:]):
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


def _index_registers(population: Population) -> dict[str, tuple[KeyDomain, EvaluateRegister]]:
    districts = _domain(population, DISTRICT.name)
    return {
        CUSTOMERS_NAMED: ((*districts, tuple(sorted(LAST_NAMES))), population.customers_named),
        LAST_ORDER: (_domain(population, CUSTOMER.name), population.last_order),
        OLDEST_NEW_ORDER: (districts, lambda w, d: DELIVERED + 1),
    }


def _table_registers(
    population: Population, name: str, layout: str
) -> dict[str, tuple[KeyDomain, EvaluateRegister]]:
    table = TABLES[name]
    domain = _domain(population, name)
    row: EvaluateRegister = getattr(population, name)
    if layout == "rows":
        return {name: (domain, row)}
    fixed = len(table.fixed)
    registers: dict[str, tuple[KeyDomain, EvaluateRegister]] = {name: (domain, _slice(row, fixed))}
    for index, column in enumerate(table.columns[fixed:], fixed):
        registers[column] = (_non_null_domain(domain, name, index), _column(row, index))
    return registers


def _slice(row: EvaluateRegister, stop: int) -> EvaluateRegister:
    return lambda *key: row(*key)[:stop]


def _column(row: EvaluateRegister, index: int) -> EvaluateRegister:
    return lambda *key: row(*key)[index]


def _non_null_domain(domain: KeyDomain, name: str, column: int) -> KeyDomain:
    """The keys of the rows in which the column is not None."""
    if (name, column) in ((ORDERS.name, O_CARRIER_ID), (ORDER_LINE.name, OL_DELIVERY_D)):
        return (*domain[:2], range(1, DELIVERED + 1), *domain[3:])
    return domain


def _domain(population: Population, name: str) -> KeyDomain:
    """The keys of the rows that a table starts with."""
    warehouses = range(1, population.warehouses + 1)
    customers = orders = range(1, CUSTOMERS + 1)
    items = range(1, ITEMS + 1)

    def lines(w: int, d: int, o: int) -> range:
        return range(1, population.line_count(w, d, o) + 1)

    domains: dict[str, KeyDomain] = {
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
