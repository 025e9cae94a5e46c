"""`creek call`: call one operation on a live cluster."""

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
from creekdb.wire.reject_reason import RejectReason

TIMEOUT_S = 10.0
DEFAULT_ADDRESSES = ("127.0.0.1:7100", "127.0.0.1:7101", "127.0.0.1:7102")
"""Client addresses of the first replicas of `creek up`.

With up to five replicas, at least one of these is up if a majority is.
"""
REFUSED_RETRY_S = 5.0
"""Time for which refused connections are retried, in seconds: the cluster may be starting."""
NOTICE_DELAY_S = 1.0
"""Delay before the notice that a response is pending, in seconds."""

addresses_option = click.option(
    "--at",
    "addresses",
    multiple=True,
    default=DEFAULT_ADDRESSES,
    metavar="HOST:PORT",
    help="Client address of a replica; with several, the first reachable one is used.  "
    "[default: the first three replicas of 'creek up']",
)
token_option = click.option(
    "--token", default="", envvar="CREEK_TOKEN", show_envvar=True, help="Token of the client."
)
authority_option = click.option(
    "--authority",
    envvar="CREEK_AUTHORITY",
    show_envvar=True,
    help="File with the trusted certificates, in PEM format.",
)


@click.command(short_help="Call an operation on a live cluster.")
@click.argument("operation")
@click.argument("arguments", nargs=-1)
@click.option(
    "--strong", is_flag=True, help="Make a strong call, and wait for its stable response."
)
@click.option("--final", is_flag=True, help="Make a weak call, but wait for its final response.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 86_400, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    help="Upper bound for the wait for the response, in seconds.",
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
    """Call an operation, weakly by default. An argument that is JSON is parsed, any other is a
    string; write '--' before an argument that begins with '-'. Exits with 1 if the operation raised
    an error, was not executed, or got no last response in time.

    \b
    Examples:
      creek call put lamp 3
      creek call get lamp --strong
      creek call increment visits --at 127.0.0.1:7101 --final
      creek call --strong -- increment visits -1
    """
    if strong and final:
        raise UsageError("--strong and --final exclude each other: omit one of them")
    values = tuple(map(parse_argument, arguments))

    async def invoke() -> tuple[dict[str, Any], list[str]]:
        async with open_database(addresses, token, authority, timeout) as db:
            call = (db.strong if strong else db.weak)(operation, *values)
            try:
                return await (_wait_final(call, timeout) if final else _wait_response(call)), []
            except Unknown as error:
                return await _first_response(call), _timeout_lines(call, error)

    try:
        response, notices = asyncio.run(invoke())
    except (OperationFailed, NotDone, Unknown) as error:
        click.echo(f"creek: {_failure_summary(error)}: {error_text(error, addresses)}", err=True)
        return FAILURE
    if notices and strong:
        click.echo(f"creek: tentative response: {_result_text(response)}", err=True)
    elif as_json:
        print_json(response)
    else:
        changed = ", changed" if response.get("changed") else ""
        click.echo(f"{_result_text(response)}  ({response['kind']}{changed})")
    for line in notices:
        click.echo(f"creek: {line}", err=True)
    return FAILURE if notices else SUCCESS


async def _wait_response(call: Call) -> dict[str, Any]:
    return {"kind": STABLE if call.message.strong else TENTATIVE, "value": await call}


async def _wait_final(call: Call, timeout: float) -> dict[str, Any]:
    """Wait for the final response; print the tentative one if the wait takes long."""
    tentative = _result_text(await _first_response(call))
    text = (
        f"creek: tentative response: {tentative}; "
        f"waiting up to {timeout:g} s for the final response"
    )
    notice = asyncio.get_running_loop().call_later(
        NOTICE_DELAY_S, partial(click.echo, text, err=True)
    )
    try:
        last = await call.final
    finally:
        notice.cancel()
    return {"kind": FINAL, "value": last.value, "changed": last.changed}


async def _first_response(call: Call) -> dict[str, Any]:
    """Return the first response, which may be an error. Raises the failure if there is none."""
    try:
        return {"kind": TENTATIVE, "value": await call.tentative}
    except OperationFailed as error:
        return {"kind": TENTATIVE, "error": str(error)}


def _result_text(response: dict[str, Any]) -> str:
    if "error" in response:
        return f"raised {response['error']}"
    return msgspec.json.encode(response["value"]).decode()


def _timeout_lines(call: Call, error: Unknown) -> list[str]:
    """Describe the future of a call with a tentative response but no last one in time."""
    replica = "the replica" if call.id is None else f"replica {call.id.replica}"
    return [
        f"{error}; check with 'creek status' whether a majority is up",
        f"the call is not lost: {replica} retains it until a majority fixes its position; "
        "then read the result with a strong call",
    ]


@asynccontextmanager
async def open_database(
    addresses: tuple[str, ...], token: str, authority: str | None, timeout: float
) -> AsyncIterator[Database]:
    """Connect to a cluster; print a notice if that takes long."""
    db = connect(
        addresses,
        token=token,
        authority=authority,
        timeout=timeout,
        patience=timeout,
        refused=REFUSED_RETRY_S,
    )

    def print_notice() -> None:
        text = f"no replica responds yet: {db.discovery_progress()}; retrying for a few seconds"
        click.echo(f"creek: {text}", err=True)

    notice = asyncio.get_running_loop().call_later(NOTICE_DELAY_S, print_notice)
    try:
        async with db:
            notice.cancel()
            yield db
    finally:
        notice.cancel()


def error_text(error: Exception, addresses: tuple[str, ...]) -> str:
    """Return the text of an error, with a hint if no cluster is reachable."""
    if not isinstance(error, NotDone) or error.reason != RejectReason.UNREACHABLE:
        return str(error)
    return f"{error} ({unreachable_hint(addresses == DEFAULT_ADDRESSES)})"


def unreachable_hint(is_default: bool) -> str:
    """Return the hint for an unreachable cluster. `is_default`: no address was set with --at."""
    if is_default:
        return (
            "start a cluster here with 'creek up', or set its address with --at, "
            "such as --at 127.0.0.1:7500"
        )
    return "start the cluster, or set another address with --at"


def _failure_summary(error: Exception) -> str:
    match error:
        case OperationFailed():
            return "the operation raised an error"
        case NotDone():
            return "the call was not executed"
        case _:
            return "the outcome of the call is unknown"
