"""`creek member`: who the members of a live cluster are, and how that is changed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from creekdb.cli.commands.call import (
    addresses_option,
    authority_option,
    error_text,
    open_database,
    token_option,
)
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.output import command_name, pluralize, print_json, print_table
from creekdb.client import Database, NotDone, OperationFailed, Unknown, connect
from creekdb.client.errors import CallFailed
from creekdb.errors import CreekError
from creekdb.server.membership.changes import ADD_MEMBER, REMOVE_MEMBER
from creekdb.server.membership.join_ticket import make_data_dir, make_ticket, write_ticket

TIMEOUT_S = 30.0
STATUS_TIMEOUT_S = 5.0
"""Until a replica has said how it is."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder for its journal, which must not exist yet, or be empty.",
)


@click.group(short_help="Show or change the members of a live cluster.")
def member() -> None:
    """Add, remove and replace replicas while the cluster runs. A change is a strong operation: a
    majority of the members must be up, and one change is made at a time.

    \b
    Examples:
      creek member list
      creek member add 127.0.0.1:7203 --data data/3
      creek serve --data data/3                and it runs
      creek member remove 1
      creek member replace 1 127.0.0.1:7203 --data data/3
    """


@member.command("list", short_help="Show who the members are, and where they are found.")
@json_option
@addresses_option
@token_option
@authority_option
def list_members(as_json: bool, **where: Any) -> int:
    """Show the members, as the replica that answers knows them: where the others find each, and
    where clients do, as far as it has met them.

    \b
    Example:
      creek member list --at 127.0.0.1:7101
    """

    async def ask(db: Database) -> dict[str, Any]:
        status = await db.status()
        return {
            "epoch": status["epoch"],
            "members": status["members"],
            "found_at": status.get("found_at", {}),
            "clients_at": status["addresses"],
        }

    return _run_on_cluster(ask, as_json, **where, otherwise="the members are not known")


@member.command()
@click.argument("address", metavar="HOST:PORT")
@data_option
@json_option
@addresses_option
@token_option
@authority_option
def add(address: str, data: Path, as_json: bool, **where: Any) -> int:
    """Make a new replica a member; others are to find it at HOST:PORT. It is started where its
    folder is, with 'creek serve --data': there it finds who it is. 'creek serve --join' does both.

    \b
    Example:
      creek member add 127.0.0.1:7203 --data data/3
    """
    make_data_dir(data)

    async def ask(db: Database) -> dict[str, Any]:
        return await add_member(db, address, data)

    return _run_on_cluster(ask, as_json, **where)


@member.command()
@click.argument("replica", type=int)
@json_option
@addresses_option
@token_option
@authority_option
def remove(replica: int, as_json: bool, **where: Any) -> int:
    """Make a replica a member no more. If it runs, it stops by itself once enough others know. Its
    number is never used again.

    \b
    Example:
      creek member remove 1
    """

    async def ask(db: Database) -> dict[str, Any]:
        return await _remove_member(db, replica)

    return _run_on_cluster(ask, as_json, **where)


@member.command()
@click.argument("replica", type=int)
@click.argument("address", metavar="HOST:PORT")
@data_option
@json_option
@addresses_option
@token_option
@authority_option
def replace(replica: int, address: str, data: Path, as_json: bool, **where: Any) -> int:
    """Let a new replica take the place of another one. One that takes part is removed last; one
    that does not, first, so that there is never a majority to miss. The new one is started as with
    'add'.

    \b
    Example:
      creek member replace 1 127.0.0.1:7203 --data data/3
    """
    make_data_dir(data)

    async def ask(db: Database) -> dict[str, Any]:
        status = await db.status()
        if replica not in status["members"]:
            members = ", ".join(map(str, status["members"]))
            message = f"replica {replica} is no member: members are {members}"
            raise NotDone("bad_arguments", message)
        if await _is_participating(status, replica, where["token"], where["authority"]):
            new = await add_member(db, address, data)
            number = new["added"]
            done = f"replica {number} was added, and replica {replica} stays"
            rest = f"start replica {number}, then: {command_name()} member remove {replica}"
            with _reports_partial_change(done, rest):
                return {**new, **await _remove_member(db, replica)}
        old = await _remove_member(db, replica)
        done = f"replica {replica} was removed, and none is in its place"
        rest = f"when that is mended: {command_name()} member add {address} --data {data}"
        with _reports_partial_change(done, rest):
            return {**old, **await add_member(db, address, data)}

    return _run_on_cluster(ask, as_json, **where)


async def _is_participating(
    status: dict[str, Any], replica: int, token: str, authority: str | None
) -> bool:
    """As far as can be told. One that began with nothing may be up, and wait for somebody."""
    if replica == status["replica"]:
        return status["waits_for"] is None
    at = status["addresses"].get(str(replica))
    if replica not in status["connected"] or at is None:
        return replica in status["connected"]
    try:
        async with connect(
            at, token=token, authority=authority, patience=STATUS_TIMEOUT_S
        ) as there:
            theirs = await there.status()
    except CallFailed:
        return True  # others are connected to it
    return theirs["replica"] != replica or theirs["waits_for"] is None


class _PartialChange(CreekError):
    """One of two changes was made."""


@contextmanager
def _reports_partial_change(done: str, rest: str) -> Iterator[None]:
    try:
        yield
    except CallFailed as error:
        raise _PartialChange(f"{done}: {error}. To do the rest, {rest}") from error


async def add_member(db: Database, address: str, data: Path) -> dict[str, Any]:
    """Add a replica, and leave its ticket where it is to be started."""
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
    ask: Callable[[Database], Awaitable[dict[str, Any]]],
    as_json: bool,
    addresses: tuple[str, ...],
    token: str,
    authority: str | None,
    otherwise: str = "the members were not changed",
) -> int:
    async def asked() -> dict[str, Any]:
        async with open_database(addresses, token, authority, TIMEOUT_S) as db:
            return await ask(db)

    try:
        told = asyncio.run(asked())
    except (OperationFailed, NotDone) as error:
        click.echo(f"creek: {otherwise}: {error_text(error, addresses)}", err=True)
        return FAILURE
    except _PartialChange as error:
        click.echo(f"creek: {error}", err=True)
        return FAILURE
    except Unknown as error:
        click.echo(f"creek: look with 'creek member list' what was done: {error}", err=True)
        return FAILURE
    if as_json:
        print_json(told)
        return SUCCESS
    for what in ("added", "removed"):
        if what in told:
            click.echo(f"replica {told[what]} was {what}")
    members = ", ".join(map(str, told["members"]))
    click.echo(f"members are {members}, after {pluralize(told['epoch'], 'change')}")
    if "found_at" in told:
        print_table(_address_table(told))
    return SUCCESS


def _address_table(told: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("replica", justify="right")
    for column in ("others find it at", "clients at"):
        table.add_column(column, overflow="fold")
    for member in map(str, told["members"]):
        places = told["found_at"].get(member), told["clients_at"].get(member)
        table.add_row(member, *(at or "-" for at in places))
    return table
