"""Encoding of checkpoints and snapshots: registers per iteration, and superseded jobs."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from creekdb.driver.checkpoint_writer import REGISTERS_PER_TURN_MAX, CheckpointWriter
from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    EncodedCheckpoint,
    RegisterCursor,
    StreamedCheckpoint,
    StreamedSnapshot,
)
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import (
    Ballot,
    Checkpoint,
    CheckpointRecord,
    Promised,
    Record,
    Snapshot,
    decode_record,
)
from creekdb.protocol.values import Key

LARGE = 100_000
BARE = Checkpoint(1, 0, Dots(), 0, (), ())


class CountedRegisters:
    """Cursor that counts the registers taken from it."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._remaining = count
        self.taken = 0
        self.is_closed = False

    def take(self, limit: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        if not self._remaining:
            return None
        count = min(limit, self._remaining)
        self._remaining -= count
        self.taken += count
        return [(self._remaining + each, each) for each in range(count)], []

    def close(self) -> None:
        self.is_closed = True


class RecordingStore:
    """Store that records checkpoints. The test completes a write by calling `on_done`."""

    def __init__(self) -> None:
        self.log: list[object] = []
        """Appended records and checkpoints, and reserved slots."""
        self.checkpoints: list[tuple[int, bytes]] = []
        self.on_done: Callable[[], None] = lambda: None

    def append(self, records: Sequence[Record]) -> None:
        self.log += records

    def append_checkpoint(self, chunks: Iterable[bytes]) -> None:
        self.log.append(decode_record(b"".join(chunks)))

    def reserve_checkpoint(self) -> int:
        self.log.append("slot")
        return len(self.log) - 1

    def write_checkpoint(
        self, slot: int, chunks: Iterable[bytes], on_done: Callable[[], None]
    ) -> None:
        self.checkpoints.append((slot, b"".join(chunks)))
        self.on_done = on_done


class WriterFixture:
    """A writer with a recording store and the list of sent snapshots."""

    def __init__(self) -> None:
        self.store = RecordingStore()
        self.sent: list[tuple[int, int]] = []
        self.writer = CheckpointWriter(
            self.store,
            lambda encoded, position: self.sent.append((position, encoded.to)),
            asyncio.get_running_loop().call_soon,
        )

    def add_checkpoint(self, registers: RegisterCursor, at: int) -> None:
        streamed = StreamedCheckpoint(
            0, CheckpointRecord(BARE, Ballot(0, 0), (), (), ()), registers
        )
        self.writer.add_checkpoint(streamed, at)

    def add_snapshot(self, registers: RegisterCursor, to: int, position: int = 0) -> None:
        self.writer.add_snapshot(StreamedSnapshot(to, Snapshot(BARE), registers), position)


async def wait_for_encoding() -> None:
    """Run more iterations of the loop than any job here needs."""
    for _ in range(LARGE // REGISTERS_PER_TURN_MAX + 20):
        await asyncio.sleep(0)


async def test_an_iteration_of_the_loop_encodes_a_bounded_number_of_registers() -> None:
    fixture = WriterFixture()
    registers = CountedRegisters(LARGE)
    fixture.add_checkpoint(registers, 0)
    assert registers.taken == 0
    count_max, turns = 0, 0
    while not fixture.store.checkpoints:
        before = registers.taken
        await asyncio.sleep(0)  # other work of the loop
        count_max, turns = max(count_max, registers.taken - before), turns + 1
    assert count_max <= REGISTERS_PER_TURN_MAX
    assert turns >= LARGE // REGISTERS_PER_TURN_MAX
    checkpoint = decode_record(fixture.store.checkpoints[0][1])
    assert isinstance(checkpoint, CheckpointRecord)
    assert len(checkpoint.checkpoint.state) == LARGE


async def test_a_newer_checkpoint_replaces_a_queued_one() -> None:
    fixture = WriterFixture()
    first, second, third = (
        CountedRegisters(1000),
        CountedRegisters(1000),
        CountedRegisters(1000),
    )
    for at, registers in enumerate((first, second, third)):
        fixture.add_checkpoint(registers, at)
    await wait_for_encoding()
    assert [at for at, _ in fixture.store.checkpoints] == [0]
    assert second.is_closed
    assert third.taken == 0, "one checkpoint is written at a time"
    fixture.store.on_done()
    await wait_for_encoding()
    assert [at for at, _ in fixture.store.checkpoints] == [0, 2]
    assert second.taken == 0


async def test_each_replica_gets_its_latest_snapshot_once() -> None:
    fixture = WriterFixture()
    fixture.add_checkpoint(CountedRegisters(1000), 0)
    fixture.add_snapshot(CountedRegisters(10), 1, position=5)
    fixture.add_snapshot(CountedRegisters(10), 2, position=6)
    fixture.add_snapshot(CountedRegisters(10), 1, position=7)
    await wait_for_encoding()
    assert fixture.sent == [(6, 2), (7, 1)]


async def test_nothing_is_encoded_after_a_halt() -> None:
    fixture = WriterFixture()
    registers = CountedRegisters(LARGE)
    fixture.add_checkpoint(registers, 0)
    await asyncio.sleep(0)
    fixture.writer.halt()
    taken = registers.taken
    await wait_for_encoding()
    assert registers.taken == taken
    assert registers.is_closed
    assert not fixture.store.checkpoints


async def test_checkpoints_are_appended_among_the_records_of_their_batch() -> None:
    fixture = WriterFixture()
    record = CheckpointRecord(BARE, Ballot(0, 0), (), (), ())
    first, second, third = (Promised(Ballot(round, 0)) for round in (1, 2, 3))
    fixture.writer.append(
        (first, second, third),
        (
            StreamedCheckpoint(1, record, CountedRegisters(1)),
            EncodedCheckpoint(3, record, ArrayEncoder(), ArrayEncoder()),
        ),
    )
    assert fixture.store.log == [first, "slot", second, third, record]
    await wait_for_encoding()
    assert [at for at, _ in fixture.store.checkpoints] == [1]


class LargeRegisters(CountedRegisters):
    """Cursor over registers of 1,000 bytes each, with the limits that it was called with."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.limits: list[int] = []

    def take(self, limit: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        self.limits.append(limit)
        taken = super().take(limit)
        return None if taken is None else ([(key, b"x" * 1000) for key, _ in taken[0]], [])


def test_a_turn_encodes_fewer_large_registers() -> None:
    turns: list[Callable[[], None]] = []
    writer: CheckpointWriter[int] = CheckpointWriter(
        RecordingStore(), lambda *_: None, turns.append, registers_max=512
    )
    registers = LargeRegisters(2000)
    record = CheckpointRecord(BARE, Ballot(1, 0), (), (), ())
    writer.add_checkpoint(StreamedCheckpoint(0, record, registers), 0)
    while turns:
        turns.pop()()

    assert registers.limits[:4] == [512, 256, 128, 128], "128 KiB are encoded per turn"
    assert registers.taken == 2000
