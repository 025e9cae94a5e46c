"""Reading the tables that the other stages left in an output folder.

By now they are small: a few rows for each run. A table that is not there is empty; one that is
damaged, or whose columns are not those of `schemas`, is named and refused.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from creek.errors import StorageFault, UsageError
from creek.pipeline import schemas

Row = dict[str, Any]
RUNS: Final = "runs"
FAILED: Final = "failed"
FILES: Final = {"runs": "run.parquet", "samples": "replicas/samples.parquet"}
"""Where a run folder has its tables."""


class Tables(NamedTuple):
    """The rows of every table, as plain values; SAMPLES of runs with faults only."""

    measures: list[Row]
    latencies: list[Row]
    summary: list[Row]
    peaks: list[Row]
    verdicts: list[Row]
    runs: list[Row]
    samples: list[Row]
    failed: list[Row]
    """Cells of which there is no run: `cell`, and `detail`, what was written down about it."""


def read_tables(out: Path) -> Tables:
    if not out.is_dir():
        raise UsageError(f"{out} is no folder: name one that 'creek pipeline simulate' has made")
    if not _files(out / "summary") or not _files(out / "measures"):
        raise UsageError(f"{out} holds no measures yet: run 'creek pipeline measure {out}' first")
    folders = out / RUNS
    runs = _rows(sorted(folders.glob(f"*/{FILES['runs']}")), schemas.RUNS)
    return Tables(
        measures=_rows(_files(out / "measures"), schemas.MEASURES),
        latencies=_rows(_files(out / "latencies"), schemas.LATENCIES),
        summary=_rows(_files(out / "summary"), schemas.SUMMARY),
        peaks=_rows(_files(out / "peaks"), schemas.PEAKS),
        verdicts=_rows(_files(out / "verdicts"), schemas.VERDICTS),
        runs=runs,
        samples=_rows(
            [
                folders / row["run"] / FILES["samples"]
                for row in runs
                if row["faults"] and (folders / row["run"] / FILES["samples"]).is_file()
            ],
            schemas.SAMPLES,
        ),
        failed=[
            {"cell": path.stem, "detail": path.read_text(encoding="utf-8", errors="replace")}
            for path in sorted((out / FAILED).glob("*.txt"))
        ],
    )


def _files(table: Path) -> list[Path]:
    """What a stage wrote, without the marks that Spark leaves beside it."""
    found = table.rglob("*.parquet") if table.is_dir() else iter([table.with_suffix(".parquet")])
    return sorted(path for path in found if path.is_file() and not path.name.startswith(("_", ".")))


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
    rows: list[Row] = table.select(schema.names).to_pylist()
    return rows
