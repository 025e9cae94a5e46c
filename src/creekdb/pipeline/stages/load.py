"""Load of Parquet files into a cluster, without Spark.

A directory holds files of one schema, or is an export of `creek export`, whose registers are
loaded. Rows are written by key, so a load that was interrupted can be repeated.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from creekdb.client import Database
from creekdb.client.sinks import load_rows
from creekdb.errors import StorageFault, UsageError
from creekdb.pipeline.source.row_plan import make_plan
from creekdb.pipeline.source.write_options import WriteTarget
from creekdb.pipeline.storage import Location

SUFFIX: Final = ".parquet"
BATCH_ROWS: Final = 16_384
"""Rows that are read from a file at once."""
EXPORT_MANIFEST: Final = "export.json"
EXPORT_COLUMNS: Final = ("key", "value")
"""Columns of exported registers, as JSON texts."""


@dataclass(frozen=True)
class ParquetFiles:
    """Files of one schema."""

    files: tuple[Location, ...]
    schema: pa.Schema
    row_count: int
    is_export: bool = False

    @property
    def columns(self) -> list[str]:
        return list(EXPORT_COLUMNS) if self.is_export else list(self.schema.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for file in self.files:
            with file.open_parquet() as opened:
                try:
                    yield from opened.iter_batches(BATCH_ROWS, columns=self.columns)
                except (OSError, pa.ArrowException) as error:
                    reason = str(error).splitlines()[0]
                    raise StorageFault(f"{file} is damaged: {reason}; create it anew") from error


def find_files(directory: str) -> ParquetFiles:
    """Return the Parquet files of a directory, or the file itself. Raise `UsageError`."""
    location = Location.parse(directory)
    is_export = (location / EXPORT_MANIFEST).is_file()
    if is_export:
        location /= "state"
    if location.is_file():
        files = [location]
    else:
        files = [location / name for name in location.names() if name.endswith(SUFFIX)]
    if not files:
        state = "no Parquet files" if location.exists() else "no such directory"
        raise UsageError(f"cannot load {directory}: {state}; name a directory of *{SUFFIX} files")
    schema, row_count = files[0].read_schema().remove_metadata(), 0
    for file in files:
        other = file.read_schema()
        if not other.remove_metadata().equals(schema):
            raise UsageError(
                f"cannot load {file}: its columns differ from those of {files[0]}; load files of "
                "different schemas one by one"
            )
        with file.open_parquet() as opened:
            row_count += opened.metadata.num_rows
    return ParquetFiles(tuple(files), schema, row_count, is_export)


async def load_files(
    db: Database,
    files: ParquetFiles,
    table: str | None,
    json_columns: tuple[str, ...],
    on_loaded: Callable[[int], None],
) -> int:
    """Load all rows and return their number. `on_loaded` receives the rows of each call."""
    if files.is_export:
        json_columns = EXPORT_COLUMNS
    target = WriteTarget(table, json_columns=json_columns)
    plan = await make_plan(db, target, files.columns)
    return await load_rows(
        db,
        plan.operation,
        plan.rows(files.batches()),
        leading=plan.leading,
        chunk_rows=plan.chunk_rows,
        on_loaded=on_loaded,
    )
