"""Registration of `format("creek")`: Spark imports all modules that are named `pyspark_…`."""

from creekdb.pipeline.source.data_source import CreekDataSource as DefaultSource

__all__ = ["DefaultSource"]
