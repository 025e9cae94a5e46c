"""Small files beside a journal, in which its folder says something of itself.

Whose folder it is: a journal holds promises of one replica, and operations of one data type.

In the hands of another replica it would break what was promised to the others; of another data
type, its operations would all fail, and their effects be gone. Both happen when folders are copied,
or when two configurations name the same one.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from creekdb.errors import StorageFault, UsageError
from creekdb.server.storage.file_ops import SYSTEM_FILE_OPS

_StructType = TypeVar("_StructType", bound=msgspec.Struct)


def write_json_file(path: Path, note: msgspec.Struct) -> None:
    """For good: a file gets its name when it is whole. Raises OSError, and then nothing is left."""
    aside = path.with_name(f"{path.name}.new")
    try:
        with aside.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(note)))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        SYSTEM_FILE_OPS.sync_directory(path.parent)
    except OSError:
        with suppress(OSError):
            aside.unlink()
        raise


def read_json_file(path: Path, kind: type[_StructType]) -> _StructType | None:
    """None if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise StorageFault(f"cannot read {path}: {error}") from error


_OWNER_FILE_NAME: Final = "owner.json"


class DataDirOwner(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    replica: int
    datatype: str

    def describe(self) -> str:
        return f"replica {self.replica} of cluster '{self.cluster}', of '{self.datatype}'"


def check_owner(folder: Path, owner: DataDirOwner) -> None:
    """Unless it is this one's, or nobody's yet."""
    before = read_json_file(folder / _OWNER_FILE_NAME, DataDirOwner)
    if before is not None and before != owner:
        raise UsageError(
            f"{folder} is the folder of {before.describe()}, and this is {owner.describe()}: "
            "name its own one, or an empty one, to get from the others what they know"
        )


def record_owner(folder: Path, owner: DataDirOwner) -> None:
    """From now on it is this one's. On a disk that is full, from the next start on."""
    path = folder / _OWNER_FILE_NAME
    if not path.exists():
        with suppress(OSError):
            write_json_file(path, owner)
