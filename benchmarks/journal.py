"""The journal: what a sync costs beside the bare system calls, and how fast it is read back.

A sync waits, so these are times on the wall, and the journal and the bare calls take turns. The
journal's time is what a driver waits: from `append` to `on_durable` on the loop.
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

from benchmarks.measuring import Timed, cheapest
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Received, Record, encode
from creekdb.protocol.request import Operation, Request
from creekdb.server.storage.file_ops import FileOps
from creekdb.server.storage.journal import Journal

GROUPS = (1, 16, 128)
GROUP_READ = 16
"""Records in each group of the journal that is read back."""
VALUE = "x" * 170
"""Makes a record of about 200 bytes."""


def _records(count: int) -> list[Record]:
    return [
        Received(Request(event, Dot(0, event), Operation("put", ("key", VALUE)), False))
        for event in range(count)
    ]


@contextmanager
def _folder() -> Iterator[Path]:
    """On the disk that runs are kept on: the one for temporary files may be none."""
    with tempfile.TemporaryDirectory(prefix=".journal-", dir=Path.cwd()) as path:
        yield Path(path)


class _Bare:
    """Append to a file and sync it, and nothing else."""

    def __init__(self, path: Path, room_bytes: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        self._offset = 0
        os.pwrite(self._file, bytes(room_bytes), 0)
        os.fsync(self._file)

    def write(self, data: bytes) -> None:
        os.pwrite(self._file, data, self._offset)
        os.fdatasync(self._file)
        self._offset += len(data)

    def close(self) -> None:
        os.close(self._file)


class _Unsynced(FileOps):
    """To fill a journal that is only to be read."""

    def fdatasync(self, file: int) -> None:
        pass


class _Driven:
    """The journal as a driver uses it."""

    def __init__(self, path: Path) -> None:
        self._synced = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.journal = Journal(path, loop=loop, on_durable=self._synced.set)
        self.journal.open()

    async def write(self, records: list[Record]) -> None:
        self._synced.clear()
        self.journal.append(records)
        await self._synced.wait()


class _Times(NamedTuple):
    """Nanoseconds of each sync."""

    journal: list[int]
    bare: list[int]
    zeroed: list[int]


async def _take_turns(directory: Path, group: int, rounds: int) -> _Times:
    records = _records(group)
    data = b"".join(map(encode, records))
    driven = _Driven(directory / "journal")
    bare = _Bare(directory / "bare", 0)
    zeroed = _Bare(directory / "zeroed", (rounds + 1) * len(data))
    # The first one of each makes its file, and does not count.
    await driven.write(records)
    bare.write(data)
    zeroed.write(data)
    times = _Times([], [], [])
    for done in range(3 * rounds):
        begin = perf_counter_ns()
        match done % 3:
            case 0:
                await driven.write(records)
            case 1:
                bare.write(data)
            case _:
                zeroed.write(data)
        times[done % 3].append(perf_counter_ns() - begin)
    driven.journal.close()
    bare.close()
    zeroed.close()
    return times


def _undisturbed(times: list[int]) -> float:
    """What the fastest tenth stays below: on a busy machine most of the rest is waiting."""
    return statistics.quantiles(times, n=10)[0]


def _syncs(scale: Scale) -> Iterator[Result]:
    for group in GROUPS:
        with _folder() as directory:
            times = asyncio.run(_take_turns(directory, group, scale.syncs))
        bare = _undisturbed(times.bare)
        what = f"journal: sync of {group}"
        yield Result(
            what=what,
            explanation=f"How long it takes until {group} records are durable and the loop knows, "
            "against appending and syncing the same bytes.",
            value=_undisturbed(times.journal) / bare,
        )
        yield Result(
            what=f"{what}, room made beforehand",
            explanation="The bare calls in a file that was zeroed before, against appending.",
            value=_undisturbed(times.zeroed) / bare,
        )
        yield Result(
            what=f"{what}, median",
            explanation="How long half of the journal's syncs take at most.",
            value=statistics.median(times.journal) / 1e3,
            unit="µs",
        )
        yield Result(
            what=f"{what}, bare median",
            explanation="The same of appending and syncing.",
            value=statistics.median(times.bare) / 1e3,
            unit="µs",
        )
        yield Result(
            what=f"{what}, records",
            explanation="How many records become durable in a second, one group at a time.",
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
    with _folder() as directory:
        journal = Journal(directory, calls=_Unsynced())
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
        what="journal: reading back",
        explanation=f"What it costs to open a journal of {scale.read_back:,} records, against "
        "decoding them from memory, one by one.",
        value=read / decoded,
    )
    yield Result(
        what="journal: reading back, records",
        explanation="How many records are read back in a second.",
        value=1e9 / read,
        unit="/s",
    )


def measure(scale: Scale) -> Iterator[Result]:
    yield from _syncs(scale)
    yield from _reading(scale)


BENCHMARK = Benchmark("journal", 5 * len(GROUPS) + 2, measure)
