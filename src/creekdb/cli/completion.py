"""Shell completion from a live cluster: names of operations."""

import asyncio
from typing import Final

import click
from click.shell_completion import CompletionItem

from creekdb.cli.target import DEFAULT_ADDRESSES, ClusterTarget
from creekdb.errors import CreekError

COMPLETION_TIMEOUT_S: Final = 0.5
"""Upper bound for the wait for the cluster, in seconds. A shell is silent meanwhile."""


def complete_operation(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the operations of the cluster that begin with `incomplete`. None if it is down."""
    values = context.params
    target = ClusterTarget(
        values.get("addresses") or DEFAULT_ADDRESSES,
        values.get("token") or "",
        values.get("authority"),
    )
    try:
        signatures = asyncio.run(_signatures(target))
    except (CreekError, TimeoutError, OSError):
        return []
    return [
        CompletionItem(name, help=signature)
        for name, signature in signatures.items()
        if name.startswith(incomplete)
    ]


async def _signatures(target: ClusterTarget) -> dict[str, str]:
    """Return the signatures of all operations, by name."""
    async with (
        asyncio.timeout(COMPLETION_TIMEOUT_S),
        target.connection(COMPLETION_TIMEOUT_S, refused=0.01) as db,
    ):
        operations = db.operations
        return {name: operations.signature_text(name) for name in operations.names()}
