"""The folder that a pipeline works in, and what is where in it.

    pipeline.json    which grid it is of: its cells, and the code that simulates them
    runs/CELL/       a run folder for each cell that is done
    failed/CELL.txt  what went wrong, and the command to replay, for each cell that failed

A folder belongs to one grid. Whoever comes with the same grid, or with more cells, goes on with it;
another grid, another version of the code, or files that are not ours are refused, never mixed.
Other stages put what they make beside these.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import creekdb
from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment
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
"""Where tasks write before they move what they wrote into place."""

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
    """Of all code that a run depends on: runs of different code must not be compared."""
    package = Path(creekdb.__file__).parent
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        if place.parts[0] not in _UNHASHED_PACKAGES:
            found.update(f"{place.as_posix()}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def prepare_output_dir(out: Path, grid: Grid, force: bool = False) -> None:
    """Make the folder that of the grid, or find that it is. `force`: what another grid left there
    is removed; what is not ours never is."""
    mark = {
        "schema_version": SCHEMA_VERSION,
        "creek": creekdb.__version__,
        "code": code_hash(),
        "grid": grid.name,
        "cells": {cell.name: _json_value(cell.experiment) for cell in grid.cells},
    }
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder: name another")
    try:
        if (
            out.exists()
            and any(out.iterdir())
            and (problem := _mismatch_reason(out, mark)) is not None
        ):
            if not force or not (out / MANIFEST_FILE).is_file():
                raise UsageError(problem)
            shutil.rmtree(out)
        for folder in (out, out / RUNS_DIR, out / FAILED_DIR):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(out / ATTEMPTS_DIR, ignore_errors=True)
        (out / ATTEMPTS_DIR).mkdir()
        aside = out / f".{MANIFEST_FILE}.partial"
        aside.write_text(json.dumps(mark, indent=2) + "\n", encoding="utf-8")
        aside.replace(out / MANIFEST_FILE)
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror}") from error


def _json_value(experiment: Experiment) -> Any:
    """As it comes back from a file."""
    return msgspec.json.decode(msgspec.json.encode(experiment))


def _mismatch_reason(out: Path, mark: dict[str, Any]) -> str | None:
    """Why what is in the folder is not of this grid, or None."""
    if not (out / MANIFEST_FILE).is_file():
        return f"{out} holds files that are not of a pipeline: name another folder"
    try:
        found = json.loads((out / MANIFEST_FILE).read_bytes())
        cells = {name: mark["cells"].get(name) for name in found["cells"]}
        mark = {**mark, "cells": cells}  # there may be more
        differing = [key for key in ("schema_version", "cells", "code") if found[key] != mark[key]]
    except (ValueError, KeyError, TypeError):
        return f"{out / MANIFEST_FILE} is damaged: name another folder, or replace it with --force"
    what = {
        "schema_version": "another schema version",
        "cells": f"another grid ({found['grid']})",
        "code": "the same grid, simulated by another version of Creek",
    }
    if not differing:
        return None
    return f"{out} holds {what[differing[0]]}: name another folder, or replace it with --force"


# --- run folders --------------------------------------------------------------------------------


def run_directories(where: Path) -> list[Path]:
    """All runs of a pipeline's folder, or of any folder that holds run folders, or the one run that
    the folder is."""
    if (where / "config.json").is_file():
        return [where]
    inside = where / RUNS_DIR if (where / MANIFEST_FILE).is_file() else where
    if not inside.is_dir():
        raise UsageError(f"{where} holds no runs")
    return sorted(each for each in inside.iterdir() if (each / "config.json").is_file())


def check_run_directory(folder: Path) -> None:
    """Is it a run folder in our schema version, with its tables whole? Otherwise `UsageError` or
    `StorageFault`."""
    load_run_config(folder)
    for name, place in run_tables.TABLE_FILES.items():
        file = folder / place
        if not file.is_file():
            raise StorageFault(f"{folder} has no {place}")
        if not parquet_schema(file).equals(run_tables.RUN_TABLE_SCHEMAS[name]):
            raise StorageFault(f"{file} is damaged: its columns are others than {name} has")


def parquet_schema(file: Path) -> pa.Schema:
    """Of a file that is whole: a truncated one lacks its end, which says what is in it."""
    try:
        return pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise StorageFault(f"{file} is damaged: {str(error).splitlines()[0]}") from error


def ensure_run_tables(folders: Iterable[Path]) -> None:
    """Give tables to runs that have none yet: those of a live cluster, or of `creek simulate`."""
    for folder in folders:
        if not (folder / run_tables.TABLE_FILES["runs"]).exists():
            run_tables.add_run_tables(folder)


def read_run_table(spark: "SparkSession", folders: Sequence[Path], name: str) -> "DataFrame":
    """One of the tables of `schemas` (`runs`, `operations`, `orders`, `samples`) of all runs."""
    schema = spark_schema(run_tables.RUN_TABLE_SCHEMAS[name])
    files = [str((folder / run_tables.TABLE_FILES[name]).resolve()) for folder in folders]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*files)


def is_cell_done(out: Path, cell: Cell) -> bool:
    return (out / RUNS_DIR / cell.name).is_dir()
