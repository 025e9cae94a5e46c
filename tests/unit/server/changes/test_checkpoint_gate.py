"""A checkpoint is written after the changes before it are durable."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from creekdb.driver.checkpoint_writer import CheckpointStore
from creekdb.server.changes.checkpoint_gate import CheckpointGate
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.changes.log import ChangeLog
from creekdb.server.changes.retention import Retention
from creekdb.server.storage.segment_writer import CheckpointSlot
from tests.unit.server.changes.reported import ManualTurns, change_at


class FakeStore:
    def __init__(self) -> None:
        self.written: list[CheckpointSlot] = []

    def reserve_checkpoint(self) -> CheckpointSlot:
        return CheckpointSlot(0)

    def write_checkpoint(
        self, slot: CheckpointSlot, chunks: Iterable[bytes], on_done: Callable[[], None]
    ) -> None:
        self.written.append(slot)
        on_done()


class GateFixture:
    def __init__(self, path: Path) -> None:
        self.turns, self.store = ManualTurns(), FakeStore()
        log = ChangeLog(path, Retention(3600.0))
        log.open()
        self.feed = ChangeFeed(log, self.turns.ports())
        self.steps: list[str] = []
        self.gate = CheckpointGate(
            cast(CheckpointStore[CheckpointSlot], self.store), self.feed, self.run_blocking
        )

    def run_blocking(self, work: Callable[[], None], on_done: Callable[[], None]) -> None:
        work()
        self.steps.append("synced")
        on_done()

    def write(self) -> None:
        slot: Any = self.gate.reserve_checkpoint()
        self.gate.write_checkpoint(slot, [b""], lambda: self.steps.append("written"))


def test_a_checkpoint_waits_for_the_reported_changes(tmp_path: Path) -> None:
    fixture = GateFixture(tmp_path)
    fixture.feed.record((change_at(1), change_at(2)), 5)
    fixture.write()
    assert fixture.store.written == []
    fixture.feed.release(5)
    fixture.turns.run()

    assert fixture.steps == ["synced", "written"]


def test_a_checkpoint_without_pending_changes_is_written_after_a_sync(tmp_path: Path) -> None:
    fixture = GateFixture(tmp_path)
    fixture.write()

    assert fixture.steps == ["synced", "written"]
