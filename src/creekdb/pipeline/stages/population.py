"""`generate`: TPC-C's initial data as Parquet, written by tasks of Spark, and checked with Spark.

    population.json             the seed, the number of warehouses, and that all is there
    TABLE/part-NNNNN.parquet    the rows of warehouse NNNNN, or of as many as a file holds

What is in a file follows from its name, and its rows are in the order of their keys: so the files
are the same, byte for byte, on however many machines they are made.
`creekdb.pipeline.stages.population` reads them back.

A population that is read from the files of `creekdb.pipeline.stages.population`, not computed.

It stands in for `creekdb.tpcc.Population`: a simulation on it is the same, event by event. A file
is read when one of its rows is first asked for, and stays in memory.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.errors import StorageFault, UsageError
from creekdb.tpcc import Population
from creekdb.tpcc.population.column_arrays import compute_columns, unit_count
from creekdb.tpcc.population.rows import check_population
from creekdb.tpcc.schema import CUSTOMERS, DISTRICTS, TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA_VERSION: Final = 1
MANIFEST_FILE: Final = "population.json"
WAREHOUSES_PER_FILE: Final = {"warehouse": 10_000, "district": 1_000}
"""Of tables with few rows for a warehouse; of others it is one. ITEM is one file."""
ROWS_PER_GROUP: Final = 50_000


class PopulationFile(NamedTuple):
    """One file."""

    table: str
    number: int
    first_unit: int
    """The first unit in it (`creekdb.tpcc.population.column_arrays`)."""
    end_unit: int

    @property
    def relative_path(self) -> str:
        return f"{self.table}/part-{self.number:05d}.parquet"


def population_files(population: Population) -> list[PopulationFile]:
    """Every file of a population, the large ones first."""
    return sorted(
        _files_by_table(population), key=lambda part: (_TABLES_BY_SIZE[part.table], part.number)
    )


_TABLES_BY_SIZE: Final = {
    name: weight
    for weight, name in enumerate(
        (
            *("order_line", "customer", "stock", "history", "orders", "item"),
            *("new_order", "district", "warehouse"),
        )
    )
}


def _files_by_table(population: Population) -> Iterator[PopulationFile]:
    for table in TABLES:
        units = unit_count(population, table)
        if table == "item":
            yield PopulationFile(table, 1, 0, units)
            continue
        each = units // population.warehouses
        step = WAREHOUSES_PER_FILE.get(table, 1)
        for first in range(0, population.warehouses, step):
            last = min(first + step, population.warehouses)
            yield PopulationFile(table, first + 1, first * each, last * each)


def generate(spark: "SparkSession", out: Path, warehouses: int, seed: int = 0) -> int:
    """Write all files into the folder, which was prepared; how many rows there are."""
    population = Population(seed, warehouses)
    work = [(seed, warehouses, part, str(out.resolve())) for part in population_files(population)]
    context = spark.sparkContext
    rows: int = context.parallelize(work, len(work)).map(write_population_file).sum()
    _write_manifest(out, warehouses, seed, complete=True)
    return rows


def prepare_population_dir(out: Path, warehouses: int, seed: int, force: bool = False) -> None:
    """Make the folder that of the population. What it has of the same population is written again;
    what is not ours is never removed."""
    check_population(seed, warehouses)
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder: name another")
    if out.exists() and any(out.iterdir()):
        if not (out / MANIFEST_FILE).is_file():
            raise UsageError(f"{out} holds files that are not of a population: name another folder")
        found = read_manifest(out)
        if (found["warehouses"], found["seed"]) != (warehouses, seed):
            if not force:
                raise UsageError(
                    f"{out} holds another population (warehouses {found['warehouses']}, seed "
                    f"{found['seed']}): name another folder, or replace it with --force"
                )
            shutil.rmtree(out)
    try:
        for table in TABLES:
            (out / table).mkdir(parents=True, exist_ok=True)
        _write_manifest(out, warehouses, seed, complete=False)
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror}") from error


def read_manifest(folder: Path) -> dict[str, Any]:
    if not (folder / MANIFEST_FILE).is_file():
        raise UsageError(f"{folder} is not a population: it has no {MANIFEST_FILE}")
    try:
        found = json.loads((folder / MANIFEST_FILE).read_bytes())
        version, names = found["schema_version"], ("warehouses", "seed", "complete")
        mark = {name: found[name] for name in names}
        check_population(mark["seed"], mark["warehouses"])
    except (OSError, ValueError, KeyError, TypeError, UsageError) as error:
        raise StorageFault(f"{folder / MANIFEST_FILE} is damaged: {error}") from error
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{folder} was written in schema version {version}; this Creek reads {SCHEMA_VERSION}"
        )
    return mark


def _write_manifest(out: Path, warehouses: int, seed: int, complete: bool) -> None:
    mark = {
        "schema_version": SCHEMA_VERSION,
        "warehouses": warehouses,
        "seed": seed,
        "complete": complete,
    }
    aside = out / f".{MANIFEST_FILE}.partial"
    aside.write_text(json.dumps(mark, indent=2) + "\n", encoding="utf-8")
    aside.replace(out / MANIFEST_FILE)


# --- what a task does -------------------------------------------------------------------------


def write_population_file(work: tuple[int, int, PopulationFile, str]) -> int:
    """Write one file; how many rows it has."""
    seed, warehouses, part, out = work
    table = arrow_table(Population(seed, warehouses), part)
    file = Path(out) / part.relative_path
    aside = file.with_name(f".{file.name}.partial")
    pq.write_table(table, aside, compression="zstd", row_group_size=ROWS_PER_GROUP)
    aside.replace(file)
    rows: int = table.num_rows
    return rows


def arrow_table(population: Population, part: PopulationFile) -> pa.Table:
    found = compute_columns(population, part.table, part.first_unit, part.end_unit)
    return pa.table({name: _arrow_array(values) for name, values in found.items()})


def _arrow_array(values: Any) -> pa.Array:
    if values.dtype.kind == "S":
        return pa.array(values, pa.binary()).cast(pa.string())
    if isinstance(values, numpy.ma.MaskedArray):
        return pa.array(values.data, pa.int64(), mask=numpy.ma.getmaskarray(values))
    return pa.array(values, pa.int64())


PopulationRow: TypeAlias = tuple[Any, ...]


class LoadedPopulation(Population):
    def __init__(self, folder: Path) -> None:
        mark = read_manifest(folder)
        if not mark["complete"]:
            raise UsageError(f"{folder} is not complete: run the command that makes it once more")
        super().__init__(mark["seed"], mark["warehouses"])
        self._directory = folder
        self._files = {(part.table, part.number): part for part in population_files(self)}
        self._columns = lru_cache(None)(self._read_columns)
        self._line_offsets = lru_cache(None)(self._read_line_offsets)
        self._name_index = lru_cache(None)(self._read_name_index)
        self._last_orders = lru_cache(None)(self._read_last_orders)
        for table in ("warehouse", "district", "customer", "history", "new_order", "item", "stock"):
            setattr(self, table, self._row_reader(table))

        def order_line(w: int, d: int, o: int, number: int) -> PopulationRow:
            return self._row(
                "order_line", w, int(self._line_offsets(w)[_row_offset(d, o)]) + number - 1
            )

        def line_count(w: int, d: int, o: int) -> int:
            starts = self._line_offsets(w)
            return int(starts[_row_offset(d, o) + 1] - starts[_row_offset(d, o)])

        setattr(self, "order_line", order_line)  # noqa: B010 - as those above
        setattr(self, "line_count", line_count)  # noqa: B010

    def orders(self, w: int, d: int, o: int) -> PopulationRow:
        return self._row("orders", w, _row_offset(d, o))

    def last_order(self, w: int, d: int, c: int) -> int:
        return int(self._last_orders(w, d)[c])

    def customers_named(self, w: int, d: int, last_name: str) -> tuple[int, ...]:
        return self._name_index(w, d).get(last_name, ())

    # --- rows -----------------------------------------------------------------------------------

    def _row_reader(self, table: str) -> Callable[..., PopulationRow]:
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
                return lambda w, d, c, number: self._row(table, w, _row_offset(d, c))
            case _:
                return lambda w, d, c: self._row(table, w, _row_offset(d, c))

    def _row(self, table: str, w: int, place: int) -> PopulationRow:
        step = WAREHOUSES_PER_FILE.get(table, 1)
        first = (w - 1) // step * step
        if step > 1:
            place += (w - 1 - first) * _ROWS_PER_WAREHOUSE[table]
        columns = self._columns(table, first + 1)
        return tuple([column[place].as_py() for column in columns])

    def _read_columns(self, table: str, number: int) -> list[pa.Array]:
        """Without those of the key."""
        found = self._read_file(table, number)
        return [found.column(name).combine_chunks() for name in TABLES[table].columns]

    def _read_file(self, table: str, number: int) -> pa.Table:
        part = self._files[table, number]
        file = self._directory / part.relative_path
        try:
            found = pq.read_table(file)
        except FileNotFoundError as error:
            raise StorageFault(f"{file} is missing") from error
        except (OSError, pa.ArrowException) as error:
            raise StorageFault(f"{file} is damaged: {str(error).splitlines()[0]}") from error
        self._check_file(part, file, found)
        return found

    def _check_file(self, part: PopulationFile, file: Path, found: pa.Table) -> None:
        table = TABLES[part.table]
        if found.column_names != [*table.key, *table.columns]:
            raise StorageFault(f"{file} is damaged: its columns are others than {table.name} has")
        if table.name != "order_line" and found.num_rows != part.end_unit - part.first_unit:
            raise StorageFault(f"{file} is damaged: it has {found.num_rows} rows")

    # --- what takes a whole district, or warehouse, to find out ---------------------------------

    def _read_line_offsets(self, w: int) -> Any:
        """Where the lines of each order of the warehouse begin, and where the last ones end."""
        counts = self._column("orders", w, "o_ol_cnt").to_numpy()
        return numpy.concatenate(([0], numpy.cumsum(counts)))

    def _read_last_orders(self, w: int, d: int) -> Any:
        customers = (
            self._column("orders", w, "o_c_id").slice(_row_offset(d, 1), CUSTOMERS).to_numpy()
        )
        orders = numpy.zeros(CUSTOMERS + 1, dtype=numpy.int64)
        orders[customers] = numpy.arange(1, CUSTOMERS + 1)
        return orders

    def _read_name_index(self, w: int, d: int) -> dict[str, tuple[int, ...]]:
        """In the order of their first names (clause 2.5.2.2)."""
        lasts, firsts = (
            self._column("customer", w, name).slice(_row_offset(d, 1), CUSTOMERS).to_pylist()
            for name in ("c_last", "c_first")
        )
        named: dict[str, list[tuple[str, int]]] = {}
        for c, (last, first) in enumerate(zip(lasts, firsts, strict=True), 1):
            named.setdefault(last, []).append((first, c))
        return {last: tuple(c for _, c in sorted(each)) for last, each in named.items()}

    def _column(self, table: str, w: int, name: str) -> pa.Array:
        return self._columns(table, w)[TABLES[table].columns.index(name)]


_ROWS_PER_WAREHOUSE: Final = {"warehouse": 1, "district": DISTRICTS}


def _row_offset(d: int, number: int) -> int:
    """Of what a district has as many of as customers."""
    return (d - 1) * CUSTOMERS + number - 1
