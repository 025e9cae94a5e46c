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
from creekdb.tpcc.population.random_values import ORIGINAL_MARK, POOL_LENGTH, TextPools
from creekdb.tpcc.population.rows import Population, RowFormulas
from creekdb.tpcc.schema import CUSTOMERS, DELIVERED, DISTRICTS, ITEMS, TABLES

NumpyArray: TypeAlias = numpy.ndarray[Any, Any]

_NEW_ORDERS = CUSTOMERS - DELIVERED


def unit_count(population: Population, table: str) -> int:
    """Return the initial number of units of a table."""
    per_warehouse = {
        "warehouse": 1,
        "district": DISTRICTS,
        "customer": DISTRICTS * CUSTOMERS,
        "history": DISTRICTS * CUSTOMERS,
        "new_order": DISTRICTS * _NEW_ORDERS,
        "orders": DISTRICTS * CUSTOMERS,
        "order_line": DISTRICTS * CUSTOMERS,
        "stock": ITEMS,
    }
    if table == "item":
        return ITEMS
    if table not in per_warehouse:
        raise UnknownName("table", table, list(TABLES))
    return population.warehouses * per_warehouse[table]


def compute_columns(
    population: Population, table: str, start: int, stop: int
) -> dict[str, NumpyArray]:
    """Return the columns of the units in [start, stop): key columns first, in schema order."""
    if not 0 <= start <= stop <= unit_count(population, table):
        raise BadValue(f"{table} has no units from {start} to {stop}")
    formulas = RowFormulas(population.seed, ArrayGenerator(population.pools))
    key = _keys(formulas, table, start, stop)
    length = len(key[0])
    if table == "orders":
        w, d, o = key
        row = formulas.orders(w, d, o, _order_customers(formulas, start, stop))
    else:
        evaluate: Callable[..., tuple[Any, ...]] = getattr(formulas, table)
        row = evaluate(*key)
    schema = TABLES[table]
    names = (*schema.key, *schema.columns)
    return {name: _column(each, length) for name, each in zip(names, (*key, *row), strict=True)}


class ArrayGenerator:
    """Implements `creekdb.tpcc.population.random_values.ValueGenerator` on uint64 arrays."""

    def __init__(self, pools: TextPools) -> None:
        self._alphanumeric = _characters(pools.alphanumeric)
        self._letters = _characters(pools.letters)
        self._digits = _characters(pools.digits)

    def text(self, word: NumpyArray, low: int, high: int) -> NumpyArray:
        cut = _slice_pool(self._alphanumeric, word, high)
        if low < high:
            lengths = low + (word >> 32) % (high - low + 1)
            cut[numpy.arange(high, dtype=numpy.uint64) >= lengths[:, None]] = 0
        return _as_texts(cut)

    def letters(self, word: NumpyArray, length: int) -> NumpyArray:
        return _as_texts(_slice_pool(self._letters, word, length))

    def digits(self, word: NumpyArray, length: int) -> NumpyArray:
        return _as_texts(_slice_pool(self._digits, word, length))

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


def _keys(formulas: RowFormulas, table: str, start: int, stop: int) -> tuple[NumpyArray, ...]:
    unit = numpy.arange(start, stop, dtype=numpy.uint64)
    match table:
        case "warehouse":
            return (unit + 1,)
        case "district":
            return unit // DISTRICTS + 1, unit % DISTRICTS + 1
        case "item":
            return (unit + 1,)
        case "stock":
            return unit // ITEMS + 1, unit % ITEMS + 1
        case "new_order":
            w, d, number = _in_district(unit, _NEW_ORDERS)
            return w, d, number + DELIVERED
        case "history":
            return (*_in_district(unit, CUSTOMERS), numpy.ones_like(unit))
        case "order_line":
            return _lines(formulas, *_in_district(unit, CUSTOMERS))
        case _:
            return _in_district(unit, CUSTOMERS)


def _in_district(unit: NumpyArray, each: int) -> tuple[NumpyArray, NumpyArray, NumpyArray]:
    district = unit // each
    return district // DISTRICTS + 1, district % DISTRICTS + 1, unit % each + 1


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
        unit = numpy.arange(CUSTOMERS, dtype=numpy.uint64) + district * CUSTOMERS
        words = formulas.permutation_word(*_in_district(unit, CUSTOMERS))
        per_district.append(numpy.argsort(words, kind="stable") + 1)
    return numpy.concatenate(per_district)[start - first * CUSTOMERS : stop - first * CUSTOMERS]


def _column(value: Any, length: int) -> NumpyArray:
    if isinstance(value, str):
        return numpy.full(length, value.encode())
    if isinstance(value, int):
        return numpy.full(length, value, dtype=numpy.int64)
    array: NumpyArray = value
    return array.astype(numpy.int64) if array.dtype.kind == "u" else array


def _characters(pool: str) -> NumpyArray:
    return numpy.frombuffer(pool.encode(), dtype=numpy.uint8)


def _slice_pool(pool: NumpyArray, word: NumpyArray, width: int) -> NumpyArray:
    """Return a slice of the pool per word, as rows of a matrix."""
    starts = (word % POOL_LENGTH).astype(numpy.int64)
    pieces: NumpyArray = sliding_window_view(pool, width)[starts]
    return pieces


def _as_texts(characters: NumpyArray) -> NumpyArray:
    width = characters.shape[1]
    return numpy.ascontiguousarray(characters).view(f"S{width}").reshape(len(characters))
