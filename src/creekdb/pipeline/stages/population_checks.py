"""TPC-C's conditions on its initial data (clause 4.3.3.1), checked on Parquet files with Spark.

They cover counts and keys of each warehouse, and relations between tables. All checks are DataFrame
code: only violations leave Spark.
"""

from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.tpcc.schema import CUSTOMERS, TABLES

ROWS_PER_WAREHOUSE: Final = {
    name: table.initial_units for name, table in TABLES.items() if name != "order_line"
}
"""Rows per warehouse. ORDER_LINE depends on the orders, and ITEM is common to all warehouses."""
PROBLEMS_MAX: Final = 20


def read_population_tables(spark: SparkSession, directory: Path) -> dict[str, DataFrame]:
    return {name: spark.read.parquet(str((directory / name).resolve())) for name in TABLES}


def find_problems(tables: dict[str, DataFrame], warehouses: int) -> list[str]:
    """Return the first PROBLEMS_MAX violations."""
    problems = reduce(
        DataFrame.unionByName,
        (
            *(_count_problems(name, tables[name], warehouses) for name in ROWS_PER_WAREHOUSE),
            _order_line_problems(tables["orders"], tables["order_line"]),
            _customer_problems(tables["orders"]),
            _new_order_problems(tables["orders"], tables["new_order"]),
        ),
    )
    rows = problems.orderBy("problem").limit(PROBLEMS_MAX).collect()
    return [row.problem for row in rows]


def _count_problems(name: str, table: DataFrame, warehouses: int) -> DataFrame:
    """Check the rows and keys of each warehouse; ITEM counts as a single warehouse."""
    key = TABLES[name].key
    keyed = table.groupBy(*key).agg(F.count("*").alias("times"))
    warehouse = F.lit(1) if name == "item" else F.col(key[0])
    counted = keyed.groupBy(warehouse.cast("long").alias("w")).agg(
        F.sum("times").alias("rows"), F.count("*").alias("keys")
    )
    last = 1 if name == "item" else warehouses
    expected = table.sparkSession.range(1, last + 1).withColumnRenamed("id", "w")
    rows, keys = F.coalesce("rows", F.lit(0)), F.coalesce("keys", F.lit(0))
    wrong = ~F.col("w").between(1, last) | (rows != keys) | (rows != ROWS_PER_WAREHOUSE[name])
    problems = expected.join(counted, "w", "full_outer").where(wrong)
    words = (f"{name} of warehouse ", F.col("w"), " has ", rows, " rows and ", keys, " keys")
    return _problem_rows(problems, *words)


def _order_line_problems(orders: DataFrame, order_line: DataFrame) -> DataFrame:
    """Check that the lines of an order are numbered from 1 to its line count."""
    key = {"ol_w_id": "o_w_id", "ol_d_id": "o_d_id", "ol_o_id": "o_id"}
    lines = (
        order_line.groupBy(*key)
        .agg(F.sort_array(F.collect_list("ol_number")).alias("lines"))
        .withColumnsRenamed(key)
    )
    expected = F.sequence(F.lit(1).cast("long"), "o_ol_cnt")
    wrong = orders.join(lines, list(key.values()), "full_outer").where(
        ~expected.eqNullSafe(F.col("lines"))
    )
    return _problem_rows(
        wrong, "lines differ from o_ol_cnt in order ", F.concat_ws(", ", *key.values())
    )


def _customer_problems(orders: DataFrame) -> DataFrame:
    counted = orders.groupBy("o_w_id", "o_d_id").agg(F.count_distinct("o_c_id").alias("customers"))
    wrong = counted.where(F.col("customers") != CUSTOMERS)
    district = F.concat_ws(", ", "o_w_id", "o_d_id")
    return _problem_rows(wrong, "not all customers have an order in district ", district)


def _new_order_problems(orders: DataFrame, new_order: DataFrame) -> DataFrame:
    key = {"no_w_id": "o_w_id", "no_d_id": "o_d_id", "no_o_id": "o_id"}
    undelivered = new_order.withColumnsRenamed(key).withColumn("new", F.lit(True))
    joined = orders.join(undelivered, list(key.values()), "full_outer")
    without_carrier = F.col("o_c_id").isNotNull() & F.col("o_carrier_id").isNull()
    wrong = joined.where(without_carrier != F.coalesce("new", F.lit(False)))
    order = F.concat_ws(", ", *key.values())
    return _problem_rows(wrong, "new_order and the carrier differ in order ", order)


def _problem_rows(wrong: DataFrame, *words: str | Column) -> DataFrame:
    texts = [F.lit(each) if isinstance(each, str) else each for each in words]
    return wrong.limit(PROBLEMS_MAX).select(F.concat(*texts).alias("problem"))
