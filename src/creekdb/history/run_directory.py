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
    Stored,
    Terms,
    logged,
    stored,
)
from creekdb.protocol.values import frozen

SCHEMA_VERSION = 3
"""Raised whenever a reader of the old form would misread the new one."""

COMPRESSION = 1
"""Higher levels of zlib take much longer and gain little: most of a state is random text."""

CONFIG = "config.json"
HISTORY = "history.msgpack"
VERDICTS = "verdicts.json"


def save(
    history: History, path: Path, beside: Callable[[Path], None] = lambda folder: None
) -> None:
    """Write a run that is not there yet. `beside` adds what else belongs into the folder."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UsageError(f"{path} exists already, and a run is never written over: name another")
    config = _json({"schema_version": SCHEMA_VERSION, "config": history.config})
    body = _encoded(history)
    aside = path.with_name(f".{path.name}.partial")
    try:
        if aside.exists():
            shutil.rmtree(aside)  # an earlier attempt was interrupted
        aside.mkdir(parents=True)
        _write(aside / CONFIG, config)
        _write(aside / HISTORY, body)
        beside(aside)
        aside.rename(path)
    except OSError as error:
        raise StorageFault(f"cannot write the run folder {path}: {error.strerror}") from error


def load(path: Path) -> History:
    config = load_config(path)
    try:
        return _decoded(config, zlib.decompress((path / HISTORY).read_bytes()))
    except OSError as error:
        raise StorageFault(f"cannot read {path / HISTORY}: {error.strerror}") from error
    except (zlib.error, msgspec.DecodeError, ValueError, OverflowError, IndexError) as error:
        raise StorageFault(f"{path / HISTORY} is damaged: {error}") from error


def load_config(path: Path) -> dict[str, Any]:
    """The configuration of a run in our schema version, without its history."""
    if not (path / CONFIG).is_file():
        raise UsageError(f"{path} is not a run folder: it has no {CONFIG}")
    try:
        header = json.loads((path / CONFIG).read_bytes())
        version, config = header["schema_version"], dict(header["config"])
    except OSError as error:
        raise StorageFault(f"cannot read {path / CONFIG}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StorageFault(f"{path / CONFIG} is damaged: it is not the header of a run") from error
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{path} was written in schema version {version}; this Creek reads {SCHEMA_VERSION}"
        )
    return config


def save_verdicts(path: Path, verdicts: Iterable[Mapping[str, Any]]) -> None:
    """Write, or renew, what the checkers said about the run in the folder `path`."""
    if not (path / CONFIG).is_file():
        raise UsageError(f"{path} is not a run folder: it has no {CONFIG}")
    rows = {"schema_version": SCHEMA_VERSION, "verdicts": list(verdicts)}
    aside = path / f".{VERDICTS}.partial"
    try:
        _write(aside, _json(rows))
        aside.replace(path / VERDICTS)
    except OSError as error:
        raise StorageFault(f"cannot write {path / VERDICTS}: {error.strerror}") from error


def _json(value: object) -> bytes:
    try:
        return json.dumps(value, indent=2, sort_keys=True, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise BadValue(f"the configuration of a run holds JSON values only: {error}") from error


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


# --- the stored form: as the records, but equal states once -------------------------------------


_State: TypeAlias = tuple[tuple[Key, Any], ...]


class _Log(msgspec.Struct, frozen=True, kw_only=True):
    replica: int
    incarnation: int
    started_us: int
    crashed_us: int | None
    events: tuple[Stored, ...]
    known: int | None
    anew: bool = False
    dismissed: bool = False


class _Final(msgspec.Struct, frozen=True, kw_only=True):
    replica: int
    first: int
    committed: tuple[Dot, ...]
    tentative: tuple[Dot, ...]
    state: Annotated[int, msgspec.Meta(ge=0)]
    """Its place among the states."""


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    datatype: str
    members: tuple[int, ...]
    quiescent: bool
    operations: tuple[OperationRecord, ...]
    logs: tuple[_Log, ...]
    states: tuple[_State, ...]
    finals: tuple[_Final, ...]
    terms: Terms


def _encoded(history: History) -> bytes:
    states: list[_State] = []
    places: dict[int, int] = {}
    for final in history.finals:
        if id(final.state) not in places:
            places[id(final.state)] = len(states)
            states.append(final.state)
    body = _Body(
        datatype=history.datatype,
        members=history.members,
        quiescent=history.quiescent,
        operations=history.operations,
        logs=tuple(
            _Log(
                replica=log.replica,
                incarnation=log.incarnation,
                started_us=log.started_us,
                crashed_us=log.crashed_us,
                events=tuple(stored(each.at_us, each.event) for each in log.events),
                known=log.known,
                anew=log.anew,
                dismissed=log.dismissed,
            )
            for log in history.logs
        ),
        states=tuple(states),
        finals=tuple(
            _Final(
                replica=final.replica,
                first=final.first,
                committed=final.committed,
                tentative=final.tentative,
                state=places[id(final.state)],
            )
            for final in history.finals
        ),
        terms=history.terms,
    )
    try:
        return zlib.compress(msgspec.msgpack.encode(body), COMPRESSION)
    except (TypeError, OverflowError) as error:
        raise BadValue(f"the history holds a value that cannot be stored: {error}") from error


def _decoded(config: dict[str, Any], data: bytes) -> History:
    body = msgspec.msgpack.decode(data, type=_Body)
    states = [tuple((key, frozen(value)) for key, value in state) for state in body.states]
    return History(
        config=frozen(config),
        datatype=body.datatype,
        members=body.members,
        terms=body.terms,
        quiescent=body.quiescent,
        operations=body.operations,
        logs=tuple(
            ReplicaLog(
                replica=log.replica,
                incarnation=log.incarnation,
                started_us=log.started_us,
                crashed_us=log.crashed_us,
                events=tuple(logged(each) for each in log.events),
                known=log.known,
                anew=log.anew,
                dismissed=log.dismissed,
            )
            for log in body.logs
        ),
        finals=tuple(
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
