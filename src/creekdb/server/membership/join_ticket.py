"""The ticket of a replica that is added: its number, where the others find it, and who they are.

It lies in the folder of its journal: the two belong together. A number whose folder is lost is lost
as well, since nobody else knows what it promised; then another replica takes its place. So it is
when only the journal is lost, of one that has begun.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from creekdb.errors import StorageFault, UsageError
from creekdb.protocol.membership.configuration import Configuration, Member
from creekdb.server.storage.data_dir import read_json_file, write_json_file

_FILE_NAME: Final = "member.json"


class JoinTicket(msgspec.Struct, frozen=True, kw_only=True):
    """Who a new replica is, and the members before it was added."""

    replica: int
    address: str
    epoch: int
    members: tuple[Member, ...]
    former: tuple[int, ...]
    begun: bool = False
    """Has it been started, so that there must be a journal?"""

    @property
    def configuration(self) -> Configuration:
        return Configuration(self.epoch, self.members, self.former)

    @property
    def addresses(self) -> dict[int, str]:
        """Of all, this one among them."""
        return {**dict(self.members), self.replica: self.address}


def make_ticket(added: Any, address: str) -> JoinTicket:
    """The ticket of the replica at that address, from what the change answered."""
    after = msgspec.convert(added, Configuration)
    replica = next(number for number, at in after.members if at == address)
    members = tuple(each for each in after.members if each[0] != replica)
    return JoinTicket(
        replica=replica,
        address=address,
        epoch=after.epoch - 1,
        members=members,
        former=after.former,
    )


def write_ticket(ticket: JoinTicket, folder: Path) -> None:
    """Into the folder of its journal."""
    path = folder / _FILE_NAME
    try:
        write_json_file(path, ticket)
    except OSError as error:
        raise StorageFault(f"cannot write {path}: {error.strerror}") from error


def read_ticket(folder: Path) -> JoinTicket | None:
    return read_json_file(folder / _FILE_NAME, JoinTicket)


def make_data_dir(folder: Path) -> None:
    """Before a replica is added that is to begin there: its number would be lost otherwise."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: a new replica needs a folder of its own")
    except OSError as error:
        raise UsageError(f"cannot make {folder}: {error.strerror}") from error
