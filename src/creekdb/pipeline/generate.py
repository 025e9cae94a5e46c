"""`generate`: TPC-C's initial data as Parquet, written by tasks of Spark, and checked with Spark.

    population.json             the seed, the number of warehouses, and that all is there
    TABLE/part-NNNNN.parquet    the rows of warehouse NNNNN, or of as many as a file holds

What is in a file follows from its name, and its rows are in the order of their keys: so the files
are the same, byte for byte, on however many machines they are made. `creekdb.pipeline.population`
reads them back.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.errors import StorageFault, UsageError
from creekdb.tpcc import Population
from creekdb.tpcc.population.column_arrays import columns, unit_count
from creekdb.tpcc.population.rows import check
from creekdb.tpcc.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA_VERSION: Final = 1
MARK: Final = "population.json"
WAREHOUSES_PER_FILE: Final = {"warehouse": 10_000, "district": 1_000}
"""Of tables with few rows for a warehouse; of others it is one. ITEM is one file."""
ROWS_PER_GROUP: Final = 50_000


class Part(NamedTuple):
    """One file."""

    table: str
    number: int
    start: int
    """The first unit in it (`creekdb.tpcc.population.column_arrays`)."""
    stop: int

    @property
    def place(self) -> str:
        return f"{self.table}/part-{self.number:05d}.parquet"


def parts(population: Population) -> list[Part]:
    """Every file of a population, the large ones first."""
    return sorted(_parts(population), key=lambda part: (_WEIGHTS[part.table], part.number))


_WEIGHTS: Final = {
    name: weight
    for weight, name in enumerate(
        (
            *("order_line", "customer", "stock", "history", "orders", "item"),
            *("new_order", "district", "warehouse"),
        )
    )
}


def _parts(population: Population) -> Iterator[Part]:
    for table in TABLES:
        units = unit_count(population, table)
        if table == "item":
            yield Part(table, 1, 0, units)
            continue
        each = units // population.warehouses
        step = WAREHOUSES_PER_FILE.get(table, 1)
        for first in range(0, population.warehouses, step):
            last = min(first + step, population.warehouses)
            yield Part(table, first + 1, first * each, last * each)


def generate(spark: "SparkSession", out: Path, warehouses: int, seed: int = 0) -> int:
    """Write all files into the folder, which was prepared; how many rows there are."""
    population = Population(seed, warehouses)
    work = [(seed, warehouses, part, str(out.resolve())) for part in parts(population)]
    context = spark.sparkContext
    rows: int = context.parallelize(work, len(work)).map(write_part).sum()
    _mark(out, warehouses, seed, complete=True)
    return rows


def prepare(out: Path, warehouses: int, seed: int, force: bool = False) -> None:
    """Make the folder that of the population. What it has of the same population is written again;
    what is not ours is never removed."""
    check(seed, warehouses)
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder: name another")
    if out.exists() and any(out.iterdir()):
        if not (out / MARK).is_file():
            raise UsageError(f"{out} holds files that are not of a population: name another folder")
        found = read_mark(out)
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
        _mark(out, warehouses, seed, complete=False)
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror}") from error


def read_mark(folder: Path) -> dict[str, Any]:
    if not (folder / MARK).is_file():
        raise UsageError(f"{folder} is not a population: it has no {MARK}")
    try:
        found = json.loads((folder / MARK).read_bytes())
        version, names = found["schema_version"], ("warehouses", "seed", "complete")
        mark = {name: found[name] for name in names}
        check(mark["seed"], mark["warehouses"])
    except (OSError, ValueError, KeyError, TypeError, UsageError) as error:
        raise StorageFault(f"{folder / MARK} is damaged: {error}") from error
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{folder} was written in schema version {version}; this Creek reads {SCHEMA_VERSION}"
        )
    return mark


def _mark(out: Path, warehouses: int, seed: int, complete: bool) -> None:
    mark = {
        "schema_version": SCHEMA_VERSION,
        "warehouses": warehouses,
        "seed": seed,
        "complete": complete,
    }
    aside = out / f".{MARK}.partial"
    aside.write_text(json.dumps(mark, indent=2) + "\n", encoding="utf-8")
    aside.replace(out / MARK)


# --- what a task does -------------------------------------------------------------------------


def write_part(work: tuple[int, int, Part, str]) -> int:
    """Write one file; how many rows it has."""
    seed, warehouses, part, out = work
    table = arrow_table(Population(seed, warehouses), part)
    file = Path(out) / part.place
    aside = file.with_name(f".{file.name}.partial")
    pq.write_table(table, aside, compression="zstd", row_group_size=ROWS_PER_GROUP)
    aside.replace(file)
    rows: int = table.num_rows
    return rows


def arrow_table(population: Population, part: Part) -> pa.Table:
    found = columns(population, part.table, part.start, part.stop)
    return pa.table({name: _arrow(values) for name, values in found.items()})


def _arrow(values: Any) -> pa.Array:
    if values.dtype.kind == "S":
        return pa.array(values, pa.binary()).cast(pa.string())
    if isinstance(values, numpy.ma.MaskedArray):
        return pa.array(values.data, pa.int64(), mask=numpy.ma.getmaskarray(values))
    return pa.array(values, pa.int64())
