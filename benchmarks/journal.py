"""The journal: the cost of a sync relative to the plain system calls, and the speed of a replay.

A sync waits, so these are wall-clock times, and the journal and the plain calls alternate. The
journal's time is that of a driver: from `append` to its callback on the event loop.
"""

import asyncio
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

import msgspec

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import Timed, cheapest
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Received, Record, encode
from creekdb.protocol.request import Operation, Request
from creekdb.server.storage.file_ops import FileOps
from creekdb.server.storage.journal import Journal

GROUPS = (1, 16, 128)
GROUP_READ = 16
"""Records per group of the journal that is read back."""
VALUE = "x" * 170
"""Produces records of about 200 bytes."""


def _records(count: int) -> list[Record]:
    return [
        Received(Request(event, Dot(0, event), Operation("put", ("key", VALUE)), False))
        for event in range(count)
    ]


@contextmanager
def _directory() -> Iterator[Path]:
    """Return a directory on the disk of the runs, because temporary files may be in memory."""
    with tempfile.TemporaryDirectory(prefix=".journal-", dir=Path.cwd()) as path:
        yield Path(path)


class _PlainFile:
    """Appends to a file and syncs it."""

    def __init__(self, path: Path, preallocated_bytes: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        self._offset = 0
        os.pwrite(self._file, bytes(preallocated_bytes), 0)
        os.fsync(self._file)

    def write(self, data: bytes) -> None:
        os.pwrite(self._file, data, self._offset)
        os.fdatasync(self._file)
        self._offset += len(data)

    def close(self) -> None:
        os.close(self._file)


class _UnsyncedFileOps(FileOps):
    """Writes a journal for reading only, without syncs."""

    def fdatasync(self, file: int) -> None:
        pass


class _DrivenJournal:
    """The journal as a driver uses it."""

    def __init__(self, path: Path) -> None:
        self._synced = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.journal = Journal(path, loop=loop)
        self.journal.subscribe(self._synced.set)
        self.journal.open()

    async def write(self, records: list[Record]) -> None:
        self._synced.clear()
        self.journal.append(records)
        await self._synced.wait()


class _Times(NamedTuple):
    """Durations of the syncs, in nanoseconds."""

    journal: list[int]
    plain: list[int]
    preallocated: list[int]


async def _measure_alternately(directory: Path, group: int, rounds: int) -> _Times:
    records = _records(group)
    data = b"".join(map(encode, records))
    driven_journal = _DrivenJournal(directory / "journal")
    plain = _PlainFile(directory / "plain", 0)
    preallocated = _PlainFile(directory / "preallocated", (rounds + 1) * len(data))
    # The first write of each creates its file and does not count.
    await driven_journal.write(records)
    plain.write(data)
    preallocated.write(data)
    times = _Times([], [], [])
    for number in range(3 * rounds):
        started_ns = perf_counter_ns()
        match number % 3:
            case 0:
                await driven_journal.write(records)
            case 1:
                plain.write(data)
            case _:
                preallocated.write(data)
        times[number % 3].append(perf_counter_ns() - started_ns)
    driven_journal.journal.close()
    plain.close()
    preallocated.close()
    return times


def _first_decile(times: list[int]) -> float:
    """Return the first decile: on a busy machine, most of the rest is waiting time."""
    return statistics.quantiles(times, n=10)[0]


def _syncs(scale: Scale) -> Iterator[Result]:
    for group in GROUPS:
        with _directory() as directory:
            times = asyncio.run(_measure_alternately(directory, group, scale.syncs))
        plain = _first_decile(times.plain)
        what = f"journal: sync of {group}"
        yield Result(
            what=what,
            explanation=f"Time until {group} records are durable and the event loop is notified, "
            "relative to appending and syncing the same bytes.",
            value=_first_decile(times.journal) / plain,
        )
        yield Result(
            what=f"{what}, preallocated",
            explanation="The plain calls on a file zeroed beforehand, relative to appending.",
            value=_first_decile(times.preallocated) / plain,
        )
        yield Result(
            what=f"{what}, median",
            explanation="Median duration of the journal's syncs.",
            value=statistics.median(times.journal) / 1e3,
            unit="µs",
        )
        yield Result(
            what=f"{what}, plain median",
            explanation="Median duration of appending and syncing.",
            value=statistics.median(times.plain) / 1e3,
            unit="µs",
        )
        yield Result(
            what=f"{what}, records",
            explanation="Records that become durable per second, one group at a time.",
            value=group * len(times.journal) / sum(times.journal) * 1e9,
            unit="/s",
        )


def _read_journal(directory: Path, count: int) -> Timed:
    def run() -> None:
        journal = Journal(directory)
        assert len(journal.open()) == count
        journal.close()

    return Timed(count, run)


def _decode(payloads: list[bytes]) -> Timed:
    decode = msgspec.msgpack.Decoder(Record).decode
    return Timed(len(payloads), lambda: [decode(payload) for payload in payloads])


def _reading(scale: Scale) -> Iterator[Result]:
    records = _records(scale.read_back)
    with _directory() as directory:
        journal = Journal(directory, file_ops=_UnsyncedFileOps())
        journal.open()
        for first in range(0, len(records), GROUP_READ):
            journal.append(records[first : first + GROUP_READ])
            journal.flush()
        journal.close()
        read, decoded = cheapest(
            (
                partial(_read_journal, directory, len(records)),
                partial(_decode, [encode(record) for record in records]),
            ),
            scale.repeats,
        )
    yield Result(
        what="journal: replay",
        explanation=f"Cost of opening a journal of {scale.read_back:,} records, relative to "
        "decoding them from memory, one by one.",
        value=read / decoded,
    )
    yield Result(
        what="journal: replay, records",
        explanation="Records that are replayed per second.",
        value=1e9 / read,
        unit="/s",
    )


def measure(scale: Scale) -> Iterator[Result]:
    yield from _syncs(scale)
    yield from _reading(scale)


BENCHMARK = Benchmark("journal", 5 * len(GROUPS) + 2, measure)
