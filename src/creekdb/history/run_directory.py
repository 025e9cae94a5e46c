"""Run folders: a history on disk, and back without loss.

    config.json       the schema version, and the configuration of the run
    history.msgpack   what clients and replicas saw, compressed
    verdicts.json     what the checkers said of it, once they were asked

Others may put files beside them when the folder is written, and own those (`beside`).

A run is written once: aside first, then moved into place, so that a folder is whole or absent. It
is never written over; only its verdicts may be renewed. A configuration holds JSON values, and its
sequences come back as tuples, like all others.
"""

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from creekdb.errors import BadValue, StorageFault, UsageError
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
"""Raised whenever a reader of the old form would misread the new one."""

ZLIB_LEVEL = 1
"""Higher levels of zlib take much longer and gain little: most of a state is random text."""

CONFIG_FILE = "config.json"
HISTORY_FILE = "history.msgpack"
VERDICTS_FILE = "verdicts.json"


def save_run(
    history: History, path: Path, beside: Callable[[Path], None] = lambda folder: None
) -> None:
    """Write a run that is not there yet. `beside` adds what else belongs into the folder."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UsageError(f"{path} exists already, and a run is never written over: name another")
    config = _encode_json({"schema_version": SCHEMA_VERSION, "config": history.config})
    body = _encode(history)
    aside = path.with_name(f".{path.name}.partial")
    try:
        if aside.exists():
            shutil.rmtree(aside)  # an earlier attempt was interrupted
        aside.mkdir(parents=True)
        _write_durably(aside / CONFIG_FILE, config)
        _write_durably(aside / HISTORY_FILE, body)
        beside(aside)
        aside.rename(path)
    except OSError as error:
        raise StorageFault(f"cannot write the run folder {path}: {error.strerror}") from error


def load_run(path: Path) -> History:
    config = load_run_config(path)
    try:
        return _decode(config, zlib.decompress((path / HISTORY_FILE).read_bytes()))
    except OSError as error:
        raise StorageFault(f"cannot read {path / HISTORY_FILE}: {error.strerror}") from error
    except (zlib.error, msgspec.DecodeError, ValueError, OverflowError, IndexError) as error:
        raise StorageFault(f"{path / HISTORY_FILE} is damaged: {error}") from error


def load_run_config(path: Path) -> dict[str, Any]:
    """The configuration of a run in our schema version, without its history."""
    if not (path / CONFIG_FILE).is_file():
        raise UsageError(f"{path} is not a run folder: it has no {CONFIG_FILE}")
    try:
        header = json.loads((path / CONFIG_FILE).read_bytes())
        version, config = header["schema_version"], dict(header["config"])
    except OSError as error:
        raise StorageFault(f"cannot read {path / CONFIG_FILE}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StorageFault(
            f"{path / CONFIG_FILE} is damaged: it is not the header of a run"
        ) from error
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{path} was written in schema version {version}; this Creek reads {SCHEMA_VERSION}"
        )
    return config


def save_verdicts(path: Path, verdicts: Iterable[Mapping[str, Any]]) -> None:
    """Write, or renew, what the checkers said about the run in the folder `path`."""
    if not (path / CONFIG_FILE).is_file():
        raise UsageError(f"{path} is not a run folder: it has no {CONFIG_FILE}")
    rows = {"schema_version": SCHEMA_VERSION, "verdicts": list(verdicts)}
    aside = path / f".{VERDICTS_FILE}.partial"
    try:
        _write_durably(aside, _encode_json(rows))
        aside.replace(path / VERDICTS_FILE)
    except OSError as error:
        raise StorageFault(f"cannot write {path / VERDICTS_FILE}: {error.strerror}") from error


def _encode_json(value: object) -> bytes:
    try:
        return json.dumps(value, indent=2, sort_keys=True, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise BadValue(f"the configuration of a run holds JSON values only: {error}") from error


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


# --- the stored form: as the records, but equal states once -------------------------------------


_StateItems: TypeAlias = tuple[tuple[Key, Any], ...]


class _StoredLog(msgspec.Struct, frozen=True, kw_only=True):
    replica: int
    incarnation: int
    started_us: int
    crashed_us: int | None
    events: tuple[StoredEvent, ...]
    known: int | None
    anew: bool = False
    dismissed: bool = False


class _StoredFinalState(msgspec.Struct, frozen=True, kw_only=True):
    replica: int
    first: int
    committed: tuple[Dot, ...]
    tentative: tuple[Dot, ...]
    state: Annotated[int, msgspec.Meta(ge=0)]
    """Its place among the states."""


class _StoredHistory(msgspec.Struct, frozen=True, kw_only=True):
    datatype: str
    members: tuple[int, ...]
    quiescent: bool
    operations: tuple[OperationRecord, ...]
    logs: tuple[_StoredLog, ...]
    states: tuple[_StateItems, ...]
    finals: tuple[_StoredFinalState, ...]
    terms: SchemeGuarantees


def _encode(history: History) -> bytes:
    states: list[_StateItems] = []
    places: dict[int, int] = {}
    for final in history.final_states:
        if id(final.state) not in places:
            places[id(final.state)] = len(states)
            states.append(final.state)
    body = _StoredHistory(
        datatype=history.datatype,
        members=history.members,
        quiescent=history.quiescent,
        operations=history.operations,
        logs=tuple(
            _StoredLog(
                replica=log.replica,
                incarnation=log.incarnation,
                started_us=log.started_us,
                crashed_us=log.crashed_us,
                events=tuple(encode_event(each.at_us, each.event) for each in log.events),
                known=log.visible_count,
                anew=log.has_empty_disk,
                dismissed=log.is_removed,
            )
            for log in history.logs
        ),
        states=tuple(states),
        finals=tuple(
            _StoredFinalState(
                replica=final.replica,
                first=final.first,
                committed=final.committed,
                tentative=final.tentative,
                state=places[id(final.state)],
            )
            for final in history.final_states
        ),
        terms=history.guarantees,
    )
    try:
        return zlib.compress(msgspec.msgpack.encode(body), ZLIB_LEVEL)
    except (TypeError, OverflowError) as error:
        raise BadValue(f"the history holds a value that cannot be stored: {error}") from error


def _decode(config: dict[str, Any], data: bytes) -> History:
    body = msgspec.msgpack.decode(data, type=_StoredHistory)
    states = [tuple((key, freeze(value)) for key, value in state) for state in body.states]
    return History(
        config=freeze(config),
        datatype=body.datatype,
        members=body.members,
        guarantees=body.terms,
        quiescent=body.quiescent,
        operations=body.operations,
        logs=tuple(
            ReplicaLog(
                replica=log.replica,
                incarnation=log.incarnation,
                started_us=log.started_us,
                crashed_us=log.crashed_us,
                events=tuple(decode_event(each) for each in log.events),
                visible_count=log.known,
                has_empty_disk=log.anew,
                is_removed=log.dismissed,
            )
            for log in body.logs
        ),
        final_states=tuple(
            FinalState(
                replica=final.replica,
                first=final.first,
                committed=final.committed,
                tentative=final.tentative,
                state=states[final.state],
            )
            for final in body.finals
        ),
    )
