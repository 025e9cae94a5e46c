"""The benchmarks, in the order of the table."""

from benchmarks import (
    call,
    conflicts,
    counting,
    dots,
    execution,
    fuzzer,
    heal,
    journal,
    live,
    live_tpcc,
    memory,
    order,
    pipeline,
    pipeline_tables,
    replica,
    simulator,
    tpcc,
    tpcc_simulation,
    turns,
    versions,
)
from benchmarks.result import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (
        order,
        replica,
        execution,
        tpcc,
        versions,
        conflicts,
        memory,
        dots,
        heal,
        journal,
        call,
        live,
        live_tpcc,
        counting,
        turns,
        simulator,
        tpcc_simulation,
        fuzzer,
        pipeline,
        pipeline_tables,
    )
}
