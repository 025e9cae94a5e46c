"""`creek call` and `creek status`: talking to a live cluster from the command line."""

import asyncio
from typing import Any

import click
import msgspec
from rich.table import Table

from creek.cli.exits import FINE, ILLEGAL
from creek.cli.options import argument_of
from creek.cli.output import show_json, show_table
from creek.client import NotDone, OperationFailed, Unknown, connect

TIMEOUT_S = 10.0

_addresses = click.option(
    "--at",
    "addresses",
    multiple=True,
    default=("127.0.0.1:7100",),
    show_default=True,
    metavar="HOST:PORT",
    help="Where clients find a replica; more than one: whichever can be reached.",
)
_token = click.option("--token", default="", envvar="CREEK_TOKEN", help="Who you are, if asked.")
_authority = click.option(
    "--authority", envvar="CREEK_AUTHORITY", help="A file with the certificates that you trust."
)


@click.command(short_help="Carry out an operation on a live cluster.")
@click.argument("operation")
@click.argument("arguments", nargs=-1)
@click.option("--strong", is_flag=True, help="Wait for the stable answer.")
@click.option("--final", is_flag=True, help="Weakly, but wait until it is known how it ended.")
@click.option("--timeout", default=TIMEOUT_S, show_default=True, help="Seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_addresses
@_token
@_authority
def call(
    operation: str,
    arguments: tuple[str, ...],
    strong: bool,
    final: bool,
    timeout: float,
    as_json: bool,
    addresses: tuple[str, ...],
    token: str,
    authority: str | None,
) -> int:
    """Carry out an operation, weakly unless told otherwise. Arguments are JSON where they can be,
    else texts. Exits with 1 when the operation raised, or was not done.

    \b
    Examples:
      creek call put lamp 3
      creek call get lamp --strong
      creek call increment visits --at 127.0.0.1:7101 --final
    """
    values = tuple(map(argument_of, arguments))

    async def ask() -> dict[str, Any]:
        async with connect(
            addresses, token=token, authority=authority, timeout=timeout, patience=timeout
        ) as db:
            asked = getattr(db.strong if strong else db.weak, operation)(*values)
            if final:
                ended = await asked.final
                return {"kind": "final", "value": ended.value, "changed": ended.changed}
            return {"kind": "stable" if strong else "tentative", "value": await asked}

    try:
        told = asyncio.run(ask())
    except (OperationFailed, NotDone, Unknown) as error:
        click.echo(f"creek: {_what(error)}: {error}", err=True)
        return ILLEGAL
    if as_json:
        show_json(told)
    else:
        changed = ", changed" if told.get("changed") else ""
        click.echo(f"{msgspec.json.encode(told['value']).decode()}  ({told['kind']}{changed})")
    return FINE


@click.command(short_help="Show how the replicas of a live cluster are.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each.")
@_addresses
@_token
@_authority
def status(addresses: tuple[str, ...], token: str, authority: str | None, as_json: bool) -> int:
    """Show how replicas are: who leads, how much is committed and tentative, what was refused.

    \b
    Examples:
      creek status
      creek status --at 127.0.0.1:7100 --at 127.0.0.1:7101 --at 127.0.0.1:7102
    """

    async def ask(address: str) -> dict[str, Any]:
        try:
            async with connect(address, token=token, authority=authority, patience=2.0) as db:
                return {"address": address, **await db.status()}
        except NotDone as error:
            return {"address": address, "unreachable": str(error)}

    async def ask_all() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*map(ask, addresses)))

    found = asyncio.run(ask_all())
    for each in found if as_json else ():
        show_json(each)
    if not as_json:
        show_table(status_table(found))
    return ILLEGAL if any("unreachable" in each for each in found) else FINE


def status_table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("replica", "clients at", "leader", "hears", "committed", "tentative", "backlog"):
        table.add_column(name, justify="left" if name == "clients at" else "right")
    table.add_column("disk")
    for each in found:
        if "unreachable" in each:
            table.add_row("-", each["address"], "-", "-", "-", "-", "-", "unreachable", style="red")
            continue
        table.add_row(
            str(each["replica"]),
            each["address"],
            "-" if each["leader"] is None else str(each["leader"]),
            ",".join(map(str, each["connected"])) or "-",
            str(each["committed"]),
            str(each["tentative"]),
            str(each["backlog"]),
            each["disk"] or "fine",
        )
    return table


def _what(error: Exception) -> str:
    match error:
        case OperationFailed():
            return "it was carried out, and raised"
        case NotDone():
            return "it was not done"
        case _:
            return "it is not known whether it was done"
