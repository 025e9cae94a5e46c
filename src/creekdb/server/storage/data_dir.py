"""Data directory of a replica: small JSON files with the journal, and the owner of the directory.

A journal contains the promises of one replica and the operations of one data type. Another replica
that used it would violate those promises. With another data type, its operations would fail and
their effects would be lost. Both mistakes happen when directories are copied, or when two
configurations name the same one. The owner is therefore recorded in a file, and in every segment of
the journal: a directory may be copied in part, and over another one.
"""

from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from creekdb.atomic_write import atomic_write
from creekdb.errors import DECODE_ERRORS, StorageFault, UsageError

_StructType = TypeVar("_StructType", bound=msgspec.Struct)

JSON_VERSION: Final = 1
"""Version of the small JSON files. Raised whenever an earlier release would misread a new file."""


class _Version(msgspec.Struct):
    version: int = JSON_VERSION


def write_json_file(path: Path, content: msgspec.Struct) -> None:
    """Write a file durably and atomically. After a `StorageFault`, the file has not changed."""
    try:
        with atomic_write(path, durable=True) as partial:
            fields = {"version": JSON_VERSION, **msgspec.to_builtins(content)}
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(fields)))
    except OSError as error:
        raise StorageFault(f"cannot write {path}: {error.strerror}") from error


def read_json_file(path: Path, type_: type[_StructType]) -> _StructType | None:
    """Return the content of a file, or None if it does not exist."""
    try:
        text = path.read_bytes()
        version = msgspec.json.decode(text, type=_Version).version
        if version <= JSON_VERSION:
            return msgspec.json.decode(text, type=type_)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {error.strerror}") from error
    except DECODE_ERRORS as error:
        raise StorageFault(f"cannot read {path}: {error}") from error
    raise StorageFault(
        f"cannot read {path}: its format has version {version}, and this release supports up to "
        f"{JSON_VERSION}; start the release that wrote the file"
    )


_OWNER_FILE_NAME: Final = "owner.json"


class DataDirOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Replica that a data directory belongs to."""

    cluster: str
    replica: int
    datatype: str

    @property
    def segment_owner(self) -> int:
        """Hash that identifies the owner in every journal segment."""
        text = "\0".join((self.cluster, str(self.replica), self.datatype))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())

    def describe(self) -> str:
        return (
            f"replica {self.replica} of cluster '{self.cluster}' with data type '{self.datatype}'"
        )


def check_owner(data_dir: Path, owner: DataDirOwner) -> None:
    """Raise `UsageError` if the directory belongs to another replica."""
    recorded = read_json_file(data_dir / _OWNER_FILE_NAME, DataDirOwner)
    if recorded is not None and recorded != owner:
        raise UsageError(
            f"{data_dir} belongs to {recorded.describe()}, not to {owner.describe()}; choose the "
            "directory of this replica, or an empty one to fetch the state from the others"
        )


def record_owner(data_dir: Path, owner: DataDirOwner) -> None:
    """Record the owner of the directory. If writing fails, the next start tries again."""
    path = data_dir / _OWNER_FILE_NAME
    if not path.exists():
        with suppress(StorageFault):
            write_json_file(path, owner)
