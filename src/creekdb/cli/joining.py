"""How `creek serve --join` makes a new replica a member of a cluster that runs.

Everything that can be looked at is looked at first: a member that was added and cannot start is one
that the others miss.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from creekdb.cli.member import added
from creekdb.client import Database, connect
from creekdb.client.errors import CallFailed
from creekdb.errors import UsageError
from creekdb.server.membership.join_ticket import make_folder, read_ticket
from creekdb.server.runtime.config import ServerConfig, load_datatype, read_config
from creekdb.server.security.authentication import valid_until

JOIN_S: Final = 30.0


def join(
    at: tuple[str, ...], listen: str | None, path: Path | None, given: Mapping[str, Any]
) -> None:
    """Become a member, unless it is one already. `path` and `given`: as for `read_config`."""
    if listen is None:
        raise click.UsageError("--join needs --listen, where the others find this one")
    config = read_config(path, {**given, "replica": 0, "members": {"0": listen}})
    folder = Path(config.data)
    if read_ticket(folder) is not None:
        return
    datatype = load_datatype(config.datatype).name
    if config.is_secured:
        valid_until(config.security)
    make_folder(folder)

    async def ask() -> None:
        async with connect(
            at,
            token=os.environ.get("CREEK_TOKEN", ""),
            authority=os.environ.get("CREEK_AUTHORITY"),
            timeout=JOIN_S,
            patience=JOIN_S,
        ) as db:
            await _refuse_other(db, config, datatype)
            told = await added(db, listen, folder)
        click.echo(f"replica {told['added']} was added")

    try:
        asyncio.run(ask())
    except CallFailed as error:
        raise UsageError(f"cannot join the cluster at {', '.join(at)}: {error}") from error


async def _refuse_other(db: Database, config: ServerConfig, datatype: str) -> None:
    """The others would refuse to talk to a replica that is set up otherwise."""
    status = await db.status()
    ours = {"cluster": config.cluster, "datatype": datatype, "scheme": config.scheme}
    for key, value in ours.items():
        if status[key] != value:
            raise UsageError(
                f"the {key} there is '{status[key]}', and here it is '{value}': nothing was "
                f"changed; set {key}, or join another cluster"
            )
