"""`creek call`: one operation on a live cluster, from the command line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import click
import msgspec

from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import parse_argument
from creekdb.cli.output import print_json
from creekdb.client import Database, NotDone, OperationFailed, Unknown, connect
from creekdb.client.calls import FINAL, STABLE, TENTATIVE, Call
from creekdb.errors import UsageError

TIMEOUT_S = 10.0
DEFAULT_ADDRESSES = ("127.0.0.1:7100", "127.0.0.1:7101", "127.0.0.1:7102")
"""Where `creek up` has its first replicas: of up to five, one of these is up, or no majority is."""
REFUSED_RETRY_S = 5.0
"""How long is looked for a cluster where nobody listens: it may be about to start."""
NOTICE_DELAY_S = 1.0
"""After so long it is told that nobody has answered yet."""

addresses_option = click.option(
    "--at",
    "addresses",
    multiple=True,
    default=DEFAULT_ADDRESSES,
    metavar="HOST:PORT",
    help="Where clients find a replica; more than one: whichever can be reached.  "
    "[default: where 'creek up' has its first three]",
)
token_option = click.option(
    "--token", default="", envvar="CREEK_TOKEN", show_envvar=True, help="Who you are, if asked."
)
authority_option = click.option(
    "--authority",
    envvar="CREEK_AUTHORITY",
    show_envvar=True,
    help="A file with the certificates that you trust.",
)


@click.command(short_help="Carry out an operation on a live cluster.")
@click.argument("operation")
@click.argument("arguments", nargs=-1)
@click.option("--strong", is_flag=True, help="Wait for the stable answer.")
@click.option("--final", is_flag=True, help="Weakly, but wait until it is known how it ended.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 86_400, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    help="For how many seconds the answer is waited for.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@addresses_option
@token_option
@authority_option
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
    else texts; '--' goes before one that begins with '-'. Exits with 1 when the operation raised,
    was not done, or was answered tentatively and then not in time.

    \b
    Examples:
      creek call put lamp 3
      creek call get lamp --strong
      creek call increment visits --at 127.0.0.1:7101 --final
      creek call --strong -- increment visits -1
    """
    if strong and final:
        raise UsageError("a strong call's answer is final: leave out --strong or --final")
    values = tuple(map(parse_argument, arguments))

    async def ask() -> tuple[dict[str, Any], list[str]]:
        async with open_database(addresses, token, authority, timeout) as db:
            asked = (db.strong if strong else db.weak)(operation, *values)
            try:
                return await (_wait_final(asked, timeout) if final else _wait_response(asked)), []
            except Unknown as error:
                return await _first_response(asked), _timeout_lines(asked, error)

    try:
        told, unfinished = asyncio.run(ask())
    except (OperationFailed, NotDone, Unknown) as error:
        click.echo(f"creek: {_failure_summary(error)}: {error_text(error, addresses)}", err=True)
        return FAILURE
    if unfinished and strong:
        click.echo(f"creek: tentatively {_result_text(told)}", err=True)
    elif as_json:
        print_json(told)
    else:
        click.echo(
            f"{_result_text(told)}  ({told['kind']}{', changed' if told.get('changed') else ''})"
        )
    for line in unfinished:
        click.echo(f"creek: {line}", err=True)
    return FAILURE if unfinished else SUCCESS


async def _wait_response(asked: Call) -> dict[str, Any]:
    return {"kind": STABLE if asked.message.strong else TENTATIVE, "value": await asked}


async def _wait_final(asked: Call, timeout: float) -> dict[str, Any]:
    """Who has to wait for it is told what was answered so far."""
    so_far = _result_text(await _first_response(asked))
    told = f"creek: tentatively {so_far}; waiting up to {timeout:g} s for the final answer"
    telling = asyncio.get_running_loop().call_later(
        NOTICE_DELAY_S, partial(click.echo, told, err=True)
    )
    try:
        ended = await asked.final
    finally:
        telling.cancel()
    return {"kind": FINAL, "value": ended.value, "changed": ended.changed}


async def _first_response(asked: Call) -> dict[str, Any]:
    """The first answer, which may be that it raised; without any, why there is none."""
    try:
        return {"kind": TENTATIVE, "value": await asked.tentative}
    except OperationFailed as error:
        return {"kind": TENTATIVE, "error": str(error)}


def _result_text(told: dict[str, Any]) -> str:
    if "error" in told:
        return f"raised {told['error']}"
    return msgspec.json.encode(told["value"]).decode()


def _timeout_lines(asked: Call, error: Unknown) -> list[str]:
    """What becomes of a call that has a tentative answer, and no other one in time."""
    where = "the replica that answered" if asked.id is None else f"replica {asked.id.replica}"
    return [
        f"{error}: is a majority up? 'creek status' tells",
        f"it is not lost: {where} keeps it until a majority fixes its place; "
        "read strongly then what came of it",
    ]


@asynccontextmanager
async def open_database(
    addresses: tuple[str, ...], token: str, authority: str | None, timeout: float
) -> AsyncIterator[Database]:
    """Who has to wait for it is told why."""
    db = connect(
        addresses,
        token=token,
        authority=authority,
        timeout=timeout,
        patience=timeout,
        refused=REFUSED_RETRY_S,
    )

    def tell() -> None:
        told = f"nobody answers yet: {db.discovery_progress()}; trying again for some seconds"
        click.echo(f"creek: {told}", err=True)

    telling = asyncio.get_running_loop().call_later(NOTICE_DELAY_S, tell)
    try:
        async with db:
            telling.cancel()
            yield db
    finally:
        telling.cancel()


def error_text(error: Exception, addresses: tuple[str, ...]) -> str:
    """What an error says, and what to do where no cluster runs."""
    if not isinstance(error, NotDone) or error.reason != "unreachable":
        return str(error)
    return f"{error} ({unreachable_hint(addresses == DEFAULT_ADDRESSES)})"


def unreachable_hint(is_here: bool) -> str:
    """Where no cluster runs."""
    if is_here:
        return (
            "'creek up' starts a cluster here; --at names another address, such as 127.0.0.1:7500"
        )
    return "is it started there? --at names another address, 'creek up' starts a cluster here"


def _failure_summary(error: Exception) -> str:
    match error:
        case OperationFailed():
            return "it was carried out, and raised"
        case NotDone():
            return "it was not done"
        case _:
            return "it is not known whether it was done"
