"""Small files beside a journal, in which its folder says something of itself."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from creekdb.cluster.calls import SYSTEM
from creekdb.errors import StorageFault

_Note = TypeVar("_Note", bound=msgspec.Struct)


def write_note(path: Path, note: msgspec.Struct) -> None:
    """For good: a file gets its name when it is whole. Raises OSError, and then nothing is left."""
    aside = path.with_name(f"{path.name}.new")
    try:
        with aside.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(note)))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        SYSTEM.sync_directory(path.parent)
    except OSError:
        with suppress(OSError):
            aside.unlink()
        raise


def read_note(path: Path, kind: type[_Note]) -> _Note | None:
    """None if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise StorageFault(f"cannot read {path}: {error}") from error
