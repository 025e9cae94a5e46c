"""What tests of backups share."""

from pathlib import Path
from typing import Any

from creekdb.client.backup_download import copy
from creekdb.execution.keys import CLIENTS
from creekdb.server.backup.format import Head, kept_as, read_head, registers_of
from creekdb.server.backup.restore import restore
from tests.cluster.house import House


async def back_up(cluster: House, path: Path, replica: int = 0, **how: Any) -> Head:
    with kept_as(path) as file:
        await copy(cluster.addresses(replica), file.write, **how)
    return read_head(path)


def restored(path: Path, folder: Path, replicas: int, **how: Any) -> Head:
    members = tuple(range(replicas))
    folders = {each: folder / str(each) for each in members}
    named = {"cluster": "another", "datatype": "kv", **how}
    return restore(path, folders, members=members, **named)


def own_state(path: Path) -> dict[Any, Any]:
    """Without what calls came to."""
    return {
        key: value
        for key, value in registers_of(path)
        if not (isinstance(key, tuple) and key[0] == CLIENTS)
    }
