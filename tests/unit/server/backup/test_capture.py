"""Capture of the committed state: it waits until the state is durable."""

import asyncio
from contextlib import nullcontext
from typing import Any, cast

import msgspec

from creekdb.errors import DiskFull, StorageFault
from creekdb.protocol.checkpoint.stream import LazyCheckpoint, lazy_checkpoint_of
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Checkpoint
from creekdb.server.backup.capture import capture_state
from creekdb.server.backup.sessions import CapturedState
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.driver import Driver
from creekdb.server.storage.journal import Journal


class FakeJournal:
    """Journal whose durable position the test sets."""

    def __init__(self) -> None:
        self.end_position = self.durable_position = 0
        self.fault: StorageFault | None = None

    def request_sync(self) -> None:
        pass


class FakeDriver:
    """Driver of a replica whose last effects have not reached the journal."""

    def __init__(self, journal: FakeJournal) -> None:
        self._journal = journal
        self.replica: Any = self
        self.view: Any = self
        self.executor: Any = self
        self.lock = nullcontext()

    def apply_effects(self) -> None:
        self._journal.end_position = 1

    def lazy_checkpoint(self) -> LazyCheckpoint:
        return lazy_checkpoint_of(Checkpoint(1, 1, Dots({0: (1, 2)}), 1, (("a", 1),), ()))

    def awaited_members(self) -> None:
        return None

    def configuration(self) -> Configuration:
        return Configuration(0, ((0, ""),))


async def capture(journal: FakeJournal) -> CapturedState:
    config = msgspec.convert({"members": {0: "127.0.0.1:0"}}, ServerConfig)
    driver = cast(Driver, FakeDriver(journal))
    return await capture_state(config, "kv", driver, cast(Journal, journal), 5.0, False)


async def test_captured_state_is_returned_once_it_is_durable() -> None:
    journal = FakeJournal()
    captured = asyncio.ensure_future(capture(journal))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not captured.done()
    journal.durable_position = journal.end_position
    assert (await captured).header.length == 1


async def test_capture_does_not_wait_for_a_failed_disk() -> None:
    journal = FakeJournal()
    journal.fault = DiskFull("no space left")
    assert (await capture(journal)).header.length == 1
