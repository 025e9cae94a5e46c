"""What must survive a crash: records in order, durable in order.

Rules it keeps:

- Group commit: one write and one sync at a time, by the system beside all else, or on a thread; the
  records that are appended meanwhile share the next. Appending never waits for the disk. Records
  that nobody waits for yet are written with the next that somebody does.
- Nothing is `durable` before the disk said so, and nothing before what was appended before it.
- An `Image` begins a new segment. Once it is durable, the older segments are removed.
- An image that takes its time has room left for it, and is written beside what comes after it. If
  that fails, or is interrupted, it is as if there had been none: the older segments stay.
- A disk that is full or fails changes nothing but the time: what was appended waits in memory,
  nothing becomes durable, `failed` says why. `retry` tries again, and goes on if it can.
- If the thread itself breaks off, nothing can go on: it is `broken`, and nobody waits for it.
- One process has the folder, and a second one is told so.

How it lies on disk is the business of `segments`. How much may wait in memory is the caller's.
"""

import errno
import queue
import threading
import traceback
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from creekdb.errors import DiskFailed, DiskFull, StorageFault
from creekdb.protocol.messages import Image, Record, encode
from creekdb.server.storage.file_ops import SYSTEM, Calls, Folder
from creekdb.server.storage.segment_writer import Done, Group, Room, Writer, write_image
from creekdb.server.storage.segments import Cut, read_chain

SEGMENT_BYTES: Final = 64 * 1024 * 1024
GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
"""More does not share one sync, so that none takes long. A greater record has one of its own."""
IDLE_BYTES_MAX: Final = 1024 * 1024
"""More is not kept waiting until somebody waits for it."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


def _nothing() -> None:
    pass


def _ignored(_: object) -> None:
    pass


class Journal:
    """With a `loop`, the system or a thread writes, and the callbacks are called on the loop.
    Without one, `flush` writes, and calls them.

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
        """Of whoever writes the first group."""
        self._folder = Folder(directory, calls)
        self._waiting: deque[Group] = deque()
        """What is not durable yet; the first may be on its way."""
        self._wanted = 0
        """Somebody waits for what stands before this position."""
        self._writing = False
        """Is the first group on its way?"""
        self._sealed = False
        """Is it, or was it tried? Then nothing is added to it."""
        self._again = False
        self._closing = False
        self._worker: threading.Thread | None = None
        self._to_do: queue.SimpleQueue[Group | Path | None] = queue.SimpleQueue()
        """For the thread: groups to write, and images that are durable now; None: there is no
        more."""
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._image_thread: threading.Thread | None = None
        self._drawn: queue.SimpleQueue[tuple[Room, Iterable[bytes], Callable[[], None]] | None]
        self._drawn = queue.SimpleQueue()
        """Images that are to be written; None: there are no more."""
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
            self._folder.open()
        except OSError as error:
            raise StorageFault(f"cannot use {self._directory}: {error.strerror}") from error
        try:
            records = self._resume()
            if self._loop is not None:
                self._start(self._loop)
        except BaseException:
            self._writer.close()
            self._calls.detach()
            self._folder.close()
            raise
        return records

    def _start(self, loop: AbstractEventLoop) -> None:
        worker = threading.Thread(target=self._work, name="journal", daemon=True)
        images = threading.Thread(target=self._work_on_images, name="images", daemon=True)
        worker.start()
        images.start()
        self._worker, self._image_thread = worker, images
        self._calls.attach(loop)

    def close(self) -> None:
        """Write what is waiting, unless the disk has failed, and give the folder free."""
        if not self._folder.is_open:
            return
        self._closing = True
        self._give_up_rooms()
        if self._image_thread is not None:
            self._drawn.put(None)
            self._image_thread.join()
        self._write_all()
        if self._worker is not None:
            self._to_do.put(None)
            self._worker.join()
        if self.durable < self.end:
            self._log(f"{self.end - self.durable} records were never written: {self.failed}")
        self._calls.detach()
        self._writer.close()
        self._folder.close()

    # --- appending ----------------------------------------------------------------------------

    def append(self, records: Sequence[Record], hurry: bool = True) -> int:
        """Hand over records; the position behind them. They are durable when `durable` gets there:
        soon, or without `hurry` when somebody does.

        If one of them cannot be encoded, none is appended.
        """
        encoded = [(encode(record), type(record) is Image) for record in records]
        self._check_open()
        waiting = self._waiting
        for payload, image in encoded:
            group = waiting[-1] if waiting else None
            if (
                group is None
                or (self._sealed and group is waiting[0])
                or image
                or group.image
                or group.room is not None
                or group.size + len(payload) > GROUP_BYTES_MAX
            ):
                group = Group(self.end, image)
                waiting.append(group)
            group.payloads.append(payload)
            group.size += len(payload)
            self.pending_bytes += len(payload)
            self.end += 1
        if hurry or self.pending_bytes > IDLE_BYTES_MAX:
            self.hurry()
        return self.end

    def hurry(self) -> None:
        """Somebody waits for what was appended so far."""
        self._wanted = self.end
        if self._worker is not None and not self._writing and self._writable():
            self._begin()

    def append_image(self, pieces: Iterable[bytes]) -> int:
        """An image that is a record like others, encoded: in pieces, which are made by the thread
        that writes them. Answers with the position behind it."""
        self._check_open()
        group = Group(self.end, True)
        group.pieces = pieces
        self._waiting.append(group)
        self.end += 1
        self.hurry()
        return self.end

    def leave_room(self) -> Room:
        """For an image of everything appended so far. It counts as a record that is durable."""
        self._check_open()
        room = Room(self.end)
        self._waiting.append(Group(self.end, False, room))
        self.end += 1
        self.hurry()
        return room

    def put_image(
        self, room: Room, pieces: Iterable[bytes], over: Callable[[], None] = _nothing
    ) -> None:
        """The image that room was left for: encoded, in pieces, which are made by the thread that
        writes them. `over` is called when it is there, or when it will never be."""
        if self._image_thread is None:
            self._write_all()
            self._write_image(room, pieces, over)
        else:
            self._drawn.put((room, pieces, over))

    def flush(self) -> None:
        """Wait until everything appended is durable. Raises what `failed` says if it cannot be."""
        self._write_all()
        if self.durable < self.end and self.failed is not None:
            raise self.failed

    def retry(self) -> None:
        """Try to write again after a failure. Without one, or once broken, this does nothing."""
        self._again = self.failed is not None and not self.broken
        self.hurry()

    # --- writing ------------------------------------------------------------------------------

    def _writable(self) -> bool:
        return bool(self._waiting) and (self.failed is None or self._again)

    def _begin(self) -> None:
        """Have the first group written."""
        self._writing, self._sealed, self._again = True, True, False
        group = self._waiting[0]
        if not self._is_begun(group):
            self._to_do.put(group)

    def _is_begun(self, group: Group) -> bool:
        """By the system. If not, for whatever reason, the thread finds out what is the matter."""
        if self._worker is None or not group.is_plain:
            return False
        try:
            return self._writer.begin(group.first, group.payloads, group.size, self._written)
        except Exception:  # noqa: BLE001 - it comes again where it is told
            self._log(traceback.format_exc())
            return False

    def _written(self, durable: bool) -> None:
        """What the system did with the first group. If it could not, the thread tries."""
        if self.broken:
            return
        if durable:
            self._finish(Done())
        else:
            self._to_do.put(self._waiting[0])

    def _write_all(self) -> None:
        """Wait for it."""
        while self._writing or self._writable():
            if not self._writing:
                self._begin()
            if self._worker is None:
                try:
                    self._work_once()
                except BaseException:
                    self._writing = False
                    raise
            if not self._writer.wait():
                self._finish(self._done.get())

    def _collect(self) -> None:
        """What the thread has done, unless somebody waited for it."""
        while not self._done.empty():
            self._finish(self._done.get())

    def _finish(self, done: Done) -> None:
        self._writing = False
        if done.fault is not None:
            self.failed, self.broken = done.fault, done.broken
            if done.broken:
                self._give_up_rooms()
            self._on_failure(done.fault)
            return
        group = self._waiting.popleft()
        self._sealed = False
        self.failed = None
        self.durable = group.first + (len(group.payloads) or 1)
        self.pending_bytes -= group.size
        self.syncs += group.room is None
        if self._worker is not None and self._waiting and self._waiting[0].first < self._wanted:
            self._begin()
        self._on_durable()

    def _give_up_rooms(self) -> None:
        for group in self._waiting:
            if group.room is not None:
                group.room.ready.set()

    # --- what the threads do ------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while self._work_once():
                pass
        except Exception as error:  # noqa: BLE001 - told to whoever waits, or they wait for ever
            self._log(traceback.format_exc())
            fault = DiskFailed(f"writing to {self._directory} broke off: {error!r}")
            self._done.put(Done(fault, broken=True))
            self._tell(self._collect)

    def _work_once(self) -> bool:
        """False when there is no more to do."""
        to_do = self._to_do.get()
        if to_do is None:
            return False
        if isinstance(to_do, Path):
            self._writer.add_image(to_do)
            return True
        fault: StorageFault | None = None
        try:
            self._write(to_do)
        except OSError as error:
            fault = self._fault(error)
        self._done.put(Done(fault))
        if self._worker is not None:
            self._tell(self._collect)
        if to_do.path is not None:
            self._writer.add_image(to_do.path)
        elif to_do.image and fault is None:
            self._writer.forget_older()
        return True

    def _write(self, group: Group) -> None:
        room = group.room
        if group.pieces is not None:
            group.pieces = pieces = list(group.pieces)  # perhaps it is tried again
            if group.number is None:
                group.number = self._writer.leave_room()
            calls, number, first = self._calls, group.number, group.first
            group.path = write_image(self._directory, calls, number, first, pieces, lambda: True)
        elif room is None:
            self._writer.write(group.first, group.payloads, group.size, group.image)
        else:
            room.number = self._writer.leave_room()
            room.ready.set()

    def _work_on_images(self) -> None:
        while (drawn := self._drawn.get()) is not None:
            self._write_image(*drawn)

    def _write_image(self, room: Room, pieces: Iterable[bytes], over: Callable[[], None]) -> None:
        try:
            if self._worker is not None:
                room.ready.wait()
            if room.number is not None and self._is_wanted():
                path = write_image(
                    *(self._directory, self._calls, room.number, room.position, pieces),
                    self._is_wanted,
                )
                if path is not None and self._worker is None:
                    self._writer.add_image(path)
                elif path is not None:
                    self._to_do.put(path)
        except Exception as error:  # noqa: BLE001 - what was there before it is still there
            self._log(f"cannot write an image to {self._directory}: {error!r}")
        self._tell(over)

    def _is_wanted(self) -> bool:
        return not (self._closing or self.broken)

    def _check_open(self) -> None:
        if not self._folder.is_open or self._closing:
            raise StorageFault(f"the journal in {self._directory} is not open")

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
        self.end = self.durable = chain.end
        if chain.tail is not None and chain.tail.cut is not None:
            self.cut = chain.tail.cut
            self._log(str(self.cut))
        return chain.records
