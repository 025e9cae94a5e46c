"""Data source `format("creek")`: the entry point that Spark finds by `pyspark_creek`.

Spark imports this module whenever it searches for a data source in Python. So it imports little,
and readers and writers are imported when they are used.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class CreekDataSource(DataSource):
    """Tables, keys and changes of a live cluster."""

    @classmethod
    def name(cls) -> str:
        return "creek"

    def schema(self) -> "StructType":
        from creekdb.pipeline.source.reading import declared_schema  # noqa: PLC0415 - see above

        return declared_schema(self.options)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from creekdb.pipeline.source.batch_reader import CreekReader  # noqa: PLC0415

        return CreekReader(self.options, schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802
        from creekdb.pipeline.source.stream_reader import CreekStreamReader  # noqa: PLC0415

        return CreekStreamReader(self.options, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from creekdb.pipeline.source.writer import batch_writer  # noqa: PLC0415

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: "StructType", overwrite: bool
    ) -> "DataSourceStreamWriter":
        from creekdb.pipeline.source.writer import stream_writer  # noqa: PLC0415

        return stream_writer(self.options, schema, overwrite)
