"""Whose folder it is: a journal holds promises of one replica, and operations of one data type.

In the hands of another replica it would break what was promised to the others; of another data
type, its operations would all fail, and their effects be gone. Both happen when folders are copied,
or when two configurations name the same one.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from creekdb.cluster.notes import read_note, write_note
from creekdb.errors import UsageError

_FILE: Final = "owner.json"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    replica: int
    datatype: str

    def described(self) -> str:
        return f"replica {self.replica} of cluster '{self.cluster}', of '{self.datatype}'"


def refuse_foreign(folder: Path, owner: Owner) -> None:
    """Unless it is this one's, or nobody's yet."""
    before = read_note(folder / _FILE, Owner)
    if before is not None and before != owner:
        raise UsageError(
            f"{folder} is the folder of {before.described()}, and this is {owner.described()}: "
            "name its own one, or an empty one, to get from the others what they know"
        )


def sign(folder: Path, owner: Owner) -> None:
    """From now on it is this one's. On a disk that is full, from the next start on."""
    path = folder / _FILE
    if not path.exists():
        with suppress(OSError):
            write_note(path, owner)
