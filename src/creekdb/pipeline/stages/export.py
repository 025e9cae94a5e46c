"""A backup as Parquet, for Spark and whatever else reads it.

    state/        the registers, as `schemas.REGISTERS` declares them
    operations/   what was committed, as `schemas.COMMITTED` declares it
    export.json   what it is of, and from which commit index on the operations are complete

A key or a value that is simple stands in a column of its type, and every one of them as JSON text:
tuples are arrays, and bytes are written as `creekdb.http.schema` says. Registers that are as the
data type begins with are not there, nor what the cluster keeps for itself.

The folder is written once: aside first, then moved into place, so that it is whole or absent.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.errors import StorageFault, UsageError
from creekdb.execution.keys import RESERVED_PREFIXES
from creekdb.history import merge_recordings
from creekdb.history.recording import RecordingStarted, read_frames
from creekdb.history.recording import find_recordings as recordings_in
from creekdb.history.records import Committed, RbCast
from creekdb.http.schema import to_json
from creekdb.pipeline.schemas import COMMITTED, REGISTERS
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
"""In a group of a file: more are not in memory at once."""
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
    """What a folder holds."""

    cluster: str
    datatype: str
    length: int
    """The commit index of the state."""
    registers: int
    operations: int
    complete_from: int
    """Of the operations from here to `length`, none is missing."""


def export_backup(backup: Path, out: Path, recordings: Iterable[Path] = ()) -> ExportManifest:
    """`recordings`: folders in which replicas of the cluster recorded what they did."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} holds something already: name a folder that is empty, or new")
    head = read_header(backup)
    committed = dict(enumerate(read_requests(backup), head.first))
    for folder in recordings:
        _add_recorded_requests(committed, head, folder)
    aside = out.with_name(f".{out.name}.partial")
    try:
        shutil.rmtree(aside, ignore_errors=True)  # an earlier attempt was interrupted
        aside.mkdir(parents=True)
        registers = _write_parquet(aside / "state", REGISTERS, _state_rows(backup))
        rows = (_operation_row(index, committed[index]) for index in sorted(committed))
        operations = _write_parquet(aside / "operations", COMMITTED, rows)
        exported = ExportManifest(
            cluster=head.cluster,
            datatype=head.datatype,
            length=head.length,
            registers=registers,
            operations=operations,
            complete_from=_complete_from(committed, head.length),
        )
        told = msgspec.json.format(msgspec.json.encode(exported))
        (aside / "export.json").write_bytes(told + b"\n")
        aside.rename(out)
    except OSError as error:
        raise StorageFault(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return exported


def _write_parquet(folder: Path, schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> int:
    folder.mkdir()
    count = 0
    with pq.ParquetWriter(folder / "part-0.parquet", schema) as writer:
        while batch := list(islice(rows, ROWS_PER_GROUP)):
            writer.write_table(pa.Table.from_pylist(batch, schema))
            count += len(batch)
    return count


# --- operations -------------------------------------------------------------------------------


def _add_recorded_requests(committed: dict[int, Request], head: BackupHeader, folder: Path) -> None:
    for path in recordings_in(folder):
        started = next(read_frames(path), None)
        if isinstance(started, RecordingStarted) and started.cluster != head.cluster:
            raise UsageError(
                f"{path} was recorded by cluster '{started.cluster}', and the state is of "
                f"'{head.cluster}': leave it out"
            )
    requests: dict[Dot, Request] = {}
    places: dict[int, Dot] = {}
    for log in merge_recordings(folder).logs:
        for each in log.visible_events:
            match each.event:
                case RbCast(request=cast):
                    requests[cast.id] = cast
                case Committed(id=id, index=index):
                    places[index] = id
                case _:
                    pass
    for index, id in places.items():
        request = requests.get(id)
        if request is None or index >= head.length:
            continue
        if id not in head.ids or committed.setdefault(index, request) != request:
            raise UsageError(
                f"{folder} tells otherwise than the replica what was committed at {index}: is it "
                "of another cluster of the same name?"
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
        "arguments": _json_text(operation.arguments),
        "client": client,
        "number": number,
    }


# --- the state --------------------------------------------------------------------------------


def _state_rows(backup: Path) -> Iterator[dict[str, Any]]:
    return chain(
        (
            _register_row(key, value)
            for key, value in read_registers(backup)
            if not _is_internal_key(key)
        ),
        (
            _key_columns(key) | {"kind": "deleted"}
            for key in _deleted_keys(backup)
            if not _is_internal_key(key)
        ),
    )


def _deleted_keys(backup: Path) -> Iterator[Key]:
    for block in read_blocks(backup):
        if isinstance(block, DeletedBlock):
            yield from block.keys


def _is_internal_key(key: Key) -> bool:
    """What calls came to, and who the members are."""
    return isinstance(key, tuple) and bool(key) and key[0] in RESERVED_PREFIXES


def _key_columns(key: Key) -> dict[str, Any]:
    row: dict[str, Any] = {"key": _json_text(key)}
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
    row = _key_columns(key) | {"kind": kind, "value": _json_text(value)}
    if column is not None:
        row[column] = _int64_or_none(value) if kind == "int" else value
    return row


def _int64_or_none(value: int) -> int | None:
    """None for what has no place in 64 bits with a sign."""
    return value if -INT64_END <= value < INT64_END else None


def _json_text(value: Any) -> str:
    return json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"))
