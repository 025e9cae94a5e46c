"""Join ticket of an added replica: its number, its address, and the members before it was added.

The ticket is stored with the journal, in the data directory. A number whose data directory is
lost cannot be used again, since no other replica holds its promises. Another replica must replace
it. The same applies if a replica that has started loses only its journal.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from creekdb.errors import UsageError
from creekdb.protocol.membership.configuration import Configuration, Member
from creekdb.server.storage.data_dir import read_json_file, write_json_file

_FILE_NAME: Final = "member.json"


class JoinTicket(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a new replica, and the members before it was added."""

    replica: int
    address: str
    epoch: int
    members: tuple[Member, ...]
    former: tuple[int, ...]
    begun: bool = False
    """True if the replica has been started, so that a journal must exist."""

    @property
    def configuration(self) -> Configuration:
        return Configuration(self.epoch, self.members, self.former)

    @property
    def addresses(self) -> dict[int, str]:
        """Addresses of all members, including this one."""
        return {**dict(self.members), self.replica: self.address}


def make_ticket(response: Any, address: str) -> JoinTicket:
    """Return the ticket for `address`, from the response to the membership change."""
    after = msgspec.convert(response, Configuration)
    replica = next(number for number, member_address in after.members if member_address == address)
    members = tuple(member for member in after.members if member[0] != replica)
    return JoinTicket(
        replica=replica,
        address=address,
        epoch=after.epoch - 1,
        members=members,
        former=after.former,
    )


def write_ticket(ticket: JoinTicket, data_dir: Path) -> None:
    """Write the ticket into the data directory."""
    write_json_file(data_dir / _FILE_NAME, ticket)


def read_ticket(data_dir: Path) -> JoinTicket | None:
    return read_json_file(data_dir / _FILE_NAME, JoinTicket)


def make_data_dir(path: Path) -> None:
    """Create an empty data directory. Call this before the replica is added.

    Otherwise a failure would lose the number of the replica.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(f"{path} is not empty: a new replica needs an empty data directory")
    except OSError as error:
        raise UsageError(f"cannot create {path}: {error.strerror}") from error
