"""Initial data in bulk: the columns of a table as arrays. Needs numpy.

The rows equal those of `creekdb.tpcc.population.rows`, because both evaluate the same formulas. A
section of a table is a range of *units*, numbered from 0 in key order. A unit is a row, except in
ORDER_LINE, where it is an order with all its lines.

Numbers are int64, texts are bytes of a fixed width, and nullable columns are masked arrays.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy
from numpy.lib.stride_tricks import sliding_window_view

from creekdb.errors import BadValue, UnknownName
from creekdb.tpcc.population.random_values import ALPHANUMERIC, ORIGINAL_MARK, POOL_LENGTH
from creekdb.tpcc.population.rows import Population, RowFormulas
from creekdb.tpcc.schema import CUSTOMERS, ORDERS, TABLES, TableSchema

NumpyArray: TypeAlias = numpy.ndarray[Any, Any]


def unit_count(population: Population, table: str) -> int:
    """Return the initial number of units of a table."""
    if table not in TABLES:
        raise UnknownName("table", table, list(TABLES))
    schema = TABLES[table]
    return schema.initial_units * (population.warehouses if schema.has_warehouse else 1)


def compute_columns(
    population: Population, table: str, start: int, stop: int
) -> dict[str, NumpyArray]:
    """Return the columns of the units in [start, stop): key columns first, in schema order."""
    if not 0 <= start <= stop <= unit_count(population, table):
        raise BadValue(f"{table} has no units from {start} to {stop}")
    formulas = RowFormulas(population.seed, ArrayGenerator(population.pools))
    schema = TABLES[table]
    key = _unit_keys(schema, start, stop)
    if table == "order_line":
        key = _lines(formulas, *key)
    evaluate: Callable[..., tuple[Any, ...]] = getattr(formulas, table)
    row = evaluate(*key, *([_order_customers(formulas, start, stop)] if table == "orders" else ()))
    length = len(key[0])
    names = (*schema.key, *schema.columns)
    return {name: _column(each, length) for name, each in zip(names, (*key, *row), strict=True)}


class ArrayGenerator:
    """Implements `creekdb.tpcc.population.random_values.ValueGenerator` on uint64 arrays."""

    def __init__(self, pools: tuple[str, ...]) -> None:
        self._pools = [numpy.frombuffer(pool.encode(), dtype=numpy.uint8) for pool in pools]

    def text(self, word: NumpyArray, low: int, high: int, pool: int = ALPHANUMERIC) -> NumpyArray:
        starts = (word % POOL_LENGTH).astype(numpy.int64)
        characters: NumpyArray = sliding_window_view(self._pools[pool], high)[starts]
        if low < high:
            lengths = low + (word >> 32) % (high - low + 1)
            characters[numpy.arange(high, dtype=numpy.uint64) >= lengths[:, None]] = 0
        return numpy.ascontiguousarray(characters).view(f"S{high}").reshape(len(characters))

    def insert_mark(self, text: NumpyArray, where: NumpyArray, word: NumpyArray) -> NumpyArray:
        marked = text.copy()
        rows = numpy.flatnonzero(where)
        lengths = numpy.char.str_len(text[rows]).astype(numpy.uint64)
        starts = (word[rows] % (lengths - len(ORIGINAL_MARK) + 1)).astype(numpy.int64)
        characters = marked.view(numpy.uint8).reshape(len(text), text.itemsize)
        for offset, character in enumerate(ORIGINAL_MARK.encode()):
            characters[rows, starts + offset] = character
        return marked

    def append_text(self, text: NumpyArray, ending: str) -> NumpyArray:
        added: NumpyArray = numpy.char.add(text, ending.encode())
        return added

    def choose(self, condition: NumpyArray, yes: Any, no: Any) -> NumpyArray:
        chosen: NumpyArray = numpy.where(condition, yes, no)
        return chosen

    def null_where(self, condition: NumpyArray, value: Any) -> NumpyArray:
        values = numpy.broadcast_to(numpy.asarray(value, dtype=numpy.int64), condition.shape)
        masked: NumpyArray = numpy.ma.masked_array(values, mask=condition)
        return masked

    def select(self, texts: Sequence[str], index: NumpyArray) -> NumpyArray:
        return numpy.array([each.encode() for each in texts])[index.astype(numpy.int64)]


def _unit_keys(table: TableSchema, start: int, stop: int) -> tuple[NumpyArray, ...]:
    """Return the keys of the units in [start, stop), one array per part."""
    unit = numpy.arange(start, stop, dtype=numpy.uint64)
    parts: list[NumpyArray] = []
    for numbers in reversed(table.numbers):
        parts.append(unit % len(numbers) + numbers.start)
        unit = unit // len(numbers)
    if table.has_warehouse:
        parts.append(unit + 1)
    return tuple(reversed(parts))


def _lines(
    formulas: RowFormulas, w: NumpyArray, d: NumpyArray, o: NumpyArray
) -> tuple[NumpyArray, ...]:
    counts = formulas.line_count(w, d, o).astype(numpy.int64)
    firsts = numpy.cumsum(counts) - counts
    numbers = numpy.arange(counts.sum()) - numpy.repeat(firsts, counts) + 1
    repeated = [numpy.repeat(each, counts) for each in (w, d, o)]
    return (*repeated, numbers.astype(numpy.uint64))


def _order_customers(formulas: RowFormulas, start: int, stop: int) -> NumpyArray:
    """Return the customers of the orders in [start, stop), computed one district at a time."""
    if start == stop:
        return numpy.empty(0, dtype=numpy.uint64)
    first, last = start // CUSTOMERS, (stop - 1) // CUSTOMERS
    per_district = []
    for district in range(first, last + 1):
        first_order = district * CUSTOMERS
        words = formulas.permutation_word(*_unit_keys(ORDERS, first_order, first_order + CUSTOMERS))
        per_district.append(numpy.argsort(words, kind="stable") + 1)
    return numpy.concatenate(per_district)[start - first * CUSTOMERS : stop - first * CUSTOMERS]


def _column(value: Any, length: int) -> NumpyArray:
    if isinstance(value, str):
        return numpy.full(length, value.encode())
    if isinstance(value, int):
        return numpy.full(length, value, dtype=numpy.int64)
    array: NumpyArray = value
    return array.astype(numpy.int64) if array.dtype.kind == "u" else array
