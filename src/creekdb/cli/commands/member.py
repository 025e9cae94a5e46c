"""`creek member`: list and change the members of a live cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.exit_codes import CommandFailed
from creekdb.cli.options import AS_JSON
from creekdb.cli.output import command_name, new_table, pluralize, print_json, print_table
from creekdb.cli.target import ClusterTarget
from creekdb.client import Database, NotDone, OperationFailed, Unknown
from creekdb.client.errors import CallFailed
from creekdb.server.membership.changes import ADD_MEMBER, REMOVE_MEMBER
from creekdb.server.membership.join_ticket import make_data_dir, make_ticket, write_ticket
from creekdb.wire.addresses import parse_address
from creekdb.wire.reject_reason import RejectReason

TIMEOUT_S = 30.0
STATUS_TIMEOUT_S = 5.0
"""Upper bound for the wait for the status of a replica, in seconds."""

PEER_ADDRESS = argument(metavar="HOST:PORT")
DATA = option("Data directory of the new replica; it must be empty or not exist.", required=True)


@click.group(short_help="Show or change the members of a live cluster.")
def member() -> None:
    """Add, remove and replace replicas while the cluster runs.

    A change is a strong operation: it requires a majority of the members, and changes are made one
    at a time.

    \b
    Examples:
      creek member list
      creek member add 127.0.0.1:7203 --data data/3
      creek serve --data data/3                starts the new replica
      creek member remove 1
      creek member replace 1 127.0.0.1:7203 --data data/3
    """


@member.command("list", short_help="Show the members and their addresses.")
@declared
def list_members(*, as_json: bool = AS_JSON, target: ClusterTarget) -> None:
    """Show the members as the responding replica knows them, with their addresses for peers and,
    if that replica has connected to them, for clients.

    \b
    Example:
      creek member list --at 127.0.0.1:7101
    """

    async def action(db: Database) -> dict[str, Any]:
        status = await db.status()
        return {
            "epoch": status["epoch"],
            "members": status["members"],
            "found_at": status.get("found_at", {}),
            "clients_at": status["addresses"],
        }

    _run_on_cluster(action, target, as_json, failure="cannot list the members")


@member.command()
@declared
def add(
    address: str = PEER_ADDRESS,
    *,
    data: Path = DATA,
    as_json: bool = AS_JSON,
    target: ClusterTarget,
) -> None:
    """Add a new replica, which its peers reach at HOST:PORT. The command writes the replica's
    identity to the data directory; start the replica with 'creek serve --data' on that machine.
    'creek serve --join' does both.

    \b
    Example:
      creek member add 127.0.0.1:7203 --data data/3
    """
    parse_address(address)  # before the data directory is created
    make_data_dir(data)

    _run_on_cluster(partial(add_member, address=address, data=data), target, as_json)


@member.command()
@declared
def remove(replica: int, *, as_json: bool = AS_JSON, target: ClusterTarget) -> None:
    """Remove a replica. A running replica stops by itself once enough members have the change. Its
    number is never used again.

    \b
    Example:
      creek member remove 1
    """
    _run_on_cluster(partial(_remove_member, replica=replica), target, as_json)


@member.command()
@declared
def replace(
    replica: int,
    address: str = PEER_ADDRESS,
    *,
    data: Path = DATA,
    as_json: bool = AS_JSON,
    target: ClusterTarget,
) -> None:
    """Replace a replica by a new one. A replica that is up is removed last, one that is down first,
    so that a majority remains reachable. Start the new replica as after 'add'.

    \b
    Example:
      creek member replace 1 127.0.0.1:7203 --data data/3
    """
    parse_address(address)  # before the data directory is created
    make_data_dir(data)

    async def action(db: Database) -> dict[str, Any]:
        status = await db.status()
        if replica not in status["members"]:
            members = ", ".join(map(str, status["members"]))
            message = f"replica {replica} is not a member: the members are {members}"
            raise NotDone(RejectReason.BAD_ARGUMENTS, message)
        if await _is_participating(status, replica, target):
            new = await add_member(db, address, data)
            number = new["added"]
            done = f"replica {number} was added, but replica {replica} was not removed"
            rest = f"start replica {number}, then run: {command_name()} member remove {replica}"
            with _partial_change(done, rest):
                return {**new, **await _remove_member(db, replica)}
        old = await _remove_member(db, replica)
        done = f"replica {replica} was removed, but no replica was added"
        rest = f"run: {command_name()} member add {address} --data {data}"
        with _partial_change(done, rest):
            return {**old, **await add_member(db, address, data)}

    _run_on_cluster(action, target, as_json)


async def _is_participating(status: dict[str, Any], replica: int, target: ClusterTarget) -> bool:
    """True if the replica is up and, as far as known, not waiting to join with an empty disk."""
    if replica == status["replica"]:
        return status["waits_for"] is None
    address = status["addresses"].get(str(replica))
    if replica not in status["connected"] or address is None:
        return replica in status["connected"]
    try:
        async with target._replace(addresses=(address,)).connection(STATUS_TIMEOUT_S) as db:
            replica_status = await db.status()
    except CallFailed:
        return True  # other members are connected to it
    return replica_status["replica"] != replica or replica_status["waits_for"] is None


@contextmanager
def _partial_change(done: str, rest: str) -> Iterator[None]:
    """Fail with a remedy if only the first of two changes of a replacement was made."""
    try:
        yield
    except CallFailed as error:
        raise CommandFailed(f"{done}: {error}; to complete the replacement, {rest}") from error


async def add_member(db: Database, address: str, data: Path) -> dict[str, Any]:
    """Add a replica, and write its join ticket to its data directory."""
    value = await db.strong(ADD_MEMBER, address)
    ticket = make_ticket(value, address)
    write_ticket(ticket, data)
    return {"added": ticket.replica, **_membership_summary(value)}


async def _remove_member(db: Database, replica: int) -> dict[str, Any]:
    return {"removed": replica, **_membership_summary(await db.strong(REMOVE_MEMBER, replica))}


def _membership_summary(value: Any) -> dict[str, Any]:
    epoch, members, _ = value
    return {"epoch": epoch, "members": [number for number, _ in members]}


def _run_on_cluster(
    action: Callable[[Database], Awaitable[dict[str, Any]]],
    target: ClusterTarget,
    as_json: bool,
    failure: str = "cannot change the members",
) -> None:
    async def run() -> dict[str, Any]:
        async with target.open(TIMEOUT_S) as db:
            return await action(db)

    try:
        result = asyncio.run(run())
    except (OperationFailed, NotDone) as error:
        raise target.failure(failure, error) from error
    except Unknown as error:
        raise CommandFailed(
            f"the outcome is unknown: {error}; check with 'creek member list'"
        ) from error
    if as_json:
        print_json(result)
        return
    for change in ("added", "removed"):
        if change in result:
            click.echo(f"replica {result[change]} was {change}")
    members = ", ".join(map(str, result["members"]))
    click.echo(f"members {members}, after {pluralize(result['epoch'], 'change')}")
    if "found_at" in result:
        print_table(_address_table(result))


def _address_table(result: dict[str, Any]) -> Table:
    columns = ("peer address", "client address")
    table = new_table("replica", *columns, left=columns)
    for member in map(str, result["members"]):
        addresses = result["found_at"].get(member), result["clients_at"].get(member)
        table.add_row(member, *(address or "-" for address in addresses))
    return table
