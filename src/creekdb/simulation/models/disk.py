"""The log of one node: records in order, durable in order, and what a crash leaves of them.

Rules it keeps:

- Group commit: one fsync at a time; the records that arrive meanwhile share the next one.
- A crash keeps the durable prefix. Of the rest a random prefix may have reached the platter all the
  same; the record after it may be torn, which is noticed on restart and cut off.
- An `Image` takes the place of the records before it, once it is durable.
- An image that takes its time has room left for it, which counts as a record. It is written beside
  what comes after it, and then takes the place of all before; a crash leaves nothing of it.
- A disk that is lost is empty; positions count on.
- With an fsync that takes no time, records are durable at once and no event is spent on it.
- A disk that keeps nothing costs nothing: everything counts as durable, nothing is encoded, and
  after a crash nothing is there. For runs that measure what the paper measured, without disks.

Records are kept as bytes and decoded on restart: what the codec loses is lost here too.
"""

from collections.abc import Callable, Iterator
from random import Random

from creekdb.protocol.messages import Image, Record, decode_record, encode
from creekdb.simulation.kernel.simulated_time import EventHeap, Handle
from creekdb.simulation.models.parameters import DiskModel

_ROOM = b""
"""In the log, where an image is yet to come."""


class Disk:
    __slots__ = (
        "_crashes",
        "_dropped",
        "_fsync",
        "_heap",
        "_images",
        "_log",
        "_model",
        "_on_durable",
        "_random",
        "bytes_written",
        "doom",
        "durable",
        "extra_us",
        "fsyncs",
        "lost",
        "records_written",
        "torn",
    )

    def __init__(
        self, heap: EventHeap, model: DiskModel, random: Random, on_durable: Callable[[], None]
    ) -> None:
        self._heap = heap
        self._model = model
        self._random = random
        self._on_durable = on_durable
        self._log: list[bytes] = []
        self._dropped = 0
        """Records that an image replaced: positions count them, the log does not hold them."""
        self._images: list[int] = []
        """The positions of images that are not yet durable."""
        self._fsync: Handle | None = None
        self._crashes = 0
        self.durable = 0
        """The position up to which everything is durable."""
        self.extra_us = 0
        """What a slow disk adds to each fsync."""
        self.doom: Callable[[], None] | None = None
        """What is to happen, once, in the middle of the next fsync."""
        self.fsyncs = 0
        self.records_written = 0
        self.bytes_written = 0
        self.lost = 0
        self.torn = 0

    @property
    def end(self) -> int:
        """The position behind the last record."""
        return self._dropped + len(self._log)

    def begin_with(self, record: Record) -> None:
        """It is there before the replica is."""
        self._log.append(encode(record))
        self._made_durable(self.end)

    def append(self, records: tuple[Record, ...]) -> None:
        """Write a batch; `on_durable` is called once it is durable, unless it is at once."""
        if not self._model.kept:
            return
        log = self._log
        for record in records:
            if type(record) is Image:
                self._images.append(self._dropped + len(log))
            data = encode(record)
            self.bytes_written += len(data)
            log.append(data)
        self.records_written += len(records)
        self._sync()

    def leave_room(self) -> int:
        """The position of an image that comes later, or never."""
        position = self.end
        if self._model.kept:
            self._log.append(_ROOM)
            self._sync()
        return position

    def put_image(self, position: int, data: bytes) -> None:
        """That image, encoded. All before it is durable."""
        if self._model.kept:
            assert self.durable > position
            self._heap.after(self._delay_us(), self._image_done, self._crashes, position, data)

    def crash(self) -> None:
        self._crashes += 1
        if self._fsync is not None:
            self._heap.cancel(self._fsync)
            self._fsync = None
        pending = self.end - self.durable
        survivors = self._random.randint(0, pending) if pending else 0
        if survivors < pending:
            self.lost += pending - survivors
            self.torn += self._random.random() < 0.5
            del self._log[self.durable + survivors - self._dropped :]
        self._made_durable(self.end)
        self._images.clear()

    def lose(self) -> None:
        """All that it holds, of a node that is down."""
        self._dropped, self._log = self.end, []
        self.durable = self.end

    def read(self) -> list[Record]:
        """What a restart finds."""
        return [decode_record(data) for data in self._log if data]

    def read_durable(self) -> Iterator[Record]:
        """What a restart would find in any case."""
        for data in self._log[: self.durable - self._dropped]:
            if data:
                yield decode_record(data)

    def contents(self) -> list[bytes]:
        return list(self._log)

    def _sync(self) -> None:
        if self._fsync is not None:
            return
        if self._model.fsync_us_max + self.extra_us:
            self._start_fsync()
        else:
            self.fsyncs += 1
            self._made_durable(self.end)

    def _delay_us(self) -> int:
        model = self._model
        return self._random.randint(model.fsync_us_min, model.fsync_us_max) + self.extra_us

    def _start_fsync(self) -> None:
        delay_us = self._delay_us()
        self._fsync = self._heap.after(delay_us, self._fsync_done, self.end)
        if self.doom is not None:
            self._heap.after(self._random.randint(0, delay_us), self.doom)
            self.doom = None

    def _fsync_done(self, covered: int) -> None:
        self.fsyncs += 1
        self._fsync = None
        self._made_durable(covered)
        if self.end > covered:
            self._start_fsync()
        self._on_durable()

    def _image_done(self, crashes: int, position: int, data: bytes) -> None:
        if crashes != self._crashes or position < self._dropped:
            return  # it was torn, or a later one was faster
        self.fsyncs += 1
        self.bytes_written += len(data)
        del self._log[: position - self._dropped]
        self._dropped = position
        self._log[0] = data

    def _made_durable(self, position: int) -> None:
        self.durable = position
        while self._images and self._images[0] < position:
            image = self._images.pop(0)
            del self._log[: image - self._dropped]
            self._dropped = image
