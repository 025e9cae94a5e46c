"""Configuration files of replicas, as commands write them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from creekdb.wire.addresses import format_address

FIRST_CLIENT_PORT: Final = 7100
FIRST_PEER_PORT: Final = 7200


def render_config(
    path: Path,
    *,
    cluster: str,
    datatype: str,
    replica: int,
    data: Path,
    host: str,
    members: Sequence[str] = (),
    more: Iterable[str] = (),
) -> str:
    """The file at `path`, of a replica on this host. `members`: the hosts of all, by number; none
    for one that is to join, and will be told."""
    number = [f"replica = {replica}"]
    others = [f'{each} = "{peer_address(at, each)}"' for each, at in enumerate(members)]
    return "\n".join(
        (
            f"# creek serve --config {path}",
            f"cluster = {toml_string(cluster)}",
            *(number if members else ()),
            f"datatype = {toml_string(datatype)}",
            f"data = {toml_string(str(data))}",
            f'clients = "{client_address(host, replica)}"',
            "",
            *(("[members]", *others, "") if members else ()),
            *more,
        )
    )


def client_address(host: str, replica: int) -> str:
    """Where clients find a replica."""
    return format_address(host, FIRST_CLIENT_PORT + replica)


def peer_address(host: str, replica: int) -> str:
    """Where the others find it."""
    return format_address(host, FIRST_PEER_PORT + replica)


def toml_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
