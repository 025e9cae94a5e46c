"""Output directory of a pipeline.

    pipeline.json              grid of the directory: its cells, and a hash of the simulating code
    TABLE/part-BATCH.parquet   rows of the runs of one batch, for each table of `RUN_SCHEMAS`
    histories/RUN/             run directory of each run with recorded events
    failed/CELL.txt            error and replay command of each failed cell

The tasks of `simulate` write one file per table and batch. The file of `runs` comes last and
commits the batch: the other files of an uncommitted batch are ignored, and removed by the next
preparation. Other stages write their tables into the same directory.

A directory belongs to one grid. The same grid, or one with additional cells, resumes it. Another
grid, another version of the code or foreign files are rejected, never mixed.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

import creekdb
from creekdb.errors import StorageFault, UsageError
from creekdb.pipeline.schemas import RUN_SCHEMAS
from creekdb.pipeline.stages.grid import Grid
from creekdb.pipeline.storage import Location

SCHEMA_VERSION: Final = 3
MANIFEST_FILE: Final = "pipeline.json"
HISTORIES_DIR: Final = "histories"
FAILED_DIR: Final = "failed"
COMMITTING_TABLE: Final = "runs"
"""Table whose file is written last and commits a batch."""

_UNHASHED_PACKAGES: Final = (
    *("checkers", "exploration", "server", "testing", "torture", "wire"),
    *("cli", "client", "dbapi", "http", "load", "pipeline", "sqlalchemy"),
)
"""Packages without influence on simulated runs."""


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


def prepare_output_dir(out: Location, grid: Grid, force: bool = False) -> None:
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
    if out.is_file():
        raise UsageError(f"{out} is not a directory; name another")
    try:
        if out.names() and (problem := _mismatch_reason(out, manifest)) is not None:
            if not force or not _is_replaceable(out):
                raise UsageError(problem)
            out.remove()
        text = json.dumps(manifest, indent=2) + "\n"
        (out / MANIFEST_FILE).write_bytes(text.encode())
        prepare_tables(out)
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror or error}") from error


def _is_replaceable(out: Location) -> bool:
    """True if the directory holds nothing but the output of a pipeline."""
    try:
        manifest = json.loads((out / MANIFEST_FILE).read_bytes())
    except FileNotFoundError:
        return False
    except ValueError:  # damaged
        return True
    return not isinstance(manifest, dict) or manifest.get("grid", "") is not None


def prepare_import_dir(out: Location) -> bool:
    """Prepare a directory of run directories for their tables; return False for that of a grid."""
    file = out / MANIFEST_FILE
    try:
        if file.is_file():
            manifest = json.loads(file.read_bytes())
            return isinstance(manifest, dict) and manifest.get("grid", "") is None
        if not run_directories(out.local_path):
            raise UsageError(f"{out} holds no runs; name an output of 'creek pipeline simulate'")
        text = json.dumps({"schema_version": SCHEMA_VERSION, "grid": None, "cells": {}}, indent=2)
        file.write_bytes(f"{text}\n".encode())
        prepare_tables(out)
    except ValueError as error:
        raise StorageFault(f"{file} is damaged: it is not JSON; remove it") from error
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror or error}") from error
    return True


def _mismatch_reason(out: Location, manifest: dict[str, Any]) -> str | None:
    """Return the reason why a directory does not belong to a grid, or None."""
    if not (out / MANIFEST_FILE).is_file():
        return f"{out} holds files that are not of a pipeline; name another directory"
    try:
        stored = json.loads((out / MANIFEST_FILE).read_bytes())
        if stored["grid"] is None:
            return f"{out} holds the tables of imported runs; name another directory"
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


# --- tables of runs -----------------------------------------------------------------------------


def part_file(batch: str) -> str:
    return f"part-{batch}.parquet"


def prepare_tables(out: Location) -> None:
    """Create the directories of the tables, and remove the files of uncommitted batches."""
    committed = set((out / COMMITTING_TABLE).names())
    for table in RUN_SCHEMAS:
        (out / table).make_directory()
        for name in (out / table).names():
            if name not in committed:
                (out / table / name).remove()
    (out / FAILED_DIR).make_directory()


def committed_batches(out: Location) -> dict[str, list[str]]:
    """Return the names of the runs in each committed file of `runs`, by file name.

    A file that cannot be read raises StorageFault.
    """
    directory = out / COMMITTING_TABLE
    return {
        name: (directory / name).read_table(["run"])["run"].to_pylist()
        for name in directory.names()
    }


def remove_batch(out: Location, file: str) -> None:
    """Remove the files of a batch. The committing one comes first."""
    for table in RUN_SCHEMAS:
        (out / table / file).remove()


def check_batch(out: Location, file: str) -> None:
    """Raise StorageFault unless all files of a batch are complete, with the declared columns."""
    for table, schema in RUN_SCHEMAS.items():
        location = out / table / file
        if not location.is_file():
            raise StorageFault(f"{location} is missing")
        if not location.read_schema().equals(schema):
            raise StorageFault(f"{location} is damaged: its columns differ from those of {table}")


def write_batch(out: Location, batch: str, tables: Mapping[str, pa.Table]) -> None:
    """Write the files of a batch, and commit it with the last one."""
    for table in reversed(RUN_SCHEMAS):
        (out / table / part_file(batch)).write_table(tables[table])


def run_directories(path: Path) -> list[Path]:
    """Return the run directories in a directory, or the directory itself if it is one."""
    if (path / "config.json").is_file():
        return [path]
    return sorted(each for each in path.iterdir() if (each / "config.json").is_file())
