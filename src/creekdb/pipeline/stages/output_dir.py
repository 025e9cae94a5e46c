"""Output directory of a pipeline.

    pipeline.json    grid of the directory: its cells, and a hash of the simulating code
    runs/CELL/       run directory of each completed cell
    failed/CELL.txt  error and replay command of each failed cell

A directory belongs to one grid. The same grid, or one with additional cells, resumes it. Another
grid, another version of the code or foreign files are rejected, never mixed. Other stages write
their tables into the same directory.
"""

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import creekdb
from creekdb.atomic_write import atomic_write
from creekdb.errors import StorageFault, UsageError
from creekdb.history import load_run_config
from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.stages import run_tables
from creekdb.pipeline.stages.grid import Cell, Grid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA_VERSION: Final = 1
MANIFEST_FILE: Final = "pipeline.json"
RUNS_DIR: Final = "runs"
FAILED_DIR: Final = "failed"
ATTEMPTS_DIR: Final = ".attempts"
"""Directory in which tasks write a run before they move it to RUNS_DIR."""

_UNHASHED_PACKAGES: Final = (
    "cli",
    "client",
    "http",
    "load",
    "pipeline",
    "checkers",
    "server",
    "wire",
)


def code_hash() -> str:
    """Return a hash of all code that affects runs. Runs of different code are not comparable."""
    package = Path(creekdb.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        if relative.parts[0] not in _UNHASHED_PACKAGES:
            digest.update(f"{relative.as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def prepare_output_dir(out: Path, grid: Grid, force: bool = False) -> None:
    """Create the directory for a grid, or validate that it belongs to the grid.

    `force` removes the output of another grid. Foreign files are never removed.
    """
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "creek": creekdb.__version__,
        "code": code_hash(),
        "grid": grid.name,
        "cells": json.loads(msgspec.json.encode(dict(grid.cells))),
    }
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a directory; name another")
    try:
        is_used = out.exists() and any(out.iterdir())
        if is_used and (problem := _mismatch_reason(out, manifest)) is not None:
            if not force or not (out / MANIFEST_FILE).is_file():
                raise UsageError(problem)
            shutil.rmtree(out)
        for directory in (out, out / RUNS_DIR, out / FAILED_DIR):
            directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(out / ATTEMPTS_DIR, ignore_errors=True)
        (out / ATTEMPTS_DIR).mkdir()
        with atomic_write(out / MANIFEST_FILE) as partial:
            partial.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror}") from error


def _mismatch_reason(out: Path, manifest: dict[str, Any]) -> str | None:
    """Return the reason why a directory does not belong to a grid, or None."""
    if not (out / MANIFEST_FILE).is_file():
        return f"{out} holds files that are not of a pipeline; name another directory"
    try:
        stored = json.loads((out / MANIFEST_FILE).read_bytes())
        cells = {name: manifest["cells"].get(name) for name in stored["cells"]}
        expected = {**manifest, "cells": cells}  # The grid may have additional cells.
        keys = ("schema_version", "cells", "code")
        differing = [key for key in keys if stored[key] != expected[key]]
    except (ValueError, KeyError, TypeError):
        file = out / MANIFEST_FILE
        return f"{file} is damaged; name another directory, or replace it with --force"
    contents = {
        "schema_version": "another schema version",
        "cells": f"another grid ({stored['grid']})",
        "code": "the same grid, simulated by another version of Creek",
    }
    if not differing:
        return None
    content = contents[differing[0]]
    return f"{out} holds {content}; name another directory, or replace it with --force"


# --- run directories ------------------------------------------------------------------------------


def run_directories(path: Path) -> list[Path]:
    """Return the runs of an output directory or of any directory of runs, or the run itself."""
    if (path / "config.json").is_file():
        return [path]
    parent = path / RUNS_DIR if (path / MANIFEST_FILE).is_file() else path
    if not parent.is_dir():
        raise UsageError(f"{path} holds no runs")
    return sorted(each for each in parent.iterdir() if (each / "config.json").is_file())


def check_run_directory(directory: Path) -> None:
    """Raise UsageError or StorageFault unless it is a run of this version with complete tables."""
    load_run_config(directory)
    for name, relative in run_tables.TABLE_FILES.items():
        file = directory / relative
        if not file.is_file():
            raise StorageFault(f"{directory} has no {relative}")
        if not parquet_schema(file).equals(run_tables.RUN_TABLE_SCHEMAS[name]):
            raise StorageFault(f"{file} is damaged: its columns differ from those of {name}")


def parquet_schema(file: Path) -> pa.Schema:
    """Return the schema of a complete file. A truncated file lacks the footer with its schema."""
    try:
        return pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise StorageFault(f"{file} is damaged: {str(error).splitlines()[0]}") from error


def read_run_table(spark: "SparkSession", directories: Sequence[Path], name: str) -> "DataFrame":
    """Read one table (`runs`, `operations`, `orders` or `samples`) of all runs."""
    schema = spark_schema(run_tables.RUN_TABLE_SCHEMAS[name])
    files = [str((each / run_tables.TABLE_FILES[name]).resolve()) for each in directories]
    return spark.read.schema(schema).parquet(*files)


def is_cell_done(out: Path, cell: Cell) -> bool:
    return (out / RUNS_DIR / cell.name).is_dir()
