"""The population as registers: the initial data below a version store, in any layout.

`PopulationBase` implements `creekdb.execution.base_state.BaseState`. One object serves all replicas
of a simulation: it is pure, except for its cache. The cache has two generations. A hit moves an
entry to the young generation. When the young one is full, it replaces the old one. So entries in
use survive, and the size is bounded.

Keys form a tree: one or more names, then a warehouse, then a part within the warehouse, and so on.
A `KeyDomain` defines the possible continuations of each prefix of a key: a range of numbers, or
sorted numbers or texts. So neither a membership test nor the first key of a range enumerates other
keys. The part of this module that walks through keys must not depend on values.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import CollationKey
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.sql.catalog import SCHEMA_KEY
from creekdb.tpcc.layout import (
    CUSTOMERS_NAMED,
    LAST_ORDER,
    OLDEST_NEW_ORDER,
    Prefix,
    check_layout,
    register_prefixes,
)
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
from creekdb.tpcc.sql_schema import encoded_schema

KeyLevel: TypeAlias = range | tuple[str, ...] | Callable[..., Sequence[Any]]
"""One level of a key: its possible values, or a function from the preceding parts (without the
names) to them. The values are a range, sorted numbers or sorted texts."""
KeyDomain: TypeAlias = tuple[KeyLevel, ...]
KeyTree: TypeAlias = dict[str, Any]
"""Domains by name. Instead of a domain, another tree can follow a name. Names are sorted."""
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

    __slots__ = ("_domain", "_last_head", "_last_level", "_starts", "_stops", "evaluate")

    def __init__(self, domain: KeyDomain, evaluate: EvaluateRegister) -> None:
        self.evaluate = evaluate
        self._domain = domain
        self._starts = [level.start if isinstance(level, range) else 0 for level in domain]
        self._stops = [level.stop if isinstance(level, range) else _NO_RANGE for level in domain]
        self._last_head: tuple[Any, ...] = (None,)
        self._last_level: Sequence[Any] = ()

    def contains(self, parts: tuple[Any, ...]) -> bool:
        """True if these parts, after the register's name, form a key of the domain."""
        if len(parts) != len(self._stops):
            return False
        for index in range(len(parts)):
            part = parts[index]
            start, stop = self._starts[index], self._stops[index]
            if stop == _NO_RANGE:
                level = self._domain[index]
                if callable(level):
                    head = parts[:index]
                    if self._last_head != head:
                        self._last_head, self._last_level = head, level(*head)
                    children = self._last_level
                else:
                    children = level
                if not isinstance(children, range):
                    if (type(part) is str or type(part) is int) and part in children:
                        continue
                    return False
                start, stop = children.start, children.stop
            if type(part) is not int:
                return False
            number: int = part
            if not start <= number < stop:
                return False
        return True


def iterate_keys(
    tree: KeyTree, start: CollationKey, stop: CollationKey, reverse: bool
) -> Iterator[Key]:
    """Return the keys in [start, stop).

    The walk begins at the deepest node above the whole range, so that a key passes few generators.
    """
    names: tuple[str, ...] = ()
    parts: tuple[Any, ...] = ()
    below: Any = tree
    depth = 1  # of `path` in the bounds, which have a tag and a value for each part of a key
    while len(start) > depth + 1 and start[: depth + 2] == stop[: depth + 2]:
        tag, child = start[depth], start[depth + 1]
        if isinstance(below, dict):
            if child not in below:
                return iter(())
            names, below = (*names, child), below[child]
        elif len(parts) < len(below) and _contains(_children(below, parts), tag, child):
            parts = (*parts, child)
        else:
            return iter(())
        depth += 2
    path = start[:depth] if depth > 1 else (_TUPLE,)
    if isinstance(below, dict):
        return _iterate_names(names, path, below, start, stop, reverse)
    return _descend(names, path, below, start, stop, reverse, parts)


def _iterate_names(
    key: tuple[str, ...],
    path: CollationKey,
    tree: KeyTree,
    start: CollationKey,
    stop: CollationKey,
    reverse: bool,
) -> Iterator[Key]:
    """Yield the keys that begin with a name of the tree after `key`, whose path is `path`."""
    tagged = (*path, _STR)
    for name in _touched(list(tree), tagged, start, stop, reverse):
        below = tree[name]
        descend = _iterate_names if isinstance(below, dict) else _descend
        yield from descend((*key, name), (*tagged, name), below, start, stop, reverse)


def _descend(
    names: tuple[str, ...],
    path: CollationKey,
    domain: KeyDomain,
    start: CollationKey,
    stop: CollationKey,
    reverse: bool,
    parts: tuple[Any, ...] = (),
) -> Iterator[Key]:
    """Yield the keys below a node, whose collation keys begin with `path`."""
    if len(domain) == len(parts):
        if start <= path < stop:
            yield (*names, *parts)
        return
    children = _children(domain, parts)
    tagged = (*path, _tag(children))
    touched = _touched(children, tagged, start, stop, reverse)
    if len(parts) + 1 < len(domain):
        for child in touched:
            below = (*tagged, child)
            yield from _descend(names, below, domain, start, stop, reverse, (*parts, child))
        return
    if touched and not start <= (*tagged, touched[0]) < stop:
        touched = touched[1:]
    if touched and not start <= (*tagged, touched[-1]) < stop:
        touched = touched[:-1]
    for child in touched:
        yield (*names, *parts, child)


def _children(domain: KeyDomain, parts: tuple[Any, ...]) -> Sequence[Any]:
    """Return the possible continuations of these parts of a key."""
    level = domain[len(parts)]
    return level(*parts) if callable(level) else level


def _tag(children: Sequence[Any]) -> int:
    return _STR if children and isinstance(children[0], str) else _INT


def _contains(children: Sequence[Any], tag: Any, child: Any) -> bool:
    if tag != _tag(children):
        return False
    index = bisect_left(children, child)
    return index < len(children) and bool(children[index] == child)


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
        check_layout(layout)
        self.population = population
        self.layout = layout
        self._domains: KeyTree = {}
        self._families: KeyTree = {}
        for prefix, (domain, evaluate) in sorted(_registers(population, layout).items()):
            _plant(self._domains, prefix, domain)
            _plant(self._families, prefix, RegisterFamily(domain, evaluate))
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
        if not isinstance(key, tuple):
            return ABSENT
        family: Any = self._families
        names = 0
        while isinstance(family, dict):
            if names == len(key) or not isinstance(key[names], str):
                return ABSENT
            family = family.get(key[names])
            names += 1
        parts = key[names:]
        if family is None or not family.contains(parts):
            return ABSENT
        evaluate = family.evaluate
        match len(parts):  # unrolled: compiled, unpacking a tuple would double the cost
            case 1:
                return evaluate(parts[0])
            case 2:
                return evaluate(parts[0], parts[1])
            case 3:
                return evaluate(parts[0], parts[1], parts[2])
            case 4:
                return evaluate(parts[0], parts[1], parts[2], parts[3])
            case _:
                return evaluate(*parts)


def _plant(tree: KeyTree, prefix: Prefix, leaf: Any) -> None:
    """Add a leaf below the names of the prefix."""
    for name in prefix[:-1]:
        tree = tree.setdefault(name, {})
    tree[prefix[-1]] = leaf


Registers: TypeAlias = dict[Prefix, tuple[KeyDomain, EvaluateRegister]]
"""Domain and values of the registers with each prefix."""


def _registers(population: Population, layout: str) -> Registers:
    registers = (
        _sql_index_registers(population) if layout == "sql" else _index_registers(population)
    )
    for name, prefixes in register_prefixes(layout).items():
        if name in TABLES:
            registers.update(_table_registers(population, name, layout, prefixes))
    return registers


def _index_registers(population: Population) -> Registers:
    districts = _domain(population, DISTRICT.name)
    return {
        (CUSTOMERS_NAMED,): ((*districts, tuple(sorted(LAST_NAMES))), population.customers_named),
        (LAST_ORDER,): (_domain(population, CUSTOMER.name), population.last_order),
        (OLDEST_NEW_ORDER,): (districts, lambda w, d: DELIVERED + 1),
    }


def _sql_index_registers(population: Population) -> Registers:
    """Return index entries, which continue with the key of the row, the queue and the schema."""
    districts = _domain(population, DISTRICT.name)
    prefixes = register_prefixes("sql")

    def first_names(w: int, d: int, last: str) -> tuple[str, ...]:
        return tuple(population.namesakes(w, d, last))

    def customers(w: int, d: int, last: str, first: str, *_: int) -> tuple[int, ...]:
        return population.namesakes(w, d, last)[first]

    customers_named: KeyDomain = (
        *(*districts, tuple(sorted(LAST_NAMES)), first_names),
        *(_same_warehouse, _same_district, customers),
    )
    last_order: KeyDomain = (
        *(*_domain(population, CUSTOMER.name), _same_warehouse, _same_district),
        lambda w, d, c, *_: (population.last_order(w, d, c),),
    )
    return {
        prefixes[CUSTOMERS_NAMED][0]: (customers_named, lambda *parts: parts[-3:]),
        prefixes[LAST_ORDER][0]: (last_order, lambda *parts: parts[-3:]),
        prefixes[OLDEST_NEW_ORDER][0]: (districts, lambda w, d: (w, d, DELIVERED + 1)),
        SCHEMA_KEY: ((), encoded_schema),
    }


def _same_warehouse(w: int, *_: Any) -> range:
    return range(w, w + 1)


def _same_district(w: int, d: int, *_: Any) -> range:
    return range(d, d + 1)


def _table_registers(
    population: Population, name: str, layout: str, prefixes: tuple[Prefix, ...]
) -> Registers:
    table = TABLES[name]
    domain = _domain(population, name)
    row: EvaluateRegister = getattr(population, name)
    if layout == "sql":
        return {prefixes[0]: (domain, lambda *key: key + row(*key))}
    if layout == "rows":
        return {prefixes[0]: (domain, row)}
    fixed = len(table.fixed)
    registers = {prefixes[0]: (domain, _part(row, slice(fixed)))}
    for index, prefix in enumerate(prefixes[1:], fixed):
        registers[prefix] = (_non_null_domain(domain, name, index), _part(row, index))
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
