"""Configuration files of replicas, as commands write them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

FIRST_CLIENT_PORT: Final = 7100
FIRST_PEER_PORT: Final = 7200


def config_text(
    path: Path,
    *,
    cluster: str,
    datatype: str,
    replica: int,
    data: Path,
    hosts: Sequence[str],
    more: Iterable[str] = (),
) -> str:
    """The file at `path`, of one of the replicas on these hosts."""
    return "\n".join(
        (
            f"# creek serve --config {path}",
            f"cluster = {quoted(cluster)}",
            f"replica = {replica}",
            f"datatype = {quoted(datatype)}",
            f"data = {quoted(str(data))}",
            f'clients = "{address(hosts[replica], FIRST_CLIENT_PORT + replica)}"',
            "",
            "[members]",
            *(f'{each} = "{address(at, FIRST_PEER_PORT + each)}"' for each, at in enumerate(hosts)),
            "",
            *more,
        )
    )


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
