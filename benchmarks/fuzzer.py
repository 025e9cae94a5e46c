"""How fast the fuzzer goes: seeds with faults, each simulated and judged by every checker."""

from collections.abc import Iterator

from benchmarks.measuring import Stopwatch, without_collector
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.simulator import simulate
from creekdb.checkers import check_all
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed


def measure(scale: Scale) -> Iterator[Result]:
    simulating, checking = Stopwatch(), Stopwatch()
    events = 0
    for seed in range(scale.seeds):
        scenario = scenario_from_seed(seed)
        with without_collector():
            with simulating.running():
                run = simulate(scenario)
            with checking.running():
                check_all(run.history)
        events += run.events
    total = simulating.ns + checking.ns
    yield Result(
        what="fuzzer: seeds",
        explanation="How many seeds one processor simulates and checks in a second.",
        value=scale.seeds / total * 1e9,
        unit="/s",
    )
    yield Result(
        what="fuzzer: events",
        explanation="How many events of those runs one processor simulates in a second.",
        value=events / simulating.ns * 1e9,
        unit="/s",
    )
    yield Result(
        what="fuzzer: share of the checkers",
        explanation="How much of the fuzzer's time is spent in checking what was simulated.",
        value=100 * checking.ns / total,
        unit="%",
    )


BENCHMARK = Benchmark("fuzzer", 3, measure)
