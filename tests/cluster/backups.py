"""Helpers for tests that take and restore backups."""

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
from tests.cluster.in_process_cluster import InProcessCluster


async def back_up(
    cluster: InProcessCluster, path: Path, replica: int = 0, **options: Any
) -> BackupHeader:
    """Download a backup from this replica, and return its header."""
    with open_backup_writer(path) as file:
        await download_backup(cluster.addresses(replica), file.write, **options)
    return read_header(path)


def restore_all(path: Path, directory: Path, replicas: int, **options: Any) -> BackupHeader:
    """Restore the data directories of all replicas of a new cluster."""
    members = tuple(range(replicas))
    directories = {each: directory / str(each) for each in members}
    settings = {"cluster": "another", "datatype": "kv", **options}
    return restore(path, directories, members=members, **settings)


def user_state(path: Path) -> dict[Any, Any]:
    """Return the registers of a backup without those of deduplication."""
    return {
        key: value
        for key, value in read_registers(path)
        if not (isinstance(key, tuple) and key[0] == CALLS_PREFIX)
    }
