"""TPC-C's initial data as Parquet: written by Spark tasks (`generate`), and read by simulations.

    population.json             seed, number of warehouses, and completeness
    TABLE/part-NNNNN.parquet    rows of warehouse NNNNN, or of several warehouses from NNNNN on

The name of a file determines its content, and its rows are in the order of their keys. Files are
therefore equal, byte for byte, on any number of machines.

`LoadedPopulation` reads the files and replaces `creekdb.tpcc.Population`: a simulation on it is
equal, event by event. It reads a file on the first access to one of its rows, and caches it.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.atomic_write import atomic_write
from creekdb.errors import StorageFault, UsageError
from creekdb.tpcc import Population
from creekdb.tpcc.population.column_arrays import compute_columns
from creekdb.tpcc.population.rows import check_population
from creekdb.tpcc.schema import CUSTOMERS, ORDER_LINE, ORDERS, TABLES, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA_VERSION: Final = 1
MANIFEST_FILE: Final = "population.json"
WAREHOUSES_PER_FILE: Final = {"warehouse": 10_000, "district": 1_000}
"""Warehouses per file of tables with few rows; other tables have one. ITEM is a single file."""
ROWS_PER_GROUP: Final = 50_000


class PopulationFile(NamedTuple):
    """One file of a population: its table, and its range of units."""

    table: str
    number: int
    first_unit: int
    """First unit of the file (see `creekdb.tpcc.population.column_arrays`)."""
    end_unit: int

    @property
    def relative_path(self) -> str:
        return f"{self.table}/part-{self.number:05d}.parquet"


_TABLES_BY_SIZE: Final = (
    *("order_line", "customer", "stock", "history", "orders", "item"),
    *("new_order", "district", "warehouse"),
)


def population_files(population: Population) -> Iterator[PopulationFile]:
    """Yield all files of a population, large ones first."""
    for name in _TABLES_BY_SIZE:
        table = TABLES[name]
        if not table.has_warehouse:
            yield PopulationFile(name, 1, 0, table.initial_units)
            continue
        step = WAREHOUSES_PER_FILE.get(name, 1)
        for first in range(0, population.warehouses, step):
            end = min(first + step, population.warehouses)
            units = table.initial_units
            yield PopulationFile(name, first + 1, first * units, end * units)


def generate(spark: "SparkSession", out: Path, warehouses: int, seed: int = 0) -> int:
    """Write all files into a prepared directory, and return the number of rows."""
    population = Population(seed, warehouses)
    tasks = [(seed, warehouses, part, str(out.resolve())) for part in population_files(population)]
    context = spark.sparkContext
    rows: int = context.parallelize(tasks, len(tasks)).map(write_population_file).sum()
    _write_manifest(out, warehouses, seed, complete=True)
    return rows


def prepare_population_dir(out: Path, warehouses: int, seed: int, force: bool = False) -> None:
    """Create the directory for a population, or validate that it belongs to the population.

    Its existing files are written again. Foreign files are never removed.
    """
    check_population(seed, warehouses)
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a directory; name another")
    if out.exists() and any(out.iterdir()):
        if not (out / MANIFEST_FILE).is_file():
            raise UsageError(
                f"{out} holds files that are not of a population; name another directory"
            )
        stored = read_manifest(out)
        if (stored["warehouses"], stored["seed"]) != (warehouses, seed):
            if not force:
                raise UsageError(
                    f"{out} holds another population (warehouses {stored['warehouses']}, seed "
                    f"{stored['seed']}); name another directory, or replace it with --force"
                )
            shutil.rmtree(out)
    try:
        for table in TABLES:
            (out / table).mkdir(parents=True, exist_ok=True)
        _write_manifest(out, warehouses, seed, complete=False)
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror}") from error


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return seed, warehouses and completeness of a population."""
    if not (directory / MANIFEST_FILE).is_file():
        raise UsageError(f"{directory} is not a population: it has no {MANIFEST_FILE}")
    try:
        content = json.loads((directory / MANIFEST_FILE).read_bytes())
        version, names = content["schema_version"], ("warehouses", "seed", "complete")
        manifest = {name: content[name] for name in names}
        check_population(manifest["seed"], manifest["warehouses"])
    except (OSError, ValueError, KeyError, TypeError, UsageError) as error:
        raise StorageFault(f"{directory / MANIFEST_FILE} is damaged: {error}") from error
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{directory} was written in schema version {version}; this Creek reads "
            f"{SCHEMA_VERSION}"
        )
    return manifest


def _write_manifest(out: Path, warehouses: int, seed: int, complete: bool) -> None:
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "warehouses": warehouses,
        "seed": seed,
        "complete": complete,
    }
    with atomic_write(out / MANIFEST_FILE) as partial:
        partial.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


# --- tasks ------------------------------------------------------------------------------------


def write_population_file(task: tuple[int, int, PopulationFile, str]) -> int:
    """Write one file, and return its number of rows."""
    seed, warehouses, part, out = task
    table = arrow_table(Population(seed, warehouses), part)
    with atomic_write(Path(out) / part.relative_path) as partial:
        pq.write_table(table, partial, compression="zstd", row_group_size=ROWS_PER_GROUP)
    rows: int = table.num_rows
    return rows


def arrow_table(population: Population, part: PopulationFile) -> pa.Table:
    columns = compute_columns(population, part.table, part.first_unit, part.end_unit)
    return pa.table({name: _arrow_array(values) for name, values in columns.items()})


def _arrow_array(values: Any) -> pa.Array:
    if values.dtype.kind == "S":
        return pa.array(values, pa.binary()).cast(pa.string())
    if isinstance(values, numpy.ma.MaskedArray):
        return pa.array(values.data, pa.int64(), mask=numpy.ma.getmaskarray(values))
    return pa.array(values, pa.int64())


PopulationRow: TypeAlias = tuple[Any, ...]


class LoadedPopulation(Population):
    """Population that is read from files instead of computed."""

    def __init__(self, directory: Path) -> None:
        manifest = read_manifest(directory)
        if not manifest["complete"]:
            raise UsageError(
                f"{directory} is not complete; repeat the 'creek pipeline generate' that wrote it"
            )
        super().__init__(manifest["seed"], manifest["warehouses"])
        self._directory = directory
        self._files = {(part.table, part.number): part for part in population_files(self)}
        self._columns = lru_cache(None)(self._read_columns)
        self._line_offsets = lru_cache(None)(self._read_line_offsets)
        self._name_index = lru_cache(None)(self._read_name_index)
        self._last_orders = lru_cache(None)(self._read_last_orders)
        for table in TABLES.values():
            if table.name not in ("orders", "order_line"):
                setattr(self, table.name, partial(self._row, table))

        def order_line(w: int, d: int, o: int, number: int) -> PopulationRow:
            first = self._line_offsets(w)[_row_offset(ORDERS, (d, o))]
            return self._row_at(ORDER_LINE, w, int(first) + number - 1)

        def line_count(w: int, d: int, o: int) -> int:
            starts, order = self._line_offsets(w), _row_offset(ORDERS, (d, o))
            return int(starts[order + 1] - starts[order])

        setattr(self, "order_line", order_line)  # noqa: B010 - like the tables above
        setattr(self, "line_count", line_count)  # noqa: B010

    def orders(self, w: int, d: int, o: int) -> PopulationRow:
        return self._row(ORDERS, w, d, o)

    def last_order(self, w: int, d: int, c: int) -> int:
        return int(self._last_orders(w, d)[c])

    def customers_named(self, w: int, d: int, last_name: str) -> tuple[int, ...]:
        return self._name_index(w, d).get(last_name, ())

    # --- rows -----------------------------------------------------------------------------------

    def _row(self, table: TableSchema, *key: int) -> PopulationRow:
        """Return a row. Keys are consecutive, so a key determines the row offset."""
        w, *numbers = key if table.has_warehouse else (1, *key)
        return self._row_at(table, w, _row_offset(table, numbers))

    def _row_at(self, table: TableSchema, w: int, offset: int) -> PopulationRow:
        """Return the row at an offset from the first row of a warehouse."""
        warehouses_before = (w - 1) % WAREHOUSES_PER_FILE.get(table.name, 1)
        offset += warehouses_before * table.initial_units
        columns = self._columns(table.name, w - warehouses_before)
        return tuple([column[offset].as_py() for column in columns])

    def _read_columns(self, table: str, number: int) -> list[pa.Array]:
        """Read the columns of a file, without those of the key."""
        content = self._read_file(table, number)
        return [content.column(name).combine_chunks() for name in TABLES[table].columns]

    def _read_file(self, table: str, number: int) -> pa.Table:
        part = self._files[table, number]
        file = self._directory / part.relative_path
        try:
            content = pq.read_table(file)
        except FileNotFoundError as error:
            raise StorageFault(f"{file} is missing") from error
        except (OSError, pa.ArrowException) as error:
            raise StorageFault(f"{file} is damaged: {str(error).splitlines()[0]}") from error
        self._check_file(part, file, content)
        return content

    def _check_file(self, part: PopulationFile, file: Path, content: pa.Table) -> None:
        table = TABLES[part.table]
        if content.column_names != [*table.key, *table.columns]:
            raise StorageFault(f"{file} is damaged: its columns differ from those of {table.name}")
        if table.name != "order_line" and content.num_rows != part.end_unit - part.first_unit:
            raise StorageFault(f"{file} is damaged: it has {content.num_rows} rows")

    # --- indexes over a district or a warehouse -------------------------------------------------

    def _read_line_offsets(self, w: int) -> Any:
        """Return the offsets of the first line of each order of a warehouse, and of the end."""
        counts = self._column("orders", w, "o_ol_cnt").to_numpy()
        return numpy.concatenate(([0], numpy.cumsum(counts)))

    def _read_last_orders(self, w: int, d: int) -> Any:
        customers = self._district_column("orders", w, d, "o_c_id").to_numpy()
        orders = numpy.zeros(CUSTOMERS + 1, dtype=numpy.int64)
        orders[customers] = numpy.arange(1, CUSTOMERS + 1)
        return orders

    def _read_name_index(self, w: int, d: int) -> dict[str, tuple[int, ...]]:
        """Return customers by last name, in the order of their first names (clause 2.5.2.2)."""
        lasts, firsts = (
            self._district_column("customer", w, d, name).to_pylist()
            for name in ("c_last", "c_first")
        )
        customers: dict[str, list[tuple[str, int]]] = {}
        for c, (last, first) in enumerate(zip(lasts, firsts, strict=True), 1):
            customers.setdefault(last, []).append((first, c))
        return {last: tuple(c for _, c in sorted(each)) for last, each in customers.items()}

    def _column(self, table: str, w: int, name: str) -> pa.Array:
        return self._columns(table, w)[TABLES[table].columns.index(name)]

    def _district_column(self, table: str, w: int, d: int, name: str) -> pa.Array:
        return self._column(table, w, name).slice((d - 1) * CUSTOMERS, CUSTOMERS)


def _row_offset(table: TableSchema, numbers: Sequence[int]) -> int:
    """Return the offset of a row from the first one of its warehouse."""
    offset = 0
    for number, possible in zip(numbers, table.numbers, strict=True):
        offset = offset * len(possible) + number - possible.start
    return offset
