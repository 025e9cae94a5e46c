"""`creek status`: state of the replicas of a live cluster."""

import asyncio
from typing import Any

import click

from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import command_limits
from creekdb.cli.output import pluralize, print_json, print_table, stdout_console
from creekdb.cli.target import DEFAULT_ADDRESSES, ClusterTarget
from creekdb.cli.views.replicas import ReplicaRow, replicas_table, state_text
from creekdb.client import NotDone
from creekdb.errors import UsageError
from creekdb.wire.counters import ServerCounter

SILENT_PEER_S = 3.0
"""Silence of a connected peer that is worth a warning, in seconds."""
TRANSIENT_REASONS = (
    ServerCounter.PEER_UNREACHABLE,
    ServerCounter.PEER_NOT_CONNECTED,
    ServerCounter.CUT,
)
"""Counters that increase while peers are down; every cluster has some from its start."""


@click.command(short_help="Show the state of the replicas of a live cluster.")
@declared
def status(
    *,
    as_json: bool = option("Print one JSON object per replica.", flag="--json"),
    target: ClusterTarget,
) -> int:
    """Show the replicas: leader, links to peers, numbers of committed and tentative operations, and
    lag. The column "agreed" is the number of operations after which states were last equal ("not
    2": the state of replica 2 differs). Replicas without --at are discovered through the others.
    Exits with 1 if a replica is unreachable or reports a problem.

    \b
    Examples:
      creek status
      creek status --at 10.0.0.1:7100 --at 10.0.0.2:7100
      creek status --json
    """

    denials: list[UsageError] = []
    timeout_s = command_limits().status_timeout_s
    target.connection(timeout_s)  # rejects wrong addresses and files

    async def fetch(address: str) -> dict[str, Any]:
        try:
            async with target._replace(addresses=(address,)).connection(timeout_s) as db:
                return {"address": address, **await db.status()}
        except NotDone as error:
            return _unreachable(address, str(error))
        except UsageError as error:
            denials.append(error)
            return _unreachable(address, str(error))

    async def fetch_all() -> list[dict[str, Any]]:
        statuses = await asyncio.gather(*map(fetch, target.addresses))
        others = sorted(filter(None, _missing_members(statuses).values()))
        statuses += await asyncio.gather(
            *(fetch(each) for each in others if each not in target.addresses)
        )
        return _complete_statuses(statuses, is_guess=target.addresses == DEFAULT_ADDRESSES)

    statuses = asyncio.run(fetch_all())
    if len(denials) == len(statuses):
        raise denials[0]
    for each in statuses if as_json else ():
        print_json(each)
    if not as_json:
        rows = [_replica_row(each) for each in statuses]
        print_table(replicas_table(rows, stdout_console().width))
        if all("unreachable" in each for each in statuses):
            reason = f"{statuses[-1]['unreachable']} ({target.unreachable_hint()})"
            click.echo(f"creek: {reason}", err=True)
        else:
            _print_warnings(statuses)
    is_healthy = all("unreachable" not in each and state_text(each) == "up" for each in statuses)
    return SUCCESS if is_healthy else FAILURE


def _unreachable(address: str, reason: str) -> dict[str, Any]:
    return {"address": address, "replica": "-", "unreachable": reason}


def _missing_members(statuses: list[dict[str, Any]]) -> dict[str, str]:
    """Return the members that did not respond, with their client addresses or empty strings."""
    known = {
        replica: address
        for each in statuses
        for replica, address in each.get("addresses", {}).items()
        if address
    }
    responding = {str(each["replica"]) for each in statuses if "unreachable" not in each}
    members = {str(member): None for each in statuses for member in each.get("members", ())}
    return {each: known.get(each, "") for each in members if each not in responding}


def _complete_statuses(statuses: list[dict[str, Any]], is_guess: bool) -> list[dict[str, Any]]:
    """Add the members that only other replicas report.

    `is_guess`: the addresses are defaults, so there may be no replica at some of them.
    """
    missing = _missing_members(statuses)
    numbers = {address: replica for replica, address in missing.items() if address}
    for each in statuses:
        if "unreachable" in each:
            each["replica"] = numbers.get(each["address"], "-")
    if is_guess:
        statuses = [each for each in statuses if each["replica"] != "-"] or statuses[:1]
    peer_addresses: dict[str, str] = {}
    for each in statuses:
        peer_addresses |= each.get("found_at", {})
    statuses += [
        {**_unreachable("-", _not_connected_text(peer_addresses.get(replica))), "replica": replica}
        for replica, address in missing.items()
        if not address
    ]
    return sorted(statuses, key=lambda each: (str(each["replica"]), each["address"]))


def _not_connected_text(peer_address: str | None) -> str:
    suffix = "" if peer_address is None else f"; they try {peer_address}"
    return f"no responding replica has connected to it since its start{suffix}"


def _replica_row(status: dict[str, Any]) -> ReplicaRow:
    if "unreachable" in status:
        return ReplicaRow(status["replica"], status["address"], None, "unreachable")
    return ReplicaRow(str(status["replica"]), status["address"], status, state_text(status))


def _print_warnings(statuses: list[dict[str, Any]]) -> None:
    """Print the problems that need attention."""
    for each in statuses:
        name = f"replica {each['replica']}"
        for key in ("unreachable", "why_closed"):
            if each.get(key):
                click.echo(f"{name}: {each[key]}")
        for peer, seconds in each.get("silent_s", {}).items():
            if seconds >= SILENT_PEER_S:
                click.echo(
                    f"{name} has received nothing from replica {peer} for {seconds:.0f} s, "
                    "although they are connected: it may be frozen"
                )
        for peer, names in each.get("differing_operations", {}).items():
            click.echo(
                f"{name} has other code than replica {peer} for {', '.join(names)}; "
                "restart one of them with the module of the other"
            )
        for peer, build in each.get("differing_builds", {}).items():
            click.echo(
                f"replica {peer} runs {build}, unlike {name}; "
                "install the same kind of wheel on all replicas"
            )
        if rejections := _lasting_rejections(each):
            reasons = ", ".join(f"{count} × {reason}" for reason, count in rejections.items())
            click.echo(f"{name} rejected or dropped: {reasons}")
        long = each.get("long_operations", {})
        if long.get("last"):
            times = pluralize(long["long"], "operation")
            click.echo(f"{name} was blocked by {times}, the last: {long['last']}")


def _lasting_rejections(status: dict[str, Any]) -> dict[str, int]:
    """Return the rejections; omit those caused by absent peers once all peers are connected."""
    rejections: dict[str, int] = status.get("refused", {})
    others = {*status.get("members", ())} - {status["replica"]}
    if not others <= {*status.get("connected", ())}:
        return rejections
    return {
        reason: count for reason, count in rejections.items() if reason not in TRANSIENT_REASONS
    }
