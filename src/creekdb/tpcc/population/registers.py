"""The population as registers: the initial data below a version store, in either layout.

`PopulationBase` implements `creekdb.execution.base_state.BaseState`. One object serves all replicas
of a simulation: it is pure, except for its cache. The cache has two generations. A hit moves an
entry to the young generation. When the young one is full, it replaces the old one. So entries in
use survive, and the size is bounded.

Keys form a tree: the name of the register, then a warehouse, then a part within the warehouse, and
so on. A `KeyDomain` defines the possible continuations of each prefix of a key: a range of numbers,
or sorted texts. So neither a membership test nor the first key of a range enumerates other keys.
The part of this module that walks through keys must not depend on values.
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
    DELIVERED,
    DISTRICT,
    O_CARRIER_ID,
    OL_DELIVERY_D,
    ORDER_LINE,
    ORDERS,
    TABLES,
)

KeyLevel: TypeAlias = range | tuple[str, ...] | Callable[..., range]
"""One level of a key: its possible values, without gaps, or a function from the preceding parts
(without the register name) to them."""
KeyDomain: TypeAlias = tuple[KeyLevel, ...]
EvaluateRegister: TypeAlias = Callable[..., Any]
"""Function from the parts of a key, after the name, to the register's value."""

_NO_RANGE: Final = -1
"""Stop of a level that is not a range."""
_INT, _STR, _TUPLE = 0, 1, 2  # type tags of a collation key, see creekdb.execution.keys


class RegisterFamily:
    """The registers with one name: their keys and their values.

    The membership test is fast where levels are ranges. The computed continuation of the last
    prefix is cached.
    """

    __slots__ = ("_domain", "_last_range", "_starts", "_stops", "evaluate")

    def __init__(self, domain: KeyDomain, evaluate: EvaluateRegister) -> None:
        self.evaluate = evaluate
        self._domain = domain
        self._starts = [level.start if isinstance(level, range) else 0 for level in domain]
        self._stops = [level.stop if isinstance(level, range) else _NO_RANGE for level in domain]
        self._last_range: tuple[tuple[Any, ...], int, int] = (None,), 0, 0

    def contains(self, parts: tuple[Any, ...]) -> bool:
        """True if these parts, after the register's name, form a key of the domain."""
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
    """Yield the keys in [start, stop). The names in `domains` must be sorted."""
    names: list[str] = list(domains)
    for name in _touched(names, (_TUPLE, _STR), start, stop, reverse):
        yield from _descend((name,), (_TUPLE, _STR, name), domains[name], start, stop, reverse)


def _descend(
    key: tuple[Any, ...],
    path: CollationKey,
    domain: KeyDomain,
    start: CollationKey,
    stop: CollationKey,
    reverse: bool,
) -> Iterator[Key]:
    """Yield the keys below a node, whose collation keys begin with `path`."""
    depth = len(key) - 1
    level = domain[depth]
    children: Sequence[Any] = level(*key[1:]) if callable(level) else level
    tagged = (*path, _INT if isinstance(children, range) else _STR)
    touched = _touched(children, tagged, start, stop, reverse)
    if depth + 1 < len(domain):
        for child in touched:
            yield from _descend((*key, child), (*tagged, child), domain, start, stop, reverse)
        return
    if touched and not start <= (*tagged, touched[0]) < stop:
        touched = touched[1:]
    if touched and not start <= (*tagged, touched[-1]) < stop:
        touched = touched[:-1]
    for child in touched:
        yield (*key, child)


def _touched(
    children: Sequence[Any],
    path: CollationKey,
    start: CollationKey,
    stop: CollationKey,
    reverse: bool,
) -> Sequence[Any]:
    """Return the children with keys in [start, stop), and at most one more at either end."""
    touched = children[_first_index(children, path, start) : _first_index(children, path, stop) + 1]
    return touched[::-1] if reverse else touched


def _first_index(children: Sequence[Any], path: CollationKey, bound: CollationKey) -> int:
    """Return the index of the first child that does not end before the bound."""
    head = bound[: len(path)]
    if head != path:
        return 0 if head < path else len(children)
    return bisect_left(children, bound[len(path)]) if len(bound) > len(path) else 0


CACHE_GENERATION_SIZE: Final = 2**17
"""Minimum number of cached registers. The maximum is twice that, with about 0.5 kB each."""


class PopulationBase:
    def __init__(
        self,
        population: Population,
        layout: str,
        cache_generation_size: int = CACHE_GENERATION_SIZE,
    ) -> None:
        if layout not in LAYOUTS:
            raise UnknownName("layout", layout, LAYOUTS)
        self.population = population
        self.layout = layout
        registers = _index_registers(population)
        for name in TABLES:
            registers.update(_table_registers(population, name, layout))
        self._domains = {name: registers[name][0] for name in sorted(registers)}
        self._registers = {name: RegisterFamily(*family) for name, family in registers.items()}
        self._generation_size = cache_generation_size
        self.young: dict[Key, Any] = {}
        self.old: dict[Key, Any] = {}

    def read(self, key: Key) -> Any:
        value = self.young.get(key)
        if value is not None:
            return value
        value = self.old.get(key) if self.old else None
        if value is None:
            value = self._compute(key)
            if value is ABSENT:
                return value  # cheap to compute, and the number of absent keys is unbounded
        if len(self.young) >= self._generation_size:
            self.old, self.young = self.young, {}
        self.young[key] = value
        return value

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        return iterate_keys(self._domains, start, stop, reverse)

    def _compute(self, key: Key) -> Any:
        if not isinstance(key, tuple) or not key or not isinstance(key[0], str):
            return ABSENT
        register = self._registers.get(key[0])
        if register is None or not register.contains(key[1:]):
            return ABSENT
        evaluate = register.evaluate
        match len(key):  # unrolled: compiled, unpacking a tuple would double the cost
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
    registers = {name: (domain, _part(row, slice(fixed)))}
    for index, column in enumerate(table.columns[fixed:], fixed):
        registers[column] = (_non_null_domain(domain, name, index), _part(row, index))
    return registers


def _part(row: EvaluateRegister, columns: slice | int) -> EvaluateRegister:
    return lambda *key: row(*key)[columns]


def _non_null_domain(domain: KeyDomain, name: str, column: int) -> KeyDomain:
    """Return the keys of the rows in which the column is not None."""
    if (name, column) in ((ORDERS.name, O_CARRIER_ID), (ORDER_LINE.name, OL_DELIVERY_D)):
        return (*domain[:2], range(1, DELIVERED + 1), *domain[3:])
    return domain


def _domain(population: Population, name: str) -> KeyDomain:
    """Return the keys of a table's initial rows."""

    def lines(w: int, d: int, o: int) -> range:
        return range(1, population.line_count(w, d, o) + 1)

    domain: KeyDomain = TABLES[name].numbers
    if TABLES[name].has_warehouse:
        domain = (range(1, population.warehouses + 1), *domain)
    return (*domain, lines) if name == ORDER_LINE.name else domain
