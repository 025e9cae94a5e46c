"""When a copy of what a replica has committed may leave it."""

import asyncio
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
from creekdb.server.runtime.executors import NoLock
from creekdb.server.storage.journal import Journal


class Disk:
    """Durable when a test says so."""

    def __init__(self) -> None:
        self.end = self.durable = 0
        self.failed: StorageFault | None = None

    def hurry(self) -> None:
        pass


class Driven:
    """A replica that has done something which is not with its journal yet."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.replica: Any = self
        self.executor: Any = self
        self.gate = NoLock()

    def carry_out(self) -> None:
        self._disk.end = 1

    def draft(self) -> LazyCheckpoint:
        return lazy_checkpoint_of(Checkpoint(1, 1, Dots({0: (1, 2)}), 1, (("a", 1),), ()))

    def waits_for(self) -> None:
        return None

    def configuration(self) -> Configuration:
        return Configuration(0, ((0, ""),))


async def taken(disk: Disk) -> CapturedState:
    config = msgspec.convert({"members": {0: "127.0.0.1:0"}}, ServerConfig)
    driver, journal = cast(Driver, Driven(disk)), cast(Journal, disk)
    return await capture_state(config, "kv", driver, journal, operations=False)


def test_a_copy_leaves_when_what_it_holds_is_on_disk() -> None:
    async def story() -> None:
        disk = Disk()
        copy = asyncio.ensure_future(taken(disk))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not copy.done()
        disk.durable = disk.end
        assert (await copy).head.length == 1

    asyncio.run(story())


def test_a_disk_that_has_failed_is_not_waited_for() -> None:
    disk = Disk()
    disk.failed = DiskFull("no space left")
    assert asyncio.run(taken(disk)).head.length == 1
