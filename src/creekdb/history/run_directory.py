"""Run directories: lossless storage of histories on disk.

    config.json       the schema version, and the configuration of the run
    history.msgpack   observations of clients and replicas, compressed
    verdicts.json     verdicts of the checkers, if they have run

Other packages may add files while the directory is written (`add_files`), and own them.

A run is written once: into a temporary directory, which is then renamed. A run directory is
therefore complete or absent. It is never overwritten, except for its verdicts. A configuration
consists of JSON values, and its sequences are loaded as tuples, like all others.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from creekdb.atomic_write import atomic_write
from creekdb.errors import DECODE_ERRORS, BadValue, StorageFault, UsageError
from creekdb.history.records import (
    Dot,
    FinalState,
    History,
    Key,
    OperationRecord,
    ReplicaLog,
    SchemeGuarantees,
    StoredEvent,
    decode_event,
    encode_event,
)
from creekdb.protocol.values import freeze

SCHEMA_VERSION = 3
"""Incremented when a reader of the old form would misread the new one."""

ZLIB_LEVEL = 1
"""Higher levels are much slower and save little, because most of a state is random text."""

CONFIG_FILE = "config.json"
HISTORY_FILE = "history.msgpack"
VERDICTS_FILE = "verdicts.json"


def save_run(
    history: History, path: Path, add_files: Callable[[Path], None] = lambda directory: None
) -> None:
    """Write a run to a new directory. `add_files` adds further files before the rename."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UsageError(
            f"cannot save the run: {path} exists, and runs are never overwritten; "
            "name another directory"
        )
    config = _encode_json({"schema_version": SCHEMA_VERSION, "config": history.config})
    body = _encode(history)
    try:
        with atomic_write(path, durable=True) as partial:
            partial.mkdir(parents=True)
            (partial / CONFIG_FILE).write_bytes(config)
            (partial / HISTORY_FILE).write_bytes(body)
            add_files(partial)
    except OSError as error:
        raise StorageFault(f"cannot write the run directory {path}: {error.strerror}") from error


def load_run(path: Path) -> History:
    config = load_run_config(path)
    try:
        return _decode(config, zlib.decompress((path / HISTORY_FILE).read_bytes()))
    except OSError as error:
        raise StorageFault(f"cannot read {path / HISTORY_FILE}: {error.strerror}") from error
    except (zlib.error, *DECODE_ERRORS, IndexError) as error:
        raise StorageFault(f"{path / HISTORY_FILE} is damaged: {error}") from error


def load_run_config(path: Path) -> dict[str, Any]:
    """Return the configuration of a run in the current schema version, without its history."""
    if not (path / CONFIG_FILE).is_file():
        raise UsageError(f"{path} is not a run directory: it has no {CONFIG_FILE}")
    try:
        header = json.loads((path / CONFIG_FILE).read_bytes())
        version, config = header["schema_version"], dict(header["config"])
    except OSError as error:
        raise StorageFault(f"cannot read {path / CONFIG_FILE}: {error.strerror}") from error
    except (*DECODE_ERRORS, KeyError, TypeError) as error:
        raise StorageFault(
            f"{path / CONFIG_FILE} is damaged: it is not the header of a run"
        ) from error
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{path} was written in schema version {version}; this Creek reads {SCHEMA_VERSION}"
        )
    return config


def save_verdicts(path: Path, verdicts: Iterable[Mapping[str, Any]]) -> None:
    """Write or replace the verdicts on the run in the directory `path`."""
    if not (path / CONFIG_FILE).is_file():
        raise UsageError(f"{path} is not a run directory: it has no {CONFIG_FILE}")
    rows = {"schema_version": SCHEMA_VERSION, "verdicts": list(verdicts)}
    try:
        with atomic_write(path / VERDICTS_FILE, durable=True) as partial:
            partial.write_bytes(_encode_json(rows))
    except OSError as error:
        raise StorageFault(f"cannot write {path / VERDICTS_FILE}: {error.strerror}") from error


def _encode_json(value: object) -> bytes:
    try:
        return json.dumps(value, indent=2, sort_keys=True, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise BadValue(
            f"the configuration of a run may contain JSON values only: {error}"
        ) from error


# --- stored form: the records, with equal states stored once -----------------------------------


_Record = TypeVar("_Record", bound=msgspec.Struct)


class _StoredLog(msgspec.Struct, frozen=True, kw_only=True):
    replica: int
    incarnation: int
    started_us: int
    crashed_us: int | None
    events: tuple[StoredEvent, ...]
    visible_count: int | None = msgspec.field(name="known")
    has_empty_disk: bool = msgspec.field(default=False, name="anew")
    is_removed: bool = msgspec.field(default=False, name="dismissed")


class _StoredFinalState(msgspec.Struct, frozen=True, kw_only=True):
    replica: int
    first: int
    committed: tuple[Dot, ...]
    tentative: tuple[Dot, ...]
    state: Annotated[int, msgspec.Meta(ge=0)]
    """Index into the states."""


class _StoredHistory(msgspec.Struct, frozen=True, kw_only=True):
    datatype: str
    members: tuple[int, ...]
    quiescent: bool
    operations: tuple[OperationRecord, ...]
    logs: tuple[_StoredLog, ...]
    states: tuple[tuple[tuple[Key, Any], ...], ...]
    final_states: tuple[_StoredFinalState, ...] = msgspec.field(name="finals")
    guarantees: SchemeGuarantees = msgspec.field(name="terms")


def _convert(record: msgspec.Struct, target: type[_Record], **changes: Any) -> _Record:
    """Return the record as another type, with its fields of the same names."""
    values = msgspec.structs.asdict(record) | changes
    return target(**{name: values[name] for name in target.__struct_fields__})


def _encode(history: History) -> bytes:
    states = {id(final.state): final.state for final in history.final_states}
    indices = {id: index for index, id in enumerate(states)}
    body = _convert(
        history,
        _StoredHistory,
        logs=tuple(
            _convert(
                log,
                _StoredLog,
                events=tuple(encode_event(each.at_us, each.event) for each in log.events),
            )
            for log in history.logs
        ),
        states=tuple(states.values()),
        final_states=tuple(
            _convert(final, _StoredFinalState, state=indices[id(final.state)])
            for final in history.final_states
        ),
    )
    try:
        return zlib.compress(msgspec.msgpack.encode(body), ZLIB_LEVEL)
    except (TypeError, OverflowError) as error:
        raise BadValue(f"the history contains a value that cannot be stored: {error}") from error


def _decode(config: dict[str, Any], data: bytes) -> History:
    body = msgspec.msgpack.decode(data, type=_StoredHistory)
    states = [tuple((key, freeze(value)) for key, value in state) for state in body.states]
    return _convert(
        body,
        History,
        config=freeze(config),
        logs=tuple(
            _convert(log, ReplicaLog, events=tuple(map(decode_event, log.events)))
            for log in body.logs
        ),
        final_states=tuple(
            _convert(final, FinalState, state=states[final.state]) for final in body.final_states
        ),
    )
