"""TPC-C's initial data as Parquet: written by Spark tasks (`generate`), and read by simulations.

    population.json             seed, number of warehouses, and completeness
    TABLE/part-NNNNN.parquet    rows of consecutive warehouses, from warehouse NNNNN on

Each warehouse has a row group of its own, in which the rows are in the order of their keys. A small
table, with few rows per warehouse, has one row group per file. Names and contents of the files
depend only on the seed and the number of warehouses, so they are equal, byte for byte, on any
number of machines.

`LoadedPopulation` reads the files and replaces `creekdb.tpcc.Population`: a simulation on it is
equal, event by event. It reads a row group on the first access to one of its rows, and caches it.
"""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.errors import StorageFault, UsageError
from creekdb.pipeline.schemas import PARQUET_OPTIONS
from creekdb.pipeline.spark.tasks import TaskRow, run_tasks
from creekdb.pipeline.storage import Location
from creekdb.tpcc import Population
from creekdb.tpcc.population.column_arrays import compute_columns
from creekdb.tpcc.population.rows import check_population
from creekdb.tpcc.schema import (
    CUSTOMERS,
    NULLABLE_COLUMNS,
    ORDER_LINE,
    ORDERS,
    TABLES,
    TEXT_COLUMNS,
    TableSchema,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA_VERSION: Final = 2
MANIFEST_FILE: Final = "population.json"


def _arrow_schema(table: TableSchema) -> pa.Schema:
    return pa.schema(
        pa.field(
            name, pa.string() if name in TEXT_COLUMNS else pa.int64(), name in NULLABLE_COLUMNS
        )
        for name in (*table.key, *table.columns)
    )


POPULATION_SCHEMAS: Final = {name: _arrow_schema(table) for name, table in TABLES.items()}
"""Columns of the files, by table: those of the key, then the others."""

_TABLES_BY_SIZE: Final = (
    *("order_line", "customer", "stock", "history", "orders", "item"),
    *("new_order", "district", "warehouse"),
)
WAREHOUSES_PER_FILE_MAX: Final = {
    "order_line": 5,
    "customer": 15,
    "stock": 15,
    "history": 50,
    "orders": 50,
    "new_order": 150,
    "district": 1_000,
    "warehouse": 10_000,
}
"""Warehouses per file. A file has at most about 1.5 million rows and 80 MB."""
SINGLE_GROUP_TABLES: Final = frozenset(("item", "district", "warehouse"))
"""Tables with one row group per file, because they have few rows per warehouse or no warehouse."""
FILES_MIN: Final = 8
"""Number of files of a large table, if it has so many warehouses. Each file is a task."""


class PopulationFile(NamedTuple):
    """One file of a population: its table, and its range of units."""

    table: str
    number: int
    """First warehouse of the file."""
    first_unit: int
    """First unit of the file (see `creekdb.tpcc.population.column_arrays`)."""
    end_unit: int

    @property
    def relative_path(self) -> str:
        return f"{self.table}/part-{self.number:05d}.parquet"

    @property
    def warehouses(self) -> range:
        """Warehouses of the file. ITEM counts as a single warehouse."""
        units = TABLES[self.table].initial_units
        return range(self.number, self.number + (self.end_unit - self.first_unit) // units)

    @property
    def row_groups(self) -> "list[PopulationFile]":
        """Sections of the file, each of which is a row group."""
        if self.table in SINGLE_GROUP_TABLES:
            return [self]
        units = TABLES[self.table].initial_units
        return [PopulationFile(self.table, w, (w - 1) * units, w * units) for w in self.warehouses]


def population_files(warehouses: int) -> Iterator[PopulationFile]:
    """Yield all files of a population, expensive ones first."""
    for name in _TABLES_BY_SIZE:
        last = warehouses if TABLES[name].has_warehouse else 1
        for first in range(1, last + 1, _warehouses_per_file(name, warehouses)):
            yield population_file(name, first, warehouses)


def population_file(table: str, w: int, warehouses: int) -> PopulationFile:
    """Return the file with the rows of a warehouse."""
    units = TABLES[table].initial_units
    if not TABLES[table].has_warehouse:
        return PopulationFile(table, 1, 0, units)
    step = _warehouses_per_file(table, warehouses)
    first = (w - 1) // step * step
    return PopulationFile(table, first + 1, first * units, min(first + step, warehouses) * units)


def _warehouses_per_file(table: str, warehouses: int) -> int:
    """Return the maximum, or less for a small population, so that there are enough tasks."""
    if not TABLES[table].has_warehouse:
        return 1
    limit = WAREHOUSES_PER_FILE_MAX[table]
    return min(limit, max(limit // FILES_MIN, -(-warehouses // FILES_MIN), 1))


# --- files: all access to them ------------------------------------------------------------------


def _write_file(file: Location, content: bytes | pa.Buffer) -> None:
    """Write a file, in place of an earlier one. Several tasks may write the same file."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise StorageFault(
            f"cannot write {file}: {error.strerror or error}; name a directory that all executors "
            "can write"
        ) from error


def _make_empty_directory(directory: Location) -> None:
    try:
        directory.remove()
        directory.make_directory()
    except OSError as error:
        raise StorageFault(
            f"cannot write to {directory}: {error.strerror or error}; name another directory"
        ) from error


class PopulationReader:
    """Reader of one file. It raises StorageFault if the file is missing or damaged."""

    def __init__(self, directory: Location, part: PopulationFile) -> None:
        self._path = directory / part.relative_path
        try:
            self._file = self._path.open_parquet()
        except FileNotFoundError as error:
            raise StorageFault(f"{self._path} is missing") from error
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._damage(error) from error
        if not self._file.schema_arrow.equals(POPULATION_SCHEMAS[part.table]):
            raise self._damage(f"its columns differ from those of {part.table}")
        if self._file.num_row_groups != len(part.row_groups):
            raise self._damage(f"it has {self._file.num_row_groups} row groups")

    def __enter__(self) -> "PopulationReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read_group(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a row group, by its position in the file."""
        try:
            return self._file.read_row_group(number, columns and [*columns])
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._damage(error) from error

    def check_row_count(self, number: int, expected: int) -> None:
        rows = self._file.metadata.row_group(number).num_rows
        if rows != expected:
            raise self._damage(f"it has {rows} rows instead of {expected} in row group {number}")

    def _damage(self, cause: object) -> StorageFault:
        reason = (str(cause).splitlines() or [type(cause).__name__])[0]
        return StorageFault(
            f"{self._path} is damaged: {reason}; repeat the 'creek pipeline generate' that wrote it"
        )


def read_manifest(directory: Location) -> dict[str, Any]:
    """Return seed, warehouses and completeness of a population."""
    if not (directory / MANIFEST_FILE).is_file():
        raise UsageError(f"{directory} is not a population: it has no {MANIFEST_FILE}")
    try:
        content = json.loads((directory / MANIFEST_FILE).read_bytes())
        version, names = content["schema_version"], ("warehouses", "seed", "complete")
        manifest = {name: content[name] for name in names}
        check_population(manifest["seed"], manifest["warehouses"])
    except (OSError, ValueError, KeyError, TypeError, UsageError) as error:
        raise StorageFault(
            f"{directory / MANIFEST_FILE} is damaged: {error}; write the population again with "
            "'creek pipeline generate --force'"
        ) from error
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{directory} was written in schema version {version}, but this Creek reads "
            f"{SCHEMA_VERSION}; write it again with 'creek pipeline generate --force'"
        )
    return manifest


def read_complete_manifest(directory: Location) -> dict[str, Any]:
    """Return the manifest; raise UsageError if the generation was interrupted or failed."""
    manifest = read_manifest(directory)
    if manifest["complete"] is not True:
        raise UsageError(
            f"{directory} is not complete; repeat the 'creek pipeline generate' that wrote it"
        )
    return manifest


def unexpected_files(directory: Location, warehouses: int) -> list[str]:
    """Return the relative paths of files in table directories that a population does not have."""
    expected = {part.relative_path for part in population_files(warehouses)}
    present = (f"{table}/{name}" for table in TABLES for name in (directory / table).names())
    return [path for path in present if path not in expected]


def _write_manifest(out: Location, warehouses: int, seed: int, complete: bool) -> None:
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "warehouses": warehouses,
        "seed": seed,
        "complete": complete,
    }
    _write_file(out / MANIFEST_FILE, (json.dumps(manifest, indent=2) + "\n").encode())


# --- generation ---------------------------------------------------------------------------------


def prepare_population_dir(out: Location, warehouses: int, seed: int, force: bool = False) -> None:
    """Create the directory for a population without rows, which readers reject as incomplete.

    The tables of an earlier generation are removed. A directory of another population is rejected,
    except with `force`. A directory of other content is always rejected.
    """
    check_population(seed, warehouses)
    if out.is_file():
        raise UsageError(f"{out} is not a directory; name another")
    if out.names():
        if not (out / MANIFEST_FILE).is_file():
            raise UsageError(
                f"{out} holds files that are not of a population; name another directory"
            )
        if not force:
            _check_same_population(out, warehouses, seed)
    _write_manifest(out, warehouses, seed, complete=False)
    for table in TABLES:
        _make_empty_directory(out / table)


def _check_same_population(out: Location, warehouses: int, seed: int) -> None:
    stored = read_manifest(out)
    if (stored["warehouses"], stored["seed"]) != (warehouses, seed):
        raise UsageError(
            f"{out} holds another population (warehouses {stored['warehouses']}, seed "
            f"{stored['seed']}); name another directory, or replace it with --force"
        )


def generate(spark: "SparkSession", out: Location, warehouses: int, seed: int = 0) -> int:
    """Write all files into a prepared directory, and return the number of rows."""
    files = list(population_files(warehouses))
    task = partial(_write_task, seed, warehouses, out)
    results = run_tasks(spark, len(files), task, _WRITTEN)
    for error in filter(None, (row.error for row in results)):
        raise StorageFault(error)
    present = {f"{table}/{name}" for table in TABLES for name in (out / table).names()}
    for part in files:
        if part.relative_path not in present:
            raise StorageFault(
                f"{part.relative_path} was written, but is not in {out}; name a directory that "
                "all executors share"
            )
    _write_manifest(out, warehouses, seed, complete=True)
    return sum(row.rows for row in results)


# --- tasks --------------------------------------------------------------------------------------

_WRITTEN: Final = pa.schema(
    [pa.field("rows", pa.int64(), False), pa.field("error", pa.string(), True)]
)


def _write_task(seed: int, warehouses: int, out: Location, number: int) -> list[TaskRow]:
    part = list(population_files(warehouses))[number]
    try:
        rows = write_population_file(Population(seed, warehouses), part, out)
    except StorageFault as error:
        return [{"rows": 0, "error": str(error)}]
    return [{"rows": rows, "error": None}]


def write_population_file(population: Population, part: PopulationFile, out: Location) -> int:
    """Write one file, and return its number of rows."""
    buffer, rows = pa.BufferOutputStream(), 0
    with pq.ParquetWriter(buffer, POPULATION_SCHEMAS[part.table], **PARQUET_OPTIONS) as writer:
        for group in part.row_groups:
            table = arrow_table(population, group)
            writer.write_table(table, row_group_size=max(table.num_rows, 1))
            rows += table.num_rows
    _write_file(out / part.relative_path, buffer.getvalue())
    return rows


def arrow_table(population: Population, part: PopulationFile) -> pa.Table:
    """Return the rows of a file, or of a section of it."""
    schema = POPULATION_SCHEMAS[part.table]
    columns = compute_columns(population, part.table, part.first_unit, part.end_unit)
    arrays = [_arrow_array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _arrow_array(values: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        return pa.array(values, pa.binary()).cast(kind)
    if isinstance(values, numpy.ma.MaskedArray):
        return pa.array(values.data, kind, mask=numpy.ma.getmaskarray(values))
    return pa.array(values, kind)


# --- populations from files ---------------------------------------------------------------------

PopulationRow: TypeAlias = tuple[Any, ...]


class LoadedPopulation(Population):
    """Population that is read from files instead of computed."""

    def __init__(self, path: Path | Location) -> None:
        directory = Location.parse(path)
        manifest = read_complete_manifest(directory)
        super().__init__(manifest["seed"], manifest["warehouses"])
        self._directory = directory
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
        first = w
        if table.name in SINGLE_GROUP_TABLES:
            first = population_file(table.name, w, self.warehouses).number
            offset += (w - first) * table.initial_units
        columns = self._columns(table.name, first)
        return tuple([column[offset].as_py() for column in columns])

    def _read_columns(self, table: str, w: int) -> list[pa.Array]:
        """Read the columns of a row group, by its first warehouse, without those of the key."""
        part = population_file(table, w, self.warehouses)
        number = w - part.number
        if table == "order_line":
            rows = int(self._line_offsets(w)[-1])
        else:
            group = part.row_groups[number]
            rows = group.end_unit - group.first_unit
        with PopulationReader(self._directory, part) as reader:
            reader.check_row_count(number, rows)
            content = reader.read_group(number, TABLES[table].columns)
        return [content.column(name).combine_chunks() for name in TABLES[table].columns]

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
