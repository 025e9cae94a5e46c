"""Cost of the metrics of a call, relative to the call.

The call is a cheap one: a weak increment in a cluster of one replica, without network and disk.
Relative to any other call the cost is lower.
"""

import time
from collections.abc import Iterator
from functools import partial

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import Timed, cheapest
from creekdb.datatypes.kv import KV
from creekdb.protocol.effects import ResponseKind, Task
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.server.observability.latency import CallLatencies
from creekdb.wire.deduplication import wrap_call

BAR = 0.05


def _record_metrics(calls: int) -> Timed:
    latencies = CallLatencies()

    def run() -> None:
        for _ in range(calls):
            started_s = time.perf_counter()
            latencies.record(False, ResponseKind.TENTATIVE, time.perf_counter() - started_s)
            latencies.record(False, ResponseKind.FINAL, time.perf_counter() - started_s)

    return Timed(calls, run)


def _run_calls(calls: int) -> Timed:
    replica = CreekReplica(0, Settings(members=(0,)), DeduplicatingDataType(KV))
    operations = [
        wrap_call("client", number, KV.call("increment", f"key {number % 100}"))
        for number in range(calls)
    ]

    def run() -> None:
        tasks: list[Task] = []
        for now, operation in enumerate(operations):
            replica.invoke(operation, False, 1, now)
            tasks += replica.take_effects().tasks
            while tasks:
                task = tasks.pop()
                replica.completed(task, replica.run(task), now)
                tasks += replica.take_effects().tasks

    return Timed(calls, run)


def measure(scale: Scale) -> Iterator[Result]:
    metrics_ns, call_ns = cheapest(
        [partial(_record_metrics, scale.timed), partial(_run_calls, scale.timed)],
        scale.repeats,
        lambda best: best[0] / best[1] <= BAR,
    )
    yield Result(
        what="metrics of a call",
        explanation=f"The latencies of a call cost {metrics_ns / 1000:.1f} µs, as a share of a "
        "cheap weak call at one replica without network and disk.",
        value=metrics_ns / call_ns,
        bar=BAR,
    )


BENCHMARK = Benchmark("counting", 1, measure)
