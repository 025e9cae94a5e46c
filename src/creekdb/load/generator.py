"""Who asks: so many clients that wait for their answers, or so many calls in a second.

In a *closed* loop each client asks again when it has its answer: what comes out is how much the
cluster can do. In an *open* loop calls are made at their time, whatever became of those before:
what comes out is what it is like to use it under that load. Then latency counts from when the call
was made; how late it was made, for want of time, is told beside it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from time import perf_counter_ns
from typing import Final

from creekdb.errors import UsageError
from creekdb.execution.python_runtime import seldom_collecting
from creekdb.load.connection import Asker, Dial, dial
from creekdb.load.measurement import CpuClock, Meter
from creekdb.load.workload import Asked, Stream

LINES_MAX: Final = 8
"""Connections to one replica."""
UNDER_WAY_MAX: Final = 1000
"""Of an open loop, on one connection: beyond that, calls are not made, and are counted."""
SETTLE_S: Final = 5.0
"""After the end, for what is under way."""
SETTLED_S: Final = 0.02
"""Between two looks at whether anything is."""
BEAT_S: Final = 0.1
"""Between two looks at whether it is over, at most."""
PAUSE_S: Final = 0.001
"""Of an open loop, at least: what is due meanwhile is asked for together."""


class Plan:
    def __init__(
        self,
        addresses: Sequence[str],
        stream: Stream,
        *,
        warm_up_s: float,
        duration_s: float,
        clients: int = 0,
        load: float = 0.0,
        seed: int = 0,
        watch: Callable[[float, Meter], None] = lambda elapsed_s, meter: None,
        during: Callable[[Meter], Awaitable[None]] | None = None,
        cpu: CpuClock | None = None,
        dial: Dial = dial,
        elsewhere: bool = False,
    ) -> None:
        """`clients` of a closed loop, or `load` of an open one, calls in a second. `during` is run
        beside it, from the end of the warm-up on. `cpu` runs while it is measured.
        `dial` reaches a server, of Creek unless told otherwise. `elsewhere`: who would ask a
        replica that is away, asks another one meanwhile."""
        self.addresses = addresses
        self.stream = stream
        self.warm_up_s = warm_up_s
        self.duration_s = duration_s
        self.clients = clients
        self.load = load
        self.seed = seed
        self.watch = watch
        self.during = during
        self.cpu = cpu
        self.dial = dial
        self.elsewhere = elsewhere


async def drive(plan: Plan) -> Meter:
    begin_ns = perf_counter_ns() + int(plan.warm_up_s * 1e9)
    meter = Meter(begin_ns, begin_ns + int(plan.duration_s * 1e9))
    driven = _Open(plan, meter) if plan.load else _Closed(plan, meter)
    await driven.connect()
    meter.begin_ns = perf_counter_ns() + int(plan.warm_up_s * 1e9)
    meter.end_ns = meter.begin_ns + int(plan.duration_s * 1e9)
    watching = asyncio.create_task(_watched(plan, meter))
    beside = asyncio.create_task(_beside(plan, meter))
    try:
        with seldom_collecting():
            await driven.run()
            await beside
    finally:
        watching.cancel()
        beside.cancel()
        driven.close()
    return meter


async def _watched(plan: Plan, meter: Meter) -> None:
    began = perf_counter_ns()
    while True:
        await asyncio.sleep(0.5)
        plan.watch((perf_counter_ns() - began) / 1e9, meter)


async def _beside(plan: Plan, meter: Meter) -> None:
    await asyncio.sleep(plan.warm_up_s)
    if plan.cpu is not None:
        plan.cpu.begin()
    ended = asyncio.create_task(_ended(plan, meter))
    if plan.during is not None:
        await plan.during(meter)
    await ended


async def _ended(plan: Plan, meter: Meter) -> None:
    await _until_over(meter)
    if plan.cpu is not None:
        plan.cpu.end()


async def _until_over(meter: Meter) -> None:
    while (left_ns := meter.end_ns - perf_counter_ns()) > 0:
        await asyncio.sleep(min(BEAT_S, left_ns / 1e9))


class _Loop:
    def __init__(self, plan: Plan, meter: Meter) -> None:
        self._plan = plan
        self._meter = meter
        self._stream = plan.stream
        self._lines: list[Asker] = []
        self._places: list[int] = []
        """Of each line: the place of its replica among the addresses."""
        self._keepers: list[asyncio.Task[None]] = []

    async def _connect(self, lines: int) -> None:
        """Spread evenly over the replicas."""
        for each in range(lines):
            place = each % len(self._plan.addresses)
            self._places.append(place)
            self._lines.append(await self._dial(place))
            self._keepers.append(asyncio.create_task(self._keep(each)))

    async def _dial(self, place: int) -> Asker:
        return await self._plan.dial(self._plan.addresses[place], self._meter, self._done)

    async def _keep(self, each: int) -> None:
        """Connected, also to a replica that is gone for a while."""
        while True:
            await self._lines[each].closed
            with suppress(UsageError):  # it is away for longer
                self._lines[each] = await self._dial(self._places[each])
                self._connected(each)

    def _done(self, line: Asker, who: int) -> None:
        raise NotImplementedError

    def _connected(self, each: int) -> None:
        """Again."""

    async def _settled(self) -> None:
        until = perf_counter_ns() + int(SETTLE_S * 1e9)
        while any(line.under_way for line in self._lines) and perf_counter_ns() < until:
            await asyncio.sleep(SETTLED_S)

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        for line in self._lines:
            line.close()


class _Closed(_Loop):
    _is_over = False

    async def connect(self) -> None:
        most = LINES_MAX * len(self._plan.addresses)
        await self._connect(min(self._plan.clients, most))

    async def run(self) -> None:
        for who in range(self._plan.clients):
            self._ask(who)
        await _until_over(self._meter)
        self._is_over = True
        await self._settled()

    def _ask(self, who: int) -> None:
        self._done(self._lines[who % len(self._lines)], who)

    def _done(self, line: Asker, who: int) -> None:
        meter = self._meter
        if not self._is_over and not line.closed.done():
            meter.asked += 1
            line.ask(self._stream(self._places[who % len(self._places)]), who)

    def _connected(self, each: int) -> None:
        for who in range(each, self._plan.clients, len(self._lines)):
            self._ask(who)


class _Open(_Loop):
    async def connect(self) -> None:
        await self._connect(LINES_MAX * len(self._plan.addresses))

    async def run(self) -> None:
        random = Random(f"arrivals {self._plan.seed}")
        meter, rate = self._meter, self._plan.load / 1e9
        due_ns = float(perf_counter_ns())
        who = 0
        asked = self._next(who)
        while (now_ns := perf_counter_ns()) < meter.end_ns:
            if due_ns <= now_ns:
                self._call(who, asked, now_ns, int(due_ns))
                await asyncio.sleep(0)  # it leaves before the next one is made up
                due_ns += random.expovariate(rate)
                who += 1
                asked = self._next(who)
            else:
                await asyncio.sleep(min(BEAT_S, max(PAUSE_S, (due_ns - now_ns) / 1e9)))
        await self._settled()

    def _next(self, who: int) -> Asked:
        return self._stream(self._places[who % len(self._lines)])

    def _call(self, who: int, asked: Asked, now_ns: int, due_ns: int) -> None:
        each = who % len(self._lines)
        line, meter = self._line(each), self._meter
        if line.closed.done():
            meter.failed("not connected", now_ns)
        elif line.under_way >= UNDER_WAY_MAX:
            meter.failed("not called: too many under way", now_ns)
        else:
            meter.asked += 1
            if now_ns >= meter.begin_ns:
                meter.late_ns.append(now_ns - due_ns)
            line.ask(asked, who)

    def _line(self, each: int) -> Asker:
        """The one that is asked in turn, or the next one that is open, if that will do."""
        line = self._lines[each]
        if not self._plan.elsewhere or not line.closed.done():
            return line
        turned = (*self._lines[each:], *self._lines[:each])
        return next((other for other in turned if not other.closed.done()), line)

    def _done(self, line: Asker, who: int) -> None:
        pass
