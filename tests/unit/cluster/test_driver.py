"""What the driver of a replica lets leave, and when."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from creek.cluster.driver import Driver
from creek.cluster.execution import Inline
from creek.cluster.logs import EventLog
from creek.cluster.watchdog import Watchdog
from creek.errors import StorageFault
from creek.protocol.dots import Dot
from creek.protocol.effects import Effects, Kind, Response
from creek.protocol.messages import Record
from creek.protocol.request import Outcome
from creek.schemes.contract import Replica

WEAK = Dot(0, 1)


class Disk:
    """Durable when a test says so."""

    def __init__(self) -> None:
        self.durable = 0
        self.failed: StorageFault | None = None
        self._end = 0

    def append(self, records: Sequence[Record]) -> int:
        self._end += len(records)
        return self._end


class Scripted:
    """A replica whose effects are given."""

    def __init__(self, *effects: Effects) -> None:
        self._effects = list(effects)

    def take_effects(self) -> Effects:
        return self._effects.pop(0)


def answer(kind: Kind) -> Response:
    return Response(WEAK, 7, kind, Outcome(None))


def test_no_answer_overtakes_one_that_the_disk_has_just_let_go() -> None:
    left: list[Kind] = []
    disk = Disk()
    record = cast(Record, object())

    async def story() -> None:
        replica = Scripted(
            Effects(persist=(record,), respond=(answer(Kind.TENTATIVE),)),
            Effects(respond=(answer(Kind.FINAL),)),
        )
        driver = Driver(
            cast(Replica, replica),
            disk,
            Inline(Watchdog(1.0, EventLog(0))),
            send=lambda *_: None,
            respond=lambda response: left.append(response.kind),
            observe=lambda _: None,
            compare=lambda _: None,
            broke=_raise,
        )
        driver.carry_out()
        assert left == [], "it waits for the disk"
        disk.durable = 1  # as another thread finds out, before it says so
        driver.carry_out()
        driver.release()

    asyncio.run(story())
    assert left == [Kind.TENTATIVE, Kind.FINAL]


def _raise(error: Exception) -> Any:
    raise error
