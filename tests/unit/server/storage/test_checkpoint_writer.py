"""Drawing in turns: how much of a state one turn of the loop handles, and what is left out."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import nullcontext
from typing import Any

from creekdb.protocol.checkpoint.stream import RegisterCursor, StreamedCheckpoint, StreamedSnapshot
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Ballot, Checkpoint, CheckpointRecord, Snapshot, decode_record
from creekdb.protocol.values import Key
from creekdb.server.storage.checkpoint_writer import REGISTERS_PER_TURN_MAX, CheckpointWriter
from creekdb.server.storage.segment_writer import CheckpointSlot

LARGE = 100_000
BARE = Checkpoint(1, 0, Dots(), 0, (), ())


class Counted:
    """Registers, and how many of them were taken between two beats."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._left = count
        self.taken = 0
        self.is_closed = False

    def take(self, most: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        if not self._left:
            return None
        some = min(most, self._left)
        self._left -= some
        self.taken += some
        return [(self._left + each, each) for each in range(some)], []

    def close(self) -> None:
        self.is_closed = True


class Album:
    def __init__(self) -> None:
        self.images: list[tuple[int, bytes]] = []
        self.over: Callable[[], None] = lambda: None

    def write_checkpoint(
        self, room: CheckpointSlot, pieces: Iterable[bytes], over: Callable[[], None]
    ) -> None:
        self.images.append((room.position, b"".join(pieces)))
        self.over = over


class Stage:
    def __init__(self) -> None:
        self.album = Album()
        self.left: list[tuple[int, int]] = []
        self.drawings = CheckpointWriter(
            self.album, nullcontext(), lambda at, drawn: self.left.append((at, drawn.to))
        )

    def image(self, registers: RegisterCursor, at: int) -> None:
        draft = StreamedCheckpoint(0, CheckpointRecord(BARE, Ballot(0, 0), (), (), ()), registers)
        self.drawings.add_checkpoint(draft, CheckpointSlot(at))

    def snapshot(self, registers: RegisterCursor, to: int, position: int = 0) -> None:
        self.drawings.add_snapshot(StreamedSnapshot(to, Snapshot(BARE), registers), position)


def play(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        await story(Stage())

    asyncio.run(whole())


async def rest() -> None:
    """More turns than any drawing here has."""
    for _ in range(LARGE // REGISTERS_PER_TURN_MAX + 20):
        await asyncio.sleep(0)


def test_a_turn_of_the_loop_handles_few_registers_however_many_there_are() -> None:
    async def story(stage: Stage) -> None:
        registers = Counted(LARGE)
        stage.image(registers, 0)
        assert registers.taken == 0
        most, turns = 0, 0
        while not stage.album.images:
            before = registers.taken
            await asyncio.sleep(0)  # whatever else there is to do
            most, turns = max(most, registers.taken - before), turns + 1
        assert most <= REGISTERS_PER_TURN_MAX
        assert turns >= LARGE // REGISTERS_PER_TURN_MAX
        image = decode_record(stage.album.images[0][1])
        assert isinstance(image, CheckpointRecord)
        assert len(image.checkpoint.state) == LARGE

    play(story)


def test_of_images_that_wait_only_the_last_is_drawn() -> None:
    async def story(stage: Stage) -> None:
        first, second, third = Counted(1000), Counted(1000), Counted(1000)
        for at, registers in enumerate((first, second, third)):
            stage.image(registers, at)
        await rest()
        assert [at for at, _ in stage.album.images] == [0]
        assert second.is_closed
        assert third.taken == 0, "one at a time is written"
        stage.album.over()
        await rest()
        assert [at for at, _ in stage.album.images] == [0, 2]
        assert second.taken == 0

    play(story)


def test_snapshots_leave_for_each_replica_that_asked_and_once() -> None:
    async def story(stage: Stage) -> None:
        stage.image(Counted(1000), 0)
        stage.snapshot(Counted(10), 1, position=5)
        stage.snapshot(Counted(10), 2, position=6)
        stage.snapshot(Counted(10), 1, position=7)
        await rest()
        assert stage.left == [(6, 2), (7, 1)]

    play(story)


def test_nothing_is_drawn_any_more_after_a_halt() -> None:
    async def story(stage: Stage) -> None:
        registers = Counted(LARGE)
        stage.image(registers, 0)
        await asyncio.sleep(0)
        stage.drawings.halt()
        taken = registers.taken
        await rest()
        assert registers.taken == taken
        assert registers.is_closed
        assert not stage.album.images

    play(story)
