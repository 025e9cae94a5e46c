"""`creek status`: how the replicas of a live cluster are."""

import asyncio
from typing import Any

import click

from creekdb.cli.commands.call import (
    DEFAULT_ADDRESSES,
    addresses_option,
    authority_option,
    token_option,
    unreachable_hint,
)
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.output import pluralize, print_json, print_table, stdout_console
from creekdb.cli.views.replicas import ReplicaRow, replicas_table, state_text
from creekdb.client import NotDone, connect
from creekdb.errors import UsageError

STATUS_TIMEOUT_S = 2.0
SILENT_PEER_S = 3.0
"""Replicas say something many times a second: one that did not for so long is told of."""
TRANSIENT_REASONS = ("could not reach a peer", "sent to a peer that is away", "cut")
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

    denied: list[UsageError] = []

    async def ask(address: str) -> dict[str, Any]:
        try:
            async with connect(
                address,
                token=token,
                authority=authority,
                timeout=STATUS_TIMEOUT_S,
                patience=STATUS_TIMEOUT_S,
            ) as db:
                return {"address": address, **await db.status()}
        except NotDone as error:
            return _unreachable(address, str(error))
        except UsageError as error:
            denied.append(error)
            return _unreachable(address, str(error))

    async def ask_all() -> list[dict[str, Any]]:
        found = await asyncio.gather(*map(ask, addresses))
        others = sorted(filter(None, _missing_members(found).values()))
        found += await asyncio.gather(*(ask(at) for at in others if at not in addresses))
        return _complete_statuses(found, is_guess=addresses == DEFAULT_ADDRESSES)

    found = asyncio.run(ask_all())
    if len(denied) == len(found):
        raise denied[0]
    for each in found if as_json else ():
        print_json(each)
    if not as_json:
        print_table(replicas_table([_replica_row(each) for each in found], stdout_console().width))
        if all("unreachable" in each for each in found):
            to_do = unreachable_hint(addresses == DEFAULT_ADDRESSES)
            click.echo(f"creek: {found[-1]['unreachable']} ({to_do})", err=True)
        else:
            _print_warnings(found)
    fine = all("unreachable" not in each and state_text(each) == "up" for each in found)
    return SUCCESS if fine else FAILURE


def _unreachable(address: str, told: str) -> dict[str, Any]:
    return {"address": address, "replica": "-", "unreachable": told}


def _missing_members(found: list[dict[str, Any]]) -> dict[str, str]:
    """Members, by what those say that answer, and where clients find them, as far as anybody knows;
    without those that answer."""
    told = dict.fromkeys((str(member) for each in found for member in each.get("members", ())), "")
    for each in found:
        known = each.get("addresses", {})
        told.update({replica: at for replica, at in known.items() if at and replica in told})
    answering = {str(each["replica"]) for each in found if "unreachable" not in each}
    return {replica: at for replica, at in told.items() if replica not in answering}


def _complete_statuses(found: list[dict[str, Any]], is_guess: bool) -> list[dict[str, Any]]:
    """With those who are known through others alone. `is_guess`: where one looked there need not be
    anybody."""
    missing = _missing_members(found)
    numbers = {at: replica for replica, at in missing.items() if at}
    for each in found:
        if "unreachable" in each:
            each["replica"] = numbers.get(each["address"], "-")
    if is_guess:
        found = [each for each in found if each["replica"] != "-"] or found[:1]
    found_at = {replica: at for each in found for replica, at in each.get("found_at", {}).items()}
    found += [
        {**_unreachable("-", _not_connected_text(found_at.get(replica))), "replica": replica}
        for replica, at in missing.items()
        if not at
    ]
    return sorted(found, key=lambda each: (str(each["replica"]), each["address"]))


def _not_connected_text(found_at: str | None) -> str:
    at = "" if found_at is None else f", and look for it at {found_at}"
    return f"those that answer have not met it since they were started{at}"


def _replica_row(told: dict[str, Any]) -> ReplicaRow:
    if "unreachable" in told:
        return ReplicaRow(told["replica"], told["address"], None, "unreachable")
    return ReplicaRow(str(told["replica"]), told["address"], told, state_text(told))


def _print_warnings(found: list[dict[str, Any]]) -> None:
    """What has happened that should not go on."""
    for each in found:
        if "unreachable" in each:
            click.echo(f"replica {each['replica']}: {each['unreachable']}")
        if each.get("why_closed"):
            click.echo(f"replica {each['replica']}: {each['why_closed']}")
        for peer, seconds in each.get("silent_s", {}).items():
            if seconds >= SILENT_PEER_S:
                click.echo(
                    f"replica {each['replica']} has heard nothing of replica {peer} for "
                    f"{seconds:.0f} s, though they are connected: it may be frozen"
                )
        refused = _lasting_rejections(each)
        if refused:
            reasons = ", ".join(f"{count} × {reason}" for reason, count in refused.items())
            click.echo(f"replica {each['replica']} refused or dropped: {reasons}")
        long = each.get("long_operations", {})
        if long.get("last"):
            times = pluralize(long["long"], "operation")
            click.echo(
                f"replica {each['replica']} was held up by {times}, the last: {long['last']}"
            )


def _lasting_rejections(told: dict[str, Any]) -> dict[str, int]:
    """That others were not there yet, or not for a while, is not worth a word when they are."""
    refused: dict[str, int] = told.get("refused", {})
    others = {*told.get("members", ())} - {told["replica"]}
    if not others <= {*told.get("connected", ())}:
        return refused
    return {reason: count for reason, count in refused.items() if reason not in TRANSIENT_REASONS}
