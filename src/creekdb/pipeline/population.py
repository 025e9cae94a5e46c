"""A population that is read from the files of `creekdb.pipeline.generate`, not computed.

It stands in for `creekdb.tpcc.Population`: a simulation on it is the same, event by event. A file
is read when one of its rows is first asked for, and stays in memory.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.errors import StorageFault, UsageError
from creekdb.pipeline.generate import WAREHOUSES_PER_FILE, Part, parts, read_mark
from creekdb.tpcc import Population
from creekdb.tpcc.schema import CUSTOMERS, DISTRICTS, TABLES

Row: TypeAlias = tuple[Any, ...]


class LoadedPopulation(Population):
    def __init__(self, folder: Path) -> None:
        mark = read_mark(folder)
        if not mark["complete"]:
            raise UsageError(f"{folder} is not complete: run the command that makes it once more")
        super().__init__(mark["seed"], mark["warehouses"])
        self._folder = folder
        self._parts = {(part.table, part.number): part for part in parts(self)}
        self._columns = lru_cache(None)(self._read_columns)
        self._starts = lru_cache(None)(self._line_starts)
        self._named = lru_cache(None)(self._customers_by_name)
        self._ordered = lru_cache(None)(self._orders_by_customer)
        for table in ("warehouse", "district", "customer", "history", "new_order", "item", "stock"):
            setattr(self, table, self._rows_of(table))

        def order_line(w: int, d: int, o: int, number: int) -> Row:
            return self._row("order_line", w, int(self._starts(w)[_place(d, o)]) + number - 1)

        def line_count(w: int, d: int, o: int) -> int:
            starts = self._starts(w)
            return int(starts[_place(d, o) + 1] - starts[_place(d, o)])

        setattr(self, "order_line", order_line)  # noqa: B010 - as those above
        setattr(self, "line_count", line_count)  # noqa: B010

    def orders(self, w: int, d: int, o: int) -> Row:
        return self._row("orders", w, _place(d, o))

    def last_order(self, w: int, d: int, c: int) -> int:
        return int(self._ordered(w, d)[c])

    def customers_named(self, w: int, d: int, last_name: str) -> tuple[int, ...]:
        return self._named(w, d).get(last_name, ())

    # --- rows -----------------------------------------------------------------------------------

    def _rows_of(self, table: str) -> Callable[..., Row]:
        """Keys are consecutive, so a place within a warehouse follows from the key."""
        match table:
            case "item":
                return lambda i: self._row(table, 1, i - 1)
            case "warehouse":
                return lambda w: self._row(table, w, 0)
            case "district":
                return lambda w, d: self._row(table, w, d - 1)
            case "stock":
                return lambda w, i: self._row(table, w, i - 1)
            case "new_order":
                return lambda w, d, o: ()
            case "history":
                return lambda w, d, c, number: self._row(table, w, _place(d, c))
            case _:
                return lambda w, d, c: self._row(table, w, _place(d, c))

    def _row(self, table: str, w: int, place: int) -> Row:
        step = WAREHOUSES_PER_FILE.get(table, 1)
        first = (w - 1) // step * step
        if step > 1:
            place += (w - 1 - first) * _PER_WAREHOUSE[table]
        columns = self._columns(table, first + 1)
        return tuple([column[place].as_py() for column in columns])

    def _read_columns(self, table: str, number: int) -> list[pa.Array]:
        """Without those of the key."""
        found = self._file(table, number)
        return [found.column(name).combine_chunks() for name in TABLES[table].columns]

    def _file(self, table: str, number: int) -> pa.Table:
        part = self._parts[table, number]
        file = self._folder / part.place
        try:
            found = pq.read_table(file)
        except FileNotFoundError as error:
            raise StorageFault(f"{file} is missing") from error
        except (OSError, pa.ArrowException) as error:
            raise StorageFault(f"{file} is damaged: {str(error).splitlines()[0]}") from error
        self._check(part, file, found)
        return found

    def _check(self, part: Part, file: Path, found: pa.Table) -> None:
        table = TABLES[part.table]
        if found.column_names != [*table.key, *table.columns]:
            raise StorageFault(f"{file} is damaged: its columns are others than {table.name} has")
        if table.name != "order_line" and found.num_rows != part.stop - part.start:
            raise StorageFault(f"{file} is damaged: it has {found.num_rows} rows")

    # --- what takes a whole district, or warehouse, to find out ---------------------------------

    def _line_starts(self, w: int) -> Any:
        """Where the lines of each order of the warehouse begin, and where the last ones end."""
        counts = self._column("orders", w, "o_ol_cnt").to_numpy()
        return numpy.concatenate(([0], numpy.cumsum(counts)))

    def _orders_by_customer(self, w: int, d: int) -> Any:
        customers = self._column("orders", w, "o_c_id").slice(_place(d, 1), CUSTOMERS).to_numpy()
        orders = numpy.zeros(CUSTOMERS + 1, dtype=numpy.int64)
        orders[customers] = numpy.arange(1, CUSTOMERS + 1)
        return orders

    def _customers_by_name(self, w: int, d: int) -> dict[str, tuple[int, ...]]:
        """In the order of their first names (clause 2.5.2.2)."""
        lasts, firsts = (
            self._column("customer", w, name).slice(_place(d, 1), CUSTOMERS).to_pylist()
            for name in ("c_last", "c_first")
        )
        named: dict[str, list[tuple[str, int]]] = {}
        for c, (last, first) in enumerate(zip(lasts, firsts, strict=True), 1):
            named.setdefault(last, []).append((first, c))
        return {last: tuple(c for _, c in sorted(each)) for last, each in named.items()}

    def _column(self, table: str, w: int, name: str) -> pa.Array:
        return self._columns(table, w)[TABLES[table].columns.index(name)]


_PER_WAREHOUSE: Final = {"warehouse": 1, "district": DISTRICTS}


def _place(d: int, number: int) -> int:
    """Of what a district has as many of as customers."""
    return (d - 1) * CUSTOMERS + number - 1
