"""From a backup to the folders of a new cluster.

The new cluster begins with the state of the backup and with what clients' calls came to, so a call
that is asked for again is not executed again. It is another cluster: it has its own name, members
and numbers of requests. To it, all that was committed before is one long past that its first member
issued, so that commit indices go on where they were.

Each folder holds a journal with one image and no promise. So a replica that starts from it hears
from all others before it takes part, like one with an empty disk
(`creekdb.protocol.membership.disk_loss_recovery`): then also a folder that is made again, after the
replica has run from it, does no harm.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from creekdb.errors import StorageFault, UsageError
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import Checkpoint, CheckpointRecord
from creekdb.server.backup.format import BackupHeader, read_checkpoint, read_header
from creekdb.server.storage.file_ops import SYSTEM_FILE_OPS
from creekdb.server.storage.journal import Journal


def restore(
    path: Path,
    folders: Mapping[int, Path],
    *,
    cluster: str,
    members: tuple[int, ...],
    datatype: str,
) -> BackupHeader:
    """Make a folder for each of these replicas, all or none. `datatype`: the name of the one that
    the cluster replicates."""
    head = read_header(path)
    _reject_foreign(path, head, cluster, datatype)
    for folder in folders.values():
        _reject_nonempty(folder)
    image = CheckpointRecord(
        as_initial_state(read_checkpoint(path, head), members), NO_BALLOT, (), (), ()
    )
    made: list[Path] = []
    try:
        for folder in folders.values():
            made.append(_partial_path(folder))
            _write_data_dir(made[-1], image)
        for folder in folders.values():
            _partial_path(folder).rename(folder)
            made.append(folder)
            SYSTEM_FILE_OPS.sync_directory(folder.parent)
    except BaseException as error:
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise StorageFault(f"cannot restore {path}: {error.strerror or error}") from error
        raise
    return head


def _partial_path(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.partial")


def as_initial_state(checkpoint: Checkpoint, members: tuple[int, ...]) -> Checkpoint:
    """The same prefix, for a cluster of these members that begins with it."""
    length = checkpoint.length
    return msgspec.structs.replace(
        checkpoint,
        ids=Dots({min(members): (1, length + 1)}) if length else Dots(),
        state=tuple([item for item in checkpoint.state if item[0] != MEMBERSHIP_KEY]),
        outcomes=(),
    )


def _reject_foreign(path: Path, head: BackupHeader, cluster: str, datatype: str) -> None:
    if head.datatype != datatype:
        raise UsageError(
            f"{path} is a backup of '{head.datatype}', not of '{datatype}': "
            f"name the same data type, which was imported as {head.imported}"
        )
    if head.cluster == cluster:
        raise UsageError(
            f"{path} is a backup of a cluster named '{cluster}': give the new one another name, so "
            "that no replica of the old one is ever taken for one of the new"
        )


def _reject_nonempty(folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder} holds something already: name a folder that is empty, or new")


def _write_data_dir(folder: Path, image: CheckpointRecord) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)  # an earlier attempt was interrupted
    journal = Journal(folder)
    journal.open()
    try:
        journal.append((image,))
        journal.flush()
    finally:
        journal.close()
