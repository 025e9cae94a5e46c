"""What tests of backups share."""

from pathlib import Path
from typing import Any

from creekdb.client.backup_download import download_backup
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.server.backup.format import (
    BackupHeader,
    open_backup_writer,
    read_header,
    read_registers,
)
from creekdb.server.backup.restore import restore
from tests.cluster.house import House


async def back_up(cluster: House, path: Path, replica: int = 0, **how: Any) -> BackupHeader:
    with open_backup_writer(path) as file:
        await download_backup(cluster.addresses(replica), file.write, **how)
    return read_header(path)


def restored(path: Path, folder: Path, replicas: int, **how: Any) -> BackupHeader:
    members = tuple(range(replicas))
    folders = {each: folder / str(each) for each in members}
    named = {"cluster": "another", "datatype": "kv", **how}
    return restore(path, folders, members=members, **named)


def own_state(path: Path) -> dict[Any, Any]:
    """Without what calls came to."""
    return {
        key: value
        for key, value in read_registers(path)
        if not (isinstance(key, tuple) and key[0] == CALLS_PREFIX)
    }
