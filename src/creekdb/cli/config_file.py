"""Configuration files of replicas, as the commands write them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from creekdb.wire.addresses import format_address

FIRST_CLIENT_PORT: Final = 7100
FIRST_PEER_PORT: Final = 7200


def replica_config(
    base: Path, replica: int, host: str, cluster: str, datatype: str, members: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the configuration of a replica on this host, whose files are in `base`.

    `members`: hosts of all members, by number; empty for a replica that is to join a cluster.
    """
    addresses = {str(each): peer_address(peer, each) for each, peer in enumerate(members)}
    return {
        "cluster": cluster,
        **({"replica": replica} if members else {}),
        "datatype": datatype,
        "data": str(base / f"data-{replica}"),
        "clients": client_address(host, replica),
        **({"members": addresses} if members else {}),
    }


def render_config(path: Path, config: Mapping[str, Any]) -> str:
    """Return the content of the configuration file at `path`, as TOML."""
    return "\n".join((f"# creek serve --config {path}", *_table_lines(config)))


def _table_lines(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{_toml_key(key)} = {json.dumps(value, ensure_ascii=False)}"
    yield ""
    for key, value in table.items():
        if isinstance(value, dict):
            yield f"[{prefix}{key}]"
            yield from _table_lines(value, f"{prefix}{key}.")


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def client_address(host: str, replica: int) -> str:
    """Return the address on which a replica listens for clients."""
    return format_address(host, FIRST_CLIENT_PORT + replica)


def peer_address(host: str, replica: int) -> str:
    """Return the address on which a replica listens for its peers."""
    return format_address(host, FIRST_PEER_PORT + replica)
