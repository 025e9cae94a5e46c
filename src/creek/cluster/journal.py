"""What must survive a crash: records in order, durable in order.

Rules it keeps:

- Group commit: one write and one sync at a time, on a thread of its own; the records that are
  appended meanwhile share the next. Appending never waits for the disk.
- Nothing is `durable` before the disk said so, and nothing before what was appended before it.
- An `Image` begins a new segment. Once it is durable, the older segments are removed.
- A disk that is full or fails changes nothing but the time: what was appended waits in memory,
  nothing becomes durable, `failed` says why. `retry` tries again, and goes on if it can.
- If the thread itself breaks off, nothing can go on: it is `broken`, and nobody waits for it.
- One process has the folder, and a second one is told so.

How it lies on disk is the business of `segments`. How much may wait in memory is the caller's.
"""

import errno
import fcntl
import os
import threading
import traceback
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from creek.cluster.calls import SYSTEM, Calls
from creek.cluster.segment_writer import Writer
from creek.cluster.segments import Cut, read_chain
from creek.errors import DirectoryInUse, DiskFailed, DiskFull, StorageFault
from creek.protocol.messages import Image, Record, encode

SEGMENT_BYTES: Final = 64 * 1024 * 1024
GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
"""More does not share one sync, so that none takes long. A greater record has one of its own."""
LOCK: Final = "lock"

_FULL = (errno.ENOSPC, errno.EDQUOT)


class _Group:
    """Records that are made durable together."""

    __slots__ = ("first", "image", "payloads", "size")

    def __init__(self, first: int, image: bool) -> None:
        self.first = first
        self.image = image
        self.payloads: list[bytes] = []
        self.size = 0


def _nothing() -> None:
    pass


def _ignored(_: object) -> None:
    pass


class Journal:
    """With a `loop`, a thread writes and the callbacks are called on the loop. Without one there is
    no thread: `flush` writes, and calls them.

    `on_durable` is called after each sync, `on_failure` after each attempt that failed. All methods
    belong to the thread of the loop; only `open`, `flush` and `close` wait for the disk.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        loop: AbstractEventLoop | None = None,
        on_durable: Callable[[], None] = _nothing,
        on_failure: Callable[[StorageFault], None] = _ignored,
        log: Callable[[str], None] = _ignored,
        calls: Calls = SYSTEM,
    ) -> None:
        self._directory = directory
        self._loop = loop
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._log = log
        self._calls = calls
        self._writer = Writer(directory, segment_bytes, calls, log)
        self._lock_file: int | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        """Held to touch what follows, and never during a system call."""
        self._waiting: deque[_Group] = deque()
        """What is not durable yet; the first may be on its way."""
        self._sealed: _Group | None = None
        """The group that is being written, or was tried: nothing is added to it."""
        self._again = False
        self._closing = False
        self.end = 0
        """The position behind the last record that was appended."""
        self.durable = 0
        """The position up to which everything is durable."""
        self.pending_bytes = 0
        self.failed: StorageFault | None = None
        """Why nothing becomes durable at present."""
        self.broken = False
        """Is `failed` for good?"""
        self.cut: Cut | None = None
        """What `open` had to cut off."""
        self.syncs = 0

    # --- opening and closing ------------------------------------------------------------------

    def open(self) -> list[Record]:
        """Everything durable since the last image, in order. To be called once.

        Raises `DirectoryInUse`, or `StorageFault` if what is there cannot be trusted or read.
        """
        try:
            self._make_directory()
            self._lock()
        except OSError as error:
            raise StorageFault(f"cannot use {self._directory}: {error.strerror}") from error
        try:
            records = self._resume()
        except BaseException:
            self._writer.close()
            self._unlock()
            raise
        if self._loop is not None:
            self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
            self._thread.start()
        return records

    def close(self) -> None:
        """Write what is waiting, unless the disk has failed, and give the folder free."""
        if self._lock_file is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        else:
            self._write_all()
        if self.durable < self.end:
            self._log(f"{self.end - self.durable} records were never written: {self.failed}")
        self._writer.close()
        self._unlock()

    # --- appending ----------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> int:
        """Hand over records; the position behind them. They are durable when `durable` gets there.

        If one of them cannot be encoded, none is appended.
        """
        encoded = [(encode(record), type(record) is Image) for record in records]
        with self._changed:
            if self._lock_file is None or self._closing:
                raise StorageFault(f"the journal in {self._directory} is not open")
            waiting = self._waiting
            for payload, image in encoded:
                group = waiting[-1] if waiting else None
                if (
                    group is None
                    or group is self._sealed
                    or image
                    or group.size + len(payload) > GROUP_BYTES_MAX
                ):
                    group = _Group(self.end, image)
                    waiting.append(group)
                group.payloads.append(payload)
                group.size += len(payload)
                self.pending_bytes += len(payload)
                self.end += 1
            self._changed.notify_all()
            return self.end

    def flush(self) -> None:
        """Wait until everything appended is durable. Raises what `failed` says if it cannot be."""
        if self._thread is None:
            self._write_all()
            if self.failed is not None:
                raise self.failed
            return
        with self._changed:
            end = self.end
            self._changed.wait_for(lambda: self.durable >= end or self._stuck())
            if self.durable < end and self.failed is not None:
                raise self.failed

    def retry(self) -> None:
        """Try to write again after a failure. Without one, or once broken, this does nothing."""
        with self._changed:
            self._again = self.failed is not None and not self.broken
            self._changed.notify_all()

    # --- writing ------------------------------------------------------------------------------

    def _work(self) -> None:
        """What the thread does until the journal is closed."""
        try:
            while self._next():
                self._commit()
        except Exception as error:  # noqa: BLE001 - told to whoever waits, or they wait for ever
            self._log(traceback.format_exc())
            self.broken = True
            self._fail(DiskFailed(f"writing to {self._directory} broke off: {error!r}"))

    def _next(self) -> bool:
        """Wait for something to write; False if there will be nothing."""
        with self._changed:
            self._changed.wait_for(lambda: self._writable() or self._closing)
            return self._writable()

    def _write_all(self) -> None:
        while self._writable():
            self._commit()

    def _stuck(self) -> bool:
        return self.failed is not None and not self._again

    def _writable(self) -> bool:
        return bool(self._waiting) and not self._stuck()

    def _commit(self) -> None:
        """Write the first group that waits, and tell how it went."""
        with self._changed:
            group = self._sealed = self._waiting[0]
        try:
            self._writer.write(group.first, group.payloads, group.size, group.image)
        except OSError as error:
            self._fail(self._fault(error))
            return
        with self._changed:
            self._waiting.popleft()
            self._sealed = None
            self.durable = group.first + len(group.payloads)
            self.pending_bytes -= group.size
            self.syncs += 1
            self.failed, self._again = None, False
            self._changed.notify_all()
        self._tell(self._on_durable)
        if group.image:
            self._writer.forget_older()

    def _fail(self, fault: StorageFault) -> None:
        with self._changed:
            self.failed, self._again = fault, False
            self._changed.notify_all()
        self._tell(self._on_failure, fault)

    def _fault(self, error: OSError) -> StorageFault:
        if error.errno in _FULL:
            return DiskFull(
                f"no space left in {self._directory}: nothing more is accepted until there is some"
            )
        return DiskFailed(f"cannot write to {self._directory}: {error.strerror}")

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        if self._loop is None:
            callback(*arguments)
            return
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # A loop that was closed first: whoever asked is gone.
            self._log("the loop was closed before the journal")

    # --- the folder ---------------------------------------------------------------------------

    def _resume(self) -> list[Record]:
        chain = read_chain(self._directory)
        try:
            self._writer.resume(chain)
        except OSError as error:
            raise self._fault(error) from error
        self.end = self.durable = chain.first + len(chain.records)
        if chain.tail is not None and chain.tail.cut is not None:
            self.cut = chain.tail.cut
            self._log(str(self.cut))
        return chain.records

    def _make_directory(self) -> None:
        missing = [
            each for each in (self._directory, *self._directory.parents) if not each.exists()
        ]
        self._directory.mkdir(parents=True, exist_ok=True)
        for made in reversed(missing):
            self._calls.sync_directory(made.parent)

    def _lock(self) -> None:
        file = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise DirectoryInUse(
                f"{self._directory} is in use by process {holder}: "
                "stop it first, or choose another folder"
            ) from error
        self._lock_file = file
        # Only for the message above: a replica must be able to start on a disk that is full.
        with suppress(OSError):
            os.pwrite(file, f"{os.getpid():<19}\n".encode(), 0)

    def _unlock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None
