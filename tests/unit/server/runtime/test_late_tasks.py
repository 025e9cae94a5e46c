"""Which task a live replica runs next, when a request comes late."""

import asyncio

from creekdb.datatypes.kv import KV
from creekdb.protocol.effects import Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.executors import InlineExecutor, Watchdog
from creekdb.server.runtime.startup import INLINE_TASKS_MAX
from creekdb.wire.event_log import EventLog
from tests.unit.server.runtime.test_driver import Disk


def test_one_that_came_late_is_executed_before_those_that_wait_already() -> None:
    """Those after it would have been executed in vain."""
    ran: list[Dot] = []

    async def story() -> None:
        settings = Settings(members=(0, 1), parallelism=INLINE_TASKS_MAX)
        replica = CreekReplica(0, settings, KV)
        driver = Driver(
            replica,
            Disk(),
            InlineExecutor(Watchdog(1.0, EventLog(0)), _raise),
            send=lambda _, message: None,
            send_snapshot=lambda drawn: None,
            respond=lambda responses: None,
            observe=lambda _: None,
            compare=lambda _: None,
            broke=_raise,
        )
        driver.task_observer = noted
        driver.recover(())
        for number in range(3):
            driver.invoke(put(number), False, number)
        driver.apply_effects()
        driver.receive(Cast((Request(1, Dot(1, 1), put(9), strong=False),)), 1)
        while not replica.is_idle():
            await asyncio.sleep(0)
        assert driver.executions == 4, "each once"

    def noted(tasks: tuple[Task, ...]) -> None:
        ran.extend(task.request.id for task in tasks)

    asyncio.run(story())
    assert ran == [Dot(0, 1), Dot(1, 1), Dot(0, 2), Dot(0, 3)]


def put(value: int) -> Operation:
    return Operation("put", (f"key {value}", value))


def _raise(error: Exception) -> None:
    raise error
