"""Parquet tables to which each batch of a stream adds its rows, exactly once.

A batch is one file, named by its number, so that a batch that Spark repeats replaces its rows.
Many files are merged into one, whose name holds the first and the last batch. After an
interruption, a file whose batches another file includes is ignored, and removed later.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import pyarrow as pa

from creekdb.pipeline.storage import Location

FILES_MAX: Final = 60
"""Number of files at which the files of a table are merged."""
_NAME: Final = re.compile(r"batch-(\d{9})(?:-(\d{9}))?\.parquet")


class _File(NamedTuple):
    first: int
    last: int
    name: str


class BatchTable:
    def __init__(
        self,
        directory: Location,
        schema: pa.Schema,
        files_max: int = FILES_MAX,
        reduce: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    ) -> None:
        """`reduce` drops rows that later ones replace, when files are merged."""
        self._reduce = reduce
        self._directory = directory
        self._schema = schema
        self._files_max = files_max

    def write(self, batch: int, rows: pa.Table) -> None:
        """Write the rows of a batch, in place of an earlier attempt."""
        if rows.num_rows:
            conformed = rows.cast(self._schema)
            (self._directory / f"batch-{batch:09}.parquet").write_table(conformed)
        else:
            (self._directory / f"batch-{batch:09}.parquet").remove()
        self._remove_merged()
        self._merge(batch)

    def read(self, before_batch: int | None = None) -> pa.Table:
        """Return the rows in the order of the batches, or of those before a batch."""
        tables = [
            (self._directory / each.name).read_table()
            for each in self._files()
            if before_batch is None or each.last < before_batch
        ]
        return pa.concat_tables([self._schema.empty_table(), *tables]).combine_chunks()

    def _merge(self, batch: int) -> None:
        """Merge the files before a batch. Spark may repeat only the last batch."""
        before = [each for each in self._files() if each.last < batch]
        if len(before) < self._files_max:
            return
        tables = [(self._directory / each.name).read_table() for each in before]
        name = f"batch-{before[0].first:09}-{before[-1].last:09}.parquet"
        (self._directory / name).write_table(
            self._reduce(pa.concat_tables(tables)).cast(self._schema)
        )
        for each in before:
            if each.name != name:
                (self._directory / each.name).remove()

    def _remove_merged(self) -> None:
        """Remove files that an interrupted merge left."""
        retained = {each.name for each in self._files()}
        for name in self._directory.names():
            if name not in retained:
                (self._directory / name).remove()

    def _files(self) -> list[_File]:
        found = [
            _File(int(match[1]), int(match[2] or match[1]), match[0])
            for name in self._directory.names()
            if (match := _NAME.fullmatch(name))
        ]
        found.sort(key=lambda each: (each.first, -each.last))
        files: list[_File] = []
        for each in found:
            if files and each.last <= files[-1].last:
                continue  # merged, but not removed yet
            files.append(each)
        return files
