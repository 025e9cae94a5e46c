"""TPC-C's conditions on its initial data (clause 4.3.3.1), checked on Parquet files by Spark tasks.

They cover counts and keys of each warehouse, and relations between tables. A task reads all pages
of its files, which verifies their checksums, and returns only violations. Each relation is within a
warehouse, so no row leaves its task. A task compares keys as arrays, and examines single rows only
in a warehouse where the arrays differ.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from creekdb.errors import StorageFault
from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.spark.tasks import TaskRow, run_tasks
from creekdb.pipeline.stages.population import (
    POPULATION_SCHEMAS,
    PopulationFile,
    PopulationReader,
    population_file,
    population_files,
    read_complete_manifest,
    unexpected_files,
)
from creekdb.pipeline.storage import Location
from creekdb.tpcc.schema import CUSTOMERS, DISTRICTS, TABLES

PROBLEMS_MAX: Final = 20
PROBLEM: Final = pa.schema([pa.field("problem", pa.string(), False)])

KeyArrays: TypeAlias = Sequence[Any]
"""Columns of a key, as arrays of int64."""
Key: TypeAlias = tuple[int, ...]


def read_population_tables(spark: SparkSession, directory: Location) -> dict[str, DataFrame]:
    """Return the tables of a complete population, by name."""
    read_complete_manifest(directory)
    return {
        name: spark.read.schema(spark_schema(schema)).parquet((directory / name).uri)
        for name, schema in POPULATION_SCHEMAS.items()
    }


def find_violations(spark: SparkSession, directory: Location) -> list[str]:
    """Return the first PROBLEMS_MAX violations and damaged files of a complete population."""
    warehouses: int = read_complete_manifest(directory)["warehouses"]
    problems = {
        f"{path} is not a file of this population"
        for path in unexpected_files(directory, warehouses)
    }
    count = len(_checked_files(warehouses))
    task = partial(_check_task, warehouses, directory)
    problems.update(row.problem for row in run_tasks(spark, count, task, PROBLEM))
    return sorted(problems)[:PROBLEMS_MAX]


# --- tasks --------------------------------------------------------------------------------------


def _checked_files(warehouses: int) -> list[PopulationFile]:
    """Return a file per task. The task of an ORDER_LINE file checks the orders of its warehouses in
    all tables."""
    files = population_files(warehouses)
    return [part for part in files if part.table not in ("orders", "new_order")]


def _check_task(warehouses: int, directory: Location, number: int) -> list[TaskRow]:
    problems = check_file(directory, _checked_files(warehouses)[number], warehouses)
    return [{"problem": problem} for problem in problems]


def check_file(directory: Location, part: PopulationFile, warehouses: int) -> list[str]:
    """Return the first PROBLEMS_MAX violations of a file. The first damaged page ends the check."""
    checks = (
        _order_problems(directory, part.warehouses, warehouses)
        if part.table == "order_line"
        else _file_problems(directory, part)
    )
    problems = set()
    try:
        for problem in checks:
            problems.add(problem)
    except StorageFault as error:
        problems.add(str(error))
    return sorted(problems)[:PROBLEMS_MAX]


# --- counts and keys ----------------------------------------------------------------------------


def _file_problems(directory: Location, part: PopulationFile) -> Iterator[str]:
    with PopulationReader(directory, part) as reader:
        for number, group in enumerate(part.row_groups):
            yield from _key_problems(group, _key_arrays(part.table, reader.read_group(number)))


def _key_arrays(table: str, rows: pa.Table) -> KeyArrays:
    return [rows.column(name).to_numpy() for name in TABLES[table].key]


def _key_problems(group: PopulationFile, keys: KeyArrays) -> Iterator[str]:
    """Check that a row group has the initial keys of its warehouses, in order."""
    expected = _initial_keys(group)
    if _are_equal(keys, expected):
        return
    found_by_warehouse = _keys_by_warehouse(group.table, keys)
    expected_by_warehouse = _keys_by_warehouse(group.table, expected)
    for w in sorted(found_by_warehouse.keys() | expected_by_warehouse.keys()):
        found, initial = found_by_warehouse.get(w, []), expected_by_warehouse.get(w, [])
        rows, distinct = len(found), len(set(found))
        if not initial:
            yield f"{group.table} of warehouse {w} has {rows} rows outside its row group"
        elif rows != len(initial) or distinct != len(initial):
            yield f"{group.table} of warehouse {w} has {rows} rows and {distinct} keys"
        elif sorted(found) != initial:
            yield f"{group.table} of warehouse {w} has keys that are not consecutive"
        elif found != initial:
            yield f"{group.table} of warehouse {w} is not in the order of its keys"


def _initial_keys(group: PopulationFile) -> KeyArrays:
    table = TABLES[group.table]
    numbers = (group.warehouses, *table.numbers) if table.has_warehouse else table.numbers
    parts = [numpy.arange(each.start, each.stop) for each in numbers]
    return [grid.ravel() for grid in numpy.meshgrid(*parts, indexing="ij")]


def _keys_by_warehouse(table: str, keys: KeyArrays) -> dict[int, list[Key]]:
    """Return the keys of each warehouse; ITEM counts as a single warehouse."""
    grouped: dict[int, list[Key]] = defaultdict(list)
    for key in _key_tuples(keys):
        grouped[key[0] if TABLES[table].has_warehouse else 1].append(key)
    return grouped


def _key_tuples(keys: KeyArrays) -> list[Key]:
    return list(zip(*(each.tolist() for each in keys), strict=True))


def _are_equal(some: KeyArrays, others: KeyArrays) -> bool:
    return all(map(numpy.array_equal, some, others))


# --- orders and their lines ---------------------------------------------------------------------


def _order_problems(directory: Location, checked: range, warehouses: int) -> Iterator[str]:
    """Check ORDERS, ORDER_LINE and NEW_ORDER of some warehouses."""
    tables = ("orders", "order_line", "new_order")
    for w in checked:
        rows = {name: _read_warehouse(directory, name, w, warehouses) for name in tables}
        orders, lines, new_orders = (_key_arrays(name, rows[name]) for name in tables)
        for name, keys in (("orders", orders), ("new_order", new_orders)):
            group = population_file(name, w, warehouses).row_groups
            yield from _key_problems(group[w - group[0].number], keys)
        yield from _line_problems(w, orders, rows["orders"], lines)
        yield from _customer_problems(orders, rows["orders"])
        yield from _new_order_problems(orders, rows["orders"], new_orders)


def _read_warehouse(directory: Location, table: str, w: int, warehouses: int) -> pa.Table:
    part = population_file(table, w, warehouses)
    with PopulationReader(directory, part) as reader:
        return reader.read_group(w - part.number)


def _line_problems(w: int, orders: KeyArrays, rows: pa.Table, lines: KeyArrays) -> Iterator[str]:
    """Check that the lines of an order are numbered from 1 to its line count."""
    counts = rows.column("o_ol_cnt").to_numpy()
    plausible = counts.min(initial=1) >= 1 and counts.sum() == len(lines[0])
    if plausible and _are_equal(lines, _numbered_lines(orders, counts)):
        return
    numbers: dict[Key, list[int]] = defaultdict(list)
    for *key, number in _key_tuples(lines):
        numbers[tuple(key)].append(number)
    expected = dict(zip(_key_tuples(orders), counts.tolist(), strict=True))
    wrong = [
        order
        for order in numbers.keys() | expected.keys()
        if not _are_numbered(numbers.get(order, []), expected.get(order, 0))
    ]
    for order in wrong:
        yield f"lines differ from o_ol_cnt in order {_join(order)}"
    if not wrong and _key_tuples(lines) != sorted(_key_tuples(lines)):
        yield f"order_line of warehouse {w} is not in the order of its keys"


def _are_numbered(numbers: list[int], count: int) -> bool:
    """True if the numbers are those from 1 to `count`, which is positive, in any order."""
    return len(numbers) == count > 0 and sorted(numbers) == list(range(1, count + 1))


def _numbered_lines(orders: KeyArrays, counts: Any) -> KeyArrays:
    first_lines = numpy.cumsum(counts) - counts
    numbers = numpy.arange(counts.sum()) - numpy.repeat(first_lines, counts) + 1
    return [*(numpy.repeat(each, counts) for each in orders), numbers]


def _customer_problems(orders: KeyArrays, rows: pa.Table) -> Iterator[str]:
    customers = rows.column("o_c_id").to_numpy()
    everyone = numpy.arange(1, CUSTOMERS + 1)
    if customers.size == DISTRICTS * CUSTOMERS:
        by_district = numpy.sort(customers.reshape(DISTRICTS, CUSTOMERS), axis=1)
        if (by_district == everyone).all() and _are_grouped(orders[1]):
            return
    ordering: dict[Key, set[int]] = defaultdict(set)
    for *key, customer in _key_tuples((*orders[:2], customers)):
        ordering[tuple(key)].add(customer)
    for district, present in ordering.items():
        if present != set(everyone.tolist()):
            yield f"not all customers have an order in district {_join(district)}"


def _are_grouped(districts: Any) -> bool:
    """True if each district has CUSTOMERS consecutive orders."""
    return bool((districts.reshape(DISTRICTS, CUSTOMERS) == districts[::CUSTOMERS, None]).all())


def _new_order_problems(orders: KeyArrays, rows: pa.Table, new_orders: KeyArrays) -> Iterator[str]:
    """Check that exactly the orders without a carrier are new."""
    undelivered = rows.column("o_carrier_id").is_null().to_numpy()
    without_carrier = [each[undelivered] for each in orders]
    if _are_equal(new_orders, without_carrier):
        return
    for order in {*_key_tuples(new_orders)} ^ {*_key_tuples(without_carrier)}:
        yield f"new_order and the carrier differ in order {_join(order)}"


def _join(key: Sequence[int]) -> str:
    return ", ".join(map(str, key))
