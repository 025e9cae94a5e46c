"""Order of tasks on a live replica when a request arrives late."""

import asyncio

from creekdb.datatypes.kv import KV
from creekdb.protocol.effects import Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica
from creekdb.server.runtime.config import INLINE_TASKS_MAX
from creekdb.server.runtime.driver import Driver, DriverPorts
from creekdb.server.runtime.executors import InlineExecutor, Watchdog
from creekdb.wire.event_log import EventLog
from tests.unit.server.runtime.test_driver import FakeJournal


async def test_late_request_is_executed_before_later_ones_that_already_wait() -> None:
    """Otherwise the later requests would be executed twice."""
    submitted: list[Dot] = []

    def record_tasks(tasks: tuple[Task, ...]) -> None:
        submitted.extend(task.request.id for task in tasks)

    settings = Settings(members=(0, 1), parallelism=INLINE_TASKS_MAX)
    replica = CreekReplica(0, settings, KV)
    driver = Driver(
        replica,
        FakeJournal(),
        InlineExecutor(Watchdog(1.0, EventLog(0)), _raise),
        DriverPorts(
            send=lambda _, message: None,
            send_snapshot=lambda snapshot: None,
            compare=lambda _: None,
            on_data_lost=lambda lost: None,
            on_internal_error=_raise,
        ),
    )
    driver.observe_tasks(record_tasks)
    driver.recover(())
    for number in range(3):
        driver.invoke(put(number), False, number)
    driver.apply_effects()
    driver.receive(Cast((Request(1, Dot(1, 1), put(9), strong=False),)), 1)
    while not replica.view.is_idle():
        await asyncio.sleep(0)
    assert driver.executor.executions == 4, "each request is executed once"
    assert submitted == [Dot(0, 1), Dot(1, 1), Dot(0, 2), Dot(0, 3)]


def put(value: int) -> Operation:
    return Operation("put", (f"key {value}", value))


def _raise(error: Exception) -> None:
    raise error
