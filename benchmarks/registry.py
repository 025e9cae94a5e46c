"""The benchmarks, in the order of the table."""

from benchmarks import (
    bulk_load,
    call,
    changes,
    conflicts,
    dots,
    execution,
    fuzzer,
    heal,
    journal,
    live,
    live_extensions,
    live_sql,
    live_tpcc,
    loop_stalls,
    memory,
    metrics_overhead,
    order,
    pipeline,
    pipeline_check,
    pipeline_scale,
    pipeline_source,
    pipeline_tables,
    replica,
    simulator,
    sql,
    sql_conflicts,
    sql_tpcc,
    tpcc,
    tpcc_simulation,
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
        sql,
        sql_tpcc,
        sql_conflicts,
        versions,
        conflicts,
        memory,
        dots,
        heal,
        journal,
        call,
        bulk_load,
        changes,
        live,
        live_sql,
        live_tpcc,
        metrics_overhead,
        loop_stalls,
        simulator,
        tpcc_simulation,
        fuzzer,
        pipeline,
        pipeline_tables,
        pipeline_source,
    )
}

LONG_BENCHMARKS: dict[str, Benchmark] = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (pipeline_check, pipeline_scale, live_extensions)
}
"""Benchmarks that run only by name, since they take long."""
