"""Configuration files of replicas, as the commands write them."""

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
    extra: Iterable[str] = (),
) -> str:
    """Return the configuration of a replica on this host, for the file at `path`.

    `members`: hosts of all members, by number; empty for a replica that is to join a cluster.
    """
    number = [f"replica = {replica}"]
    others = [f'{each} = "{peer_address(peer, each)}"' for each, peer in enumerate(members)]
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
            *extra,
        )
    )


def client_address(host: str, replica: int) -> str:
    """Return the address on which a replica listens for clients."""
    return format_address(host, FIRST_CLIENT_PORT + replica)


def peer_address(host: str, replica: int) -> str:
    """Return the address on which a replica listens for its peers."""
    return format_address(host, FIRST_PEER_PORT + replica)


def toml_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
