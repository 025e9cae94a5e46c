"""Frames that conform to `schemas`: columns, order and types.

A null in a column that is not nullable raises an error that names the column, when Spark computes
the frame.
"""

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import DataFrame as DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema)


def conform_to_schema(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """Select the columns of a schema, cast to their types."""
    return frame.select(*(_conforming_column(field) for field in spark_schema(schema)))


def _conforming_column(field: StructField) -> Column:
    value = F.col(field.name).cast(field.dataType)
    if not field.nullable:
        missing = F.raise_error(F.lit(f"the column {field.name} must not be null"))
        value = F.coalesce(value, missing.cast(field.dataType))
    return value.alias(field.name)
