"""Load generator with a closed or an open loop.

In a *closed* loop, each client sends its next call when it has its response. The result is the
capacity of the cluster. In an *open* loop, calls are sent at scheduled times, independent of
earlier responses. The result is the latency under that load. It counts from the time when the call
was sent; the delay behind the schedule is reported separately.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from time import perf_counter_ns
from typing import Final, NamedTuple

from creekdb.client.errors import NotDone
from creekdb.errors import UsageError
from creekdb.execution.python_runtime import reduced_gc
from creekdb.load.connection import DialFunction, LoadTarget, ReplicaDialer
from creekdb.load.measurement import CpuClock, LoadMeter
from creekdb.load.workload import Workload, WorkloadCall

CONNECTIONS_PER_REPLICA_MAX: Final = 8
IN_FLIGHT_MAX: Final = 1000
"""Upper bound for the calls in flight on one connection of an open loop. Further calls are not
sent, and count as failures."""
DRAIN_TIMEOUT_S: Final = 5.0
"""Time to wait for calls in flight after the end."""
DRAIN_POLL_S: Final = 0.02
"""Interval of the check for calls in flight."""
END_POLL_S: Final = 0.1
"""Longest interval of the check for the end."""
OPEN_LOOP_PAUSE_S: Final = 0.001
"""Shortest pause of an open loop. Calls that fall due during a pause are sent together."""


class LoadPlan(NamedTuple):
    """Parameters of one load."""

    addresses: Sequence[str]
    workload: Workload
    warm_up_s: float
    duration_s: float
    clients: int = 0
    """Number of clients of a closed loop."""
    calls_per_s: float = 0.0
    """Rate of an open loop, which replaces the closed one if it is not 0."""
    seed: int = 0
    on_progress: Callable[[float, LoadMeter], None] = lambda elapsed_s, meter: None
    """Called regularly with the elapsed time, in seconds, and the meter."""
    background: Callable[[LoadMeter], Awaitable[None]] | None = None
    """Runs concurrently, from the end of the warm-up."""
    cpu_clock: CpuClock | None = None
    """Runs during the measurement."""
    dial: DialFunction = ReplicaDialer()
    """Connects to a server; the default is for Creek."""
    has_failover: bool = False
    """True if calls of an open loop for an unconnected replica go to another one."""


async def generate_load(plan: LoadPlan) -> LoadMeter:
    """Run a load and return its measurements."""
    meter = LoadMeter(0, 0)
    load_loop = _OpenLoop(plan, meter) if plan.calls_per_s else _ClosedLoop(plan, meter)
    connections_max = CONNECTIONS_PER_REPLICA_MAX * len(plan.addresses)
    clients = connections_max if plan.calls_per_s else plan.clients
    await load_loop.connect(min(clients, connections_max))
    meter.begin_ns = perf_counter_ns() + int(plan.warm_up_s * 1e9)
    meter.end_ns = meter.begin_ns + int(plan.duration_s * 1e9)
    progress = asyncio.create_task(_report_progress(plan, meter))
    background = asyncio.create_task(_run_background(plan, meter))
    try:
        with reduced_gc():
            await load_loop.run()
            await background
    finally:
        progress.cancel()
        background.cancel()
        load_loop.close()
    return meter


async def _report_progress(plan: LoadPlan, meter: LoadMeter) -> None:
    start_ns = perf_counter_ns()
    while True:
        await asyncio.sleep(0.5)
        plan.on_progress((perf_counter_ns() - start_ns) / 1e9, meter)


async def _run_background(plan: LoadPlan, meter: LoadMeter) -> None:
    await asyncio.sleep(plan.warm_up_s)
    clock_stopped = asyncio.create_task(_run_cpu_clock(plan.cpu_clock, meter))
    if plan.background is not None:
        await plan.background(meter)
    await clock_stopped


async def _run_cpu_clock(clock: CpuClock | None, meter: LoadMeter) -> None:
    if clock is not None:
        clock.start()
        await _wait_for_end(meter)
        clock.stop()


async def _wait_for_end(meter: LoadMeter) -> None:
    while (remaining_ns := meter.end_ns - perf_counter_ns()) > 0:
        await asyncio.sleep(min(END_POLL_S, remaining_ns / 1e9))


class _LoadLoop:
    """Connections of a load, reconnected when they close."""

    def __init__(self, plan: LoadPlan, meter: LoadMeter) -> None:
        self._plan = plan
        self._meter = meter
        self._workload = plan.workload
        self._connections: list[LoadTarget] = []
        self._reconnect_tasks: list[asyncio.Task[None]] = []

    async def connect(self, count: int) -> None:
        """Open `count` connections, distributed evenly over the replicas."""
        for index in range(count):
            self._connections.append(await self._dial(index))
            self._reconnect_tasks.append(asyncio.create_task(self._keep_connected(index)))

    def _next_call(self, client: int) -> WorkloadCall:
        """Return the next call for the replica of this client's connection."""
        return self._workload(client % len(self._connections) % len(self._plan.addresses))

    async def _dial(self, index: int) -> LoadTarget:
        address = self._plan.addresses[index % len(self._plan.addresses)]
        return await self._plan.dial(address, self._meter, self._on_call_done)

    async def _keep_connected(self, index: int) -> None:
        """Reconnect whenever the connection closes, also to a replica that is down for a while."""
        while True:
            await self._connections[index].closed
            with suppress(NotDone, UsageError):  # the replica is still down
                self._connections[index] = await self._dial(index)
                self._on_reconnected(index)

    def _on_call_done(self, connection: LoadTarget, client: int) -> None:
        """Handle the response or the failure of a call."""

    def _on_reconnected(self, index: int) -> None:
        """Handle a new connection in place of a closed one."""

    async def _drain(self) -> None:
        deadline_ns = perf_counter_ns() + int(DRAIN_TIMEOUT_S * 1e9)
        while (
            any(connection.in_flight for connection in self._connections)
            and perf_counter_ns() < deadline_ns
        ):
            await asyncio.sleep(DRAIN_POLL_S)

    def close(self) -> None:
        for task in self._reconnect_tasks:
            task.cancel()
        for connection in self._connections:
            connection.close()


class _ClosedLoop(_LoadLoop):
    _is_finished = False

    async def run(self) -> None:
        for client in range(self._plan.clients):
            self._call_next(client)
        await _wait_for_end(self._meter)
        self._is_finished = True
        await self._drain()

    def _call_next(self, client: int) -> None:
        self._on_call_done(self._connections[client % len(self._connections)], client)

    def _on_call_done(self, connection: LoadTarget, client: int) -> None:
        if not self._is_finished and not connection.closed.done():
            connection.call(self._next_call(client), client)

    def _on_reconnected(self, index: int) -> None:
        for client in range(index, self._plan.clients, len(self._connections)):
            self._call_next(client)


class _OpenLoop(_LoadLoop):
    async def run(self) -> None:
        random = Random(f"arrivals {self._plan.seed}")
        meter, rate = self._meter, self._plan.calls_per_s / 1e9
        due_ns = float(perf_counter_ns())
        client = 0
        call = self._next_call(client)
        while (now_ns := perf_counter_ns()) < meter.end_ns:
            if due_ns <= now_ns:
                self._call(client, call, now_ns, int(due_ns))
                await asyncio.sleep(0)  # send the call before the next one is generated
                due_ns += random.expovariate(rate)
                client += 1
                call = self._next_call(client)
            else:
                await asyncio.sleep(
                    min(END_POLL_S, max(OPEN_LOOP_PAUSE_S, (due_ns - now_ns) / 1e9))
                )
        await self._drain()

    def _call(self, client: int, call: WorkloadCall, now_ns: int, due_ns: int) -> None:
        connection = self._select_connection(client % len(self._connections))
        meter = self._meter
        if connection.closed.done():
            meter.record_failure("not connected", now_ns)
        elif connection.in_flight >= IN_FLIGHT_MAX:
            meter.record_failure("not called: too many under way", now_ns)
        else:
            if now_ns >= meter.begin_ns:
                meter.send_delays_ns.append(now_ns - due_ns)
            connection.call(call, client)

    def _select_connection(self, index: int) -> LoadTarget:
        """Return the connection at `index`, or with failover the next open one."""
        connection = self._connections[index]
        if not self._plan.has_failover or not connection.closed.done():
            return connection
        rotated = (*self._connections[index:], *self._connections[:index])
        return next((other for other in rotated if not other.closed.done()), connection)
