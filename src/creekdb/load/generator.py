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
from creekdb.execution.python_runtime import reduced_gc
from creekdb.load.connection import DialFunction, LoadTarget, dial
from creekdb.load.measurement import CpuClock, LoadMeter
from creekdb.load.workload import Workload, WorkloadCall

CONNECTIONS_PER_REPLICA_MAX: Final = 8
"""Connections to one replica."""
IN_FLIGHT_MAX: Final = 1000
"""Of an open loop, on one connection: beyond that, calls are not made, and are counted."""
DRAIN_TIMEOUT_S: Final = 5.0
"""After the end, for what is under way."""
DRAIN_POLL_S: Final = 0.02
"""Between two looks at whether anything is."""
END_POLL_S: Final = 0.1
"""Between two looks at whether it is over, at most."""
OPEN_LOOP_PAUSE_S: Final = 0.001
"""Of an open loop, at least: what is due meanwhile is asked for together."""


class LoadPlan:
    def __init__(
        self,
        addresses: Sequence[str],
        stream: Workload,
        *,
        warm_up_s: float,
        duration_s: float,
        clients: int = 0,
        load: float = 0.0,
        seed: int = 0,
        watch: Callable[[float, LoadMeter], None] = lambda elapsed_s, meter: None,
        during: Callable[[LoadMeter], Awaitable[None]] | None = None,
        cpu: CpuClock | None = None,
        dial: DialFunction = dial,
        elsewhere: bool = False,
    ) -> None:
        """`clients` of a closed loop, or `load` of an open one, calls in a second. `during` is run
        beside it, from the end of the warm-up on. `cpu` runs while it is measured.
        `dial` reaches a server, of Creek unless told otherwise. `elsewhere`: who would ask a
        replica that is away, asks another one meanwhile."""
        self.addresses = addresses
        self.workload = stream
        self.warm_up_s = warm_up_s
        self.duration_s = duration_s
        self.clients = clients
        self.calls_per_s = load
        self.seed = seed
        self.on_progress = watch
        self.background = during
        self.cpu_clock = cpu
        self.dial = dial
        self.has_failover = elsewhere


async def generate_load(plan: LoadPlan) -> LoadMeter:
    begin_ns = perf_counter_ns() + int(plan.warm_up_s * 1e9)
    meter = LoadMeter(begin_ns, begin_ns + int(plan.duration_s * 1e9))
    driven = _OpenLoop(plan, meter) if plan.calls_per_s else _ClosedLoop(plan, meter)
    await driven.connect()
    meter.begin_ns = perf_counter_ns() + int(plan.warm_up_s * 1e9)
    meter.end_ns = meter.begin_ns + int(plan.duration_s * 1e9)
    watching = asyncio.create_task(_report_progress(plan, meter))
    beside = asyncio.create_task(_run_background(plan, meter))
    try:
        with reduced_gc():
            await driven.run()
            await beside
    finally:
        watching.cancel()
        beside.cancel()
        driven.close()
    return meter


async def _report_progress(plan: LoadPlan, meter: LoadMeter) -> None:
    began = perf_counter_ns()
    while True:
        await asyncio.sleep(0.5)
        plan.on_progress((perf_counter_ns() - began) / 1e9, meter)


async def _run_background(plan: LoadPlan, meter: LoadMeter) -> None:
    await asyncio.sleep(plan.warm_up_s)
    if plan.cpu_clock is not None:
        plan.cpu_clock.start()
    ended = asyncio.create_task(_stop_cpu_clock(plan, meter))
    if plan.background is not None:
        await plan.background(meter)
    await ended


async def _stop_cpu_clock(plan: LoadPlan, meter: LoadMeter) -> None:
    await _wait_for_end(meter)
    if plan.cpu_clock is not None:
        plan.cpu_clock.stop()


async def _wait_for_end(meter: LoadMeter) -> None:
    while (left_ns := meter.end_ns - perf_counter_ns()) > 0:
        await asyncio.sleep(min(END_POLL_S, left_ns / 1e9))


class _LoadLoop:
    def __init__(self, plan: LoadPlan, meter: LoadMeter) -> None:
        self._plan = plan
        self._meter = meter
        self._workload = plan.workload
        self._connections: list[LoadTarget] = []
        self._address_indexes: list[int] = []
        """Of each line: the place of its replica among the addresses."""
        self._reconnect_tasks: list[asyncio.Task[None]] = []

    async def _connect(self, lines: int) -> None:
        """Spread evenly over the replicas."""
        for each in range(lines):
            place = each % len(self._plan.addresses)
            self._address_indexes.append(place)
            self._connections.append(await self._dial(place))
            self._reconnect_tasks.append(asyncio.create_task(self._keep_connected(each)))

    async def _dial(self, place: int) -> LoadTarget:
        return await self._plan.dial(self._plan.addresses[place], self._meter, self._on_call_done)

    async def _keep_connected(self, each: int) -> None:
        """Connected, also to a replica that is gone for a while."""
        while True:
            await self._connections[each].closed
            with suppress(UsageError):  # it is away for longer
                self._connections[each] = await self._dial(self._address_indexes[each])
                self._on_reconnected(each)

    def _on_call_done(self, line: LoadTarget, who: int) -> None:
        raise NotImplementedError

    def _on_reconnected(self, each: int) -> None:
        """Again."""

    async def _drain(self) -> None:
        until = perf_counter_ns() + int(DRAIN_TIMEOUT_S * 1e9)
        while any(line.in_flight for line in self._connections) and perf_counter_ns() < until:
            await asyncio.sleep(DRAIN_POLL_S)

    def close(self) -> None:
        for keeper in self._reconnect_tasks:
            keeper.cancel()
        for line in self._connections:
            line.close()


class _ClosedLoop(_LoadLoop):
    _is_finished = False

    async def connect(self) -> None:
        most = CONNECTIONS_PER_REPLICA_MAX * len(self._plan.addresses)
        await self._connect(min(self._plan.clients, most))

    async def run(self) -> None:
        for who in range(self._plan.clients):
            self._call_next(who)
        await _wait_for_end(self._meter)
        self._is_finished = True
        await self._drain()

    def _call_next(self, who: int) -> None:
        self._on_call_done(self._connections[who % len(self._connections)], who)

    def _on_call_done(self, line: LoadTarget, who: int) -> None:
        meter = self._meter
        if not self._is_finished and not line.closed.done():
            meter.calls_sent += 1
            line.call(self._workload(self._address_indexes[who % len(self._address_indexes)]), who)

    def _on_reconnected(self, each: int) -> None:
        for who in range(each, self._plan.clients, len(self._connections)):
            self._call_next(who)


class _OpenLoop(_LoadLoop):
    async def connect(self) -> None:
        await self._connect(CONNECTIONS_PER_REPLICA_MAX * len(self._plan.addresses))

    async def run(self) -> None:
        random = Random(f"arrivals {self._plan.seed}")
        meter, rate = self._meter, self._plan.calls_per_s / 1e9
        due_ns = float(perf_counter_ns())
        who = 0
        asked = self._next_call(who)
        while (now_ns := perf_counter_ns()) < meter.end_ns:
            if due_ns <= now_ns:
                self._call(who, asked, now_ns, int(due_ns))
                await asyncio.sleep(0)  # it leaves before the next one is made up
                due_ns += random.expovariate(rate)
                who += 1
                asked = self._next_call(who)
            else:
                await asyncio.sleep(
                    min(END_POLL_S, max(OPEN_LOOP_PAUSE_S, (due_ns - now_ns) / 1e9))
                )
        await self._drain()

    def _next_call(self, who: int) -> WorkloadCall:
        return self._workload(self._address_indexes[who % len(self._connections)])

    def _call(self, who: int, asked: WorkloadCall, now_ns: int, due_ns: int) -> None:
        each = who % len(self._connections)
        line, meter = self._select_connection(each), self._meter
        if line.closed.done():
            meter.record_failure("not connected", now_ns)
        elif line.in_flight >= IN_FLIGHT_MAX:
            meter.record_failure("not called: too many under way", now_ns)
        else:
            meter.calls_sent += 1
            if now_ns >= meter.begin_ns:
                meter.send_delays_ns.append(now_ns - due_ns)
            line.call(asked, who)

    def _select_connection(self, each: int) -> LoadTarget:
        """The one that is asked in turn, or the next one that is open, if that will do."""
        line = self._connections[each]
        if not self._plan.has_failover or not line.closed.done():
            return line
        turned = (*self._connections[each:], *self._connections[:each])
        return next((other for other in turned if not other.closed.done()), line)

    def _on_call_done(self, line: LoadTarget, who: int) -> None:
        pass
