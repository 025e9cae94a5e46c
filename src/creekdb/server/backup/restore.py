"""Restore of a backup into the data directories of a new cluster.

The new cluster starts with the state of the backup, including the outcomes of clients' calls. So a
retry of a call is not executed again. The new cluster has its own name, members and request
numbers. To it, all committed requests of the backup are requests that its first member issued, so
commit indices continue.

Each data directory holds a journal with one checkpoint and no promise. A replica that starts from
it must receive the state of all others before it joins, like one with an empty disk
(`creekdb.protocol.membership.disk_loss_recovery`). So a directory that is restored again, after the
replica has run from it, does no harm.
"""

import shutil
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec

from creekdb.atomic_write import atomic_write
from creekdb.errors import StorageFault, UsageError
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import Checkpoint, CheckpointRecord
from creekdb.server.backup.format import BackupHeader, read_checkpoint, read_header
from creekdb.server.storage.data_dir import DataDirOwner
from creekdb.server.storage.file_ops import SYSTEM_FILE_OPS, FileOps
from creekdb.server.storage.journal import Journal
from creekdb.wire.deduplication import IDENTITY_KEY


def restore(
    path: Path,
    data_dirs: Mapping[int, Path],
    *,
    cluster: str,
    members: tuple[int, ...],
    datatype: str,
    file_ops: FileOps = SYSTEM_FILE_OPS,
) -> BackupHeader:
    """Create the data directory of each replica, all or none. Return the header of the backup.

    `datatype` is the name of the data type that the new cluster replicates.
    """
    header = read_header(path)
    _reject_foreign(path, header, cluster, datatype)
    for data_dir in data_dirs.values():
        _reject_nonempty(data_dir)
    record = CheckpointRecord(
        as_initial_state(read_checkpoint(path, header), members), NO_BALLOT, (), (), ()
    )
    inodes: dict[Path, int] = {}
    try:
        with ExitStack() as writes:
            for replica, data_dir in data_dirs.items():
                owner = DataDirOwner(cluster=cluster, replica=replica, datatype=datatype)
                partial = writes.enter_context(atomic_write(data_dir, durable=True))
                _write_data_dir(partial, record, owner, file_ops)
                inodes[data_dir] = partial.stat().st_ino
    except BaseException as error:
        for data_dir, inode in inodes.items():
            _remove_created(data_dir, inode)
        if isinstance(error, OSError):
            raise StorageFault(f"cannot restore {path}: {error.strerror or error}") from error
        raise
    return header


def as_initial_state(checkpoint: Checkpoint, members: tuple[int, ...]) -> Checkpoint:
    """Return the checkpoint as the initial state of a cluster with these members."""
    length = checkpoint.length
    return msgspec.structs.replace(
        checkpoint,
        ids=Dots({min(members): (1, length + 1)}) if length else Dots(),
        state=tuple(
            [item for item in checkpoint.state if item[0] not in (MEMBERSHIP_KEY, IDENTITY_KEY)]
        ),
        outcomes=(),
    )


def _reject_foreign(path: Path, header: BackupHeader, cluster: str, datatype: str) -> None:
    if header.datatype != datatype:
        raise UsageError(
            f"cannot restore {path}: it is a backup of '{header.datatype}', not of '{datatype}'; "
            f"use the same data type, which was imported as {header.imported}"
        )
    if header.cluster == cluster:
        raise UsageError(
            f"cannot restore {path}: it is a backup of a cluster named '{cluster}'; choose another "
            "name, so that replicas of the two clusters reject each other"
        )


def _reject_nonempty(data_dir: Path) -> None:
    if data_dir.exists() and not (data_dir.is_dir() and not any(data_dir.iterdir())):
        raise UsageError(f"{data_dir} is not empty; use an empty or new data directory")


def _remove_created(data_dir: Path, inode: int) -> None:
    """Remove a data directory if it is the one that the restore created. In the meantime, a replica
    may have started from an empty directory of the same name."""
    with suppress(OSError):
        if data_dir.stat().st_ino == inode:
            shutil.rmtree(data_dir, ignore_errors=True)


def _write_data_dir(
    data_dir: Path, record: CheckpointRecord, owner: DataDirOwner, file_ops: FileOps
) -> None:
    journal = Journal(data_dir, file_ops=file_ops, owner=owner.segment_owner)
    with closing(journal):
        journal.open()
        journal.append((record,))
        journal.flush()
