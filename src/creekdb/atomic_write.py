"""Files and directories that are complete or absent: written under another name, then renamed."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_write(path: Path, *, durable: bool = False, shared: bool = False) -> Iterator[Path]:
    """Yield the temporary path of a file or directory, which is renamed to `path` at the end.

    The caller creates it. After an error, it is removed and `path` is unchanged. With `durable`,
    content and name survive a loss of power. With `shared`, several processes may write the same
    `path`. Otherwise, the next writer removes the temporary path of an interrupted one.
    """
    infix = f".{uuid.uuid4().hex}" if shared else ""
    partial = path.with_name(f".{path.name}{infix}.partial")
    try:
        _remove(partial)
        yield partial
        if durable:
            for part in (*partial.rglob("*"), partial):
                sync(part)
        partial.replace(path)
        if durable:
            sync(path.parent)
    except BaseException:
        with suppress(OSError):
            _remove(partial)
        raise


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
