"""Batch reads: one image of the state for all partitions."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from creekdb.pipeline.source.cluster_reader import ClusterReader
from creekdb.pipeline.source.columns import register_schema
from creekdb.pipeline.source.images import ImagePart, open_image
from creekdb.pipeline.source.options import BatchOptions
from creekdb.pipeline.source.reading import BatchMaker, check_schema


class RangePartition(InputPartition):
    """Key range of the image that a task reads."""

    def __init__(self, part: ImagePart) -> None:
        super().__init__(part.bounds)
        self.part = part


class CreekReader(DataSourceReader):
    """Reader of the state at one commit index."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = BatchOptions.parse(given)
        self._schema = schema
        if self._options.selection.table is None:
            check_schema(schema, register_schema(self._options.selection.key_type))

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with ClusterReader(options.cluster, options.selection) as reader:
            image = open_image(reader, options.selection.partitions, options.as_of)
        return [RangePartition(part) for part in image.parts()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        options = self._options
        part = partition.part
        make = BatchMaker(options.selection, self._schema, part.ticket.table)
        with ClusterReader(options.cluster, options.selection) as reader:
            for page in part.pages(reader):
                yield make.registers(page)
