"""The benchmarks, in the order of the table."""

from benchmarks import dots, execution, fuzzer, heal, order, replica, simulator
from benchmarks.result import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (order, replica, execution, dots, heal, simulator, fuzzer)
}
