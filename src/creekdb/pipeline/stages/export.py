"""Export of a backup as Parquet, for Spark and other readers.

    state/        registers, by `schemas.REGISTERS`
    operations/   committed operations, by `schemas.COMMITTED`
    export.json   source of the export, and the commit index from which operations are complete

A simple key or value has a column of its type. Every key and value is also present as JSON text, in
which tuples are arrays and bytes are encoded as in `creekdb.http.schema`. Unchanged initial
registers of the data type and internal registers of the cluster are excluded.

The directory is written under a temporary name and then renamed, so it is complete or absent.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.atomic_write import atomic_write
from creekdb.errors import StorageFault, UsageError
from creekdb.execution.keys import RESERVED_PREFIXES
from creekdb.history import merge_recordings
from creekdb.history.recording import RecordingStarted, read_frames
from creekdb.history.recording import find_recordings as recordings_in
from creekdb.history.records import Committed, RbCast
from creekdb.pipeline.schemas import COMMITTED, PARQUET_OPTIONS, REGISTERS
from creekdb.pipeline.stages.run_tables import json_text
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from creekdb.server.backup.format import (
    BackupHeader,
    DeletedBlock,
    read_blocks,
    read_header,
    read_registers,
    read_requests,
)
from creekdb.wire.deduplication import DEDUPLICATED_CALL, unwrap_call

ROWS_PER_GROUP: Final = 65_536
"""Rows per row group, and upper bound for the rows in memory."""
INT64_END: Final = 2**63

_VALUE_COLUMNS: Final = {
    type(None): ("null", None),
    bool: ("bool", "value_bool"),
    int: ("int", "value_int"),
    float: ("float", "value_float"),
    str: ("text", "value_text"),
    bytes: ("bytes", "value_bytes"),
    tuple: ("tuple", None),
    dict: ("dict", None),
}


class ExportManifest(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    datatype: str
    length: int
    """Commit index of the state."""
    registers: int
    operations: int
    complete_from: int
    """Commit index from which no operation up to `length` is missing."""


def export_backup(backup: Path, out: Path, recordings: Iterable[Path] = ()) -> ExportManifest:
    """Write an export; `recordings` are directories with recordings of replicas of the cluster."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"cannot export to {out}: not empty; name an empty or a new directory")
    header = read_header(backup)
    committed = dict(enumerate(read_requests(backup), header.first))
    for directory in recordings:
        _add_recorded_requests(committed, header, directory)
    try:
        with atomic_write(out) as partial:
            partial.mkdir(parents=True)
            registers = _write_parquet(partial / "state", REGISTERS, _state_rows(backup))
            rows = (_operation_row(index, committed[index]) for index in sorted(committed))
            operations = _write_parquet(partial / "operations", COMMITTED, rows)
            manifest = ExportManifest(
                cluster=header.cluster,
                datatype=header.datatype,
                length=header.length,
                registers=registers,
                operations=operations,
                complete_from=_complete_from(committed, header.length),
            )
            text = msgspec.json.format(msgspec.json.encode(manifest))
            (partial / "export.json").write_bytes(text + b"\n")
    except OSError as error:
        raise StorageFault(f"cannot write {out}: {error.strerror or error}") from error
    return manifest


def _write_parquet(directory: Path, schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> int:
    directory.mkdir()
    count = 0
    with pq.ParquetWriter(directory / "part-0.parquet", schema, **PARQUET_OPTIONS) as writer:
        while batch := list(islice(rows, ROWS_PER_GROUP)):
            writer.write_table(pa.Table.from_pylist(batch, schema))
            count += len(batch)
    return count


# --- operations -------------------------------------------------------------------------------


def _add_recorded_requests(
    committed: dict[int, Request], header: BackupHeader, directory: Path
) -> None:
    for path in recordings_in(directory):
        started = next(read_frames(path), None)
        if isinstance(started, RecordingStarted) and started.cluster != header.cluster:
            raise UsageError(
                f"cannot use {path}: it is a recording of cluster '{started.cluster}', and the "
                f"backup is of '{header.cluster}'; omit it"
            )
    requests: dict[Dot, Request] = {}
    positions: dict[int, Dot] = {}
    for log in merge_recordings(directory).logs:
        for each in log.visible_events:
            match each.event:
                case RbCast(request=cast):
                    requests[cast.id] = cast
                case Committed(id=id, index=index):
                    positions[index] = id
                case _:
                    pass
    for index, id in positions.items():
        request = requests.get(id)
        if request is None or index >= header.length:
            continue
        if id not in header.ids or committed.setdefault(index, request) != request:
            raise UsageError(
                f"cannot use {directory}: it differs from the backup at commit index {index}; it "
                "may be of another cluster with the same name"
            )


def _complete_from(committed: dict[int, Request], length: int) -> int:
    first = length
    while first - 1 in committed:
        first -= 1
    return first


def _operation_row(index: int, request: Request) -> dict[str, Any]:
    operation = unwrap_call(request.operation)
    client, number = None, None
    if request.operation.name == DEDUPLICATED_CALL:
        client, number = request.operation.arguments[:2]
    return {
        "index": index,
        "origin": request.id.replica,
        "event": request.id.event,
        "timestamp_us": request.timestamp,
        "strong": request.strong,
        "operation": operation.name,
        "arguments": json_text(operation.arguments),
        "client": client,
        "number": number,
    }


# --- state ------------------------------------------------------------------------------------


def _state_rows(backup: Path) -> Iterator[dict[str, Any]]:
    for key, value in read_registers(backup):
        if not _is_internal_key(key):
            yield _register_row(key, value)
    for block in read_blocks(backup):
        if isinstance(block, DeletedBlock):
            for key in block.keys:
                if not _is_internal_key(key):
                    yield _key_columns(key) | {"kind": "deleted"}


def _is_internal_key(key: Key) -> bool:
    """True for registers of deduplication and of membership."""
    return isinstance(key, tuple) and bool(key) and key[0] in RESERVED_PREFIXES


def _key_columns(key: Key) -> dict[str, Any]:
    row: dict[str, Any] = {"key": json_text(key)}
    match key:
        case str():
            row["key_text"] = key
        case int():
            row["key_int"] = _int64_or_none(key)
        case _:
            row["key_parts"] = list(map(str, key))
    return row


def _register_row(key: Key, value: Any) -> dict[str, Any]:
    kind, column = _VALUE_COLUMNS[type(value)]
    row = _key_columns(key) | {"kind": kind, "value": json_text(value)}
    if column is not None:
        row[column] = _int64_or_none(value) if kind == "int" else value
    return row


def _int64_or_none(value: int) -> int | None:
    """Return None for an integer outside 64 signed bits."""
    return value if -INT64_END <= value < INT64_END else None
