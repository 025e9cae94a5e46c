"""`creek status`: how the replicas of a live cluster are."""

import asyncio
from typing import Any

import click

from creek.cli.call import addresses_option, authority_option, token_option, why
from creek.cli.exits import FINE, ILLEGAL
from creek.cli.output import PIPED_WIDTH, results, show_json, show_table
from creek.cli.replicas import Row, replicas_table, state_of
from creek.cli.words import counted
from creek.client import NotDone, connect

PATIENCE_S = 2.0
AWAY = ("could not reach a peer", "sent to a peer that is away")
"""What replicas count while others are not there: every cluster has some of it from its start."""


@click.command(short_help="Show how the replicas of a live cluster are.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each.")
@addresses_option
@token_option
@authority_option
def status(addresses: tuple[str, ...], token: str, authority: str | None, as_json: bool) -> int:
    """Show how replicas are: who leads, whom each hears, how much is committed and tentative, how
    far one lags behind, and after how many operations their states were last seen to be the same
    ("not 2": the state of replica 2 is another one). Replicas that are not named are
    found through those that are. Exits with 1 when one cannot be reached, or complains.

    \b
    Examples:
      creek status
      creek status --at 10.0.0.1:7100 --at 10.0.0.2:7100
      creek status --json
    """

    async def ask(address: str, replica: str = "-") -> dict[str, Any]:
        try:
            async with connect(
                address, token=token, authority=authority, timeout=PATIENCE_S, patience=PATIENCE_S
            ) as db:
                return {"address": address, **await db.status()}
        except NotDone as error:
            told = why(error, addresses)
            return {"address": address, "replica": replica, "unreachable": told}

    async def ask_all() -> list[dict[str, Any]]:
        found = await asyncio.gather(*map(ask, addresses))
        named = {str(each["replica"]) for each in found}
        others = {
            (at, replica)
            for each in found
            for replica, at in each.get("addresses", {}).items()
            if at and at not in addresses and replica not in named
        }
        found += await asyncio.gather(*(ask(*other) for other in sorted(others)))
        return sorted(found, key=lambda each: (str(each["replica"]), each["address"]))

    found = asyncio.run(ask_all())
    for each in found if as_json else ():
        show_json(each)
    if not as_json:
        narrow = results().width < PIPED_WIDTH
        show_table(replicas_table([_row(each) for each in found], narrow=narrow))
        _show_more(found)
        if all("unreachable" in each for each in found):
            click.echo(f"creek: {found[-1]['unreachable']}", err=True)
    fine = all("unreachable" not in each and state_of(each) == "up" for each in found)
    return FINE if fine else ILLEGAL


def _row(told: dict[str, Any]) -> Row:
    if "unreachable" in told:
        return Row(told["replica"], told["address"], None, "unreachable")
    return Row(str(told["replica"]), told["address"], told, state_of(told))


def _show_more(found: list[dict[str, Any]]) -> None:
    """What has happened that should not go on."""
    for each in found:
        refused = _refused(each)
        if refused:
            reasons = ", ".join(f"{count} × {reason}" for reason, count in refused.items())
            click.echo(f"replica {each['replica']} refused or dropped: {reasons}")
        long = each.get("long_operations", {})
        if long.get("last"):
            times = counted(long["long"], "operation")
            click.echo(
                f"replica {each['replica']} was held up by {times}, the last: {long['last']}"
            )


def _refused(told: dict[str, Any]) -> dict[str, int]:
    """That others were not there yet, or not for a while, is not worth a word when they are."""
    refused: dict[str, int] = told.get("refused", {})
    others = {*told.get("members", ())} - {told["replica"]}
    if not others <= {*told.get("connected", ())}:
        return refused
    return {reason: count for reason, count in refused.items() if reason not in AWAY}
