"""Reading the tables that the other stages left in an output folder.

By now they are small: a few rows for each run. What is no finite number counts as null. A table
that is not there is empty; one that is damaged, or whose columns are not those of `schemas`, is
named and refused.
"""

from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.errors import StorageFault, UsageError
from creekdb.history import LIVE
from creekdb.pipeline import output, schemas, tables

Row = dict[str, Any]


class Tables(NamedTuple):
    """The rows of every table, as plain values; RUNS of those that were measured, and SAMPLES of
    live ones and those with faults."""

    measures: list[Row]
    latencies: list[Row]
    summary: list[Row]
    peaks: list[Row]
    verdicts: list[Row]
    runs: list[Row]
    samples: list[Row]
    over_time: list[Row]
    failed: list[Row]
    """Cells of which there is no run: `cell`, and `detail`, what was written down about it."""


def read_tables(out: Path) -> Tables:
    if not out.is_dir():
        raise UsageError(f"{out} is no folder: name one that 'creek pipeline simulate' has made")
    if not _files(out / "summary") or not _files(out / "measures"):
        raise UsageError(f"{out} holds no measures yet: run 'creek pipeline measure {out}' first")
    measures = _rows(_files(out / "measures"), schemas.MEASURES)
    measured = {row["run"] for row in measures}
    folders = [folder for folder in output.run_folders(out) if folder.resolve().name in measured]
    runs = _rows(_present(folders, "runs"), schemas.RUNS)
    watched = {row["run"] for row in runs if row["faults"] or row["source"] == LIVE}
    return Tables(
        measures=measures,
        latencies=_rows(_files(out / "latencies"), schemas.LATENCIES),
        summary=_rows(_files(out / "summary"), schemas.SUMMARY),
        peaks=_rows(_files(out / "peaks"), schemas.PEAKS),
        verdicts=_rows(_files(out / "verdicts"), schemas.VERDICTS),
        runs=runs,
        samples=_rows(
            _present([each for each in folders if each.resolve().name in watched], "samples"),
            schemas.SAMPLES,
        ),
        over_time=_rows(_files(out / "over_time"), schemas.OVER_TIME),
        failed=[
            {"cell": path.stem, "detail": path.read_text(encoding="utf-8", errors="replace")}
            for path in sorted((out / output.FAILED).glob("*.txt"))
        ],
    )


def _files(table: Path) -> list[Path]:
    """What a stage wrote, without the marks that Spark leaves beside it."""
    found = table.rglob("*.parquet") if table.is_dir() else iter([table.with_suffix(".parquet")])
    return sorted(path for path in found if path.is_file() and not path.name.startswith(("_", ".")))


def _present(folders: Sequence[Path], table: str) -> list[Path]:
    files = (folder / tables.FILES[table] for folder in folders)
    return [file for file in files if file.is_file()]


def _rows(paths: Sequence[Path], schema: pa.Schema) -> list[Row]:
    return [row for path in paths for row in _rows_of(path, schema)]


def _rows_of(path: Path, schema: pa.Schema) -> Iterable[Row]:
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise StorageFault(f"{path} cannot be read as Parquet: {error}") from error
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    for field in schema:
        if kinds.get(field.name) != field.type:
            found = kinds.get(field.name, "missing")
            raise StorageFault(
                f"{path} is of another version: its column '{field.name}' should be {field.type} "
                f"and is {found}"
            )
    for row in table.select(schema.names).to_pylist():
        yield {name: None if _is_no_number(value) else value for name, value in row.items()}


def _is_no_number(value: object) -> bool:
    return isinstance(value, float) and not isfinite(value)
