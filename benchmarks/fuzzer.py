"""Speed of the fuzzer: seeds with faults, each simulated and verified by every checker."""

from collections.abc import Iterator

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.simulator import simulate
from benchmarks.timing import Stopwatch, without_collector
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
        explanation="Seeds that one processor simulates and checks per second.",
        value=scale.seeds / total * 1e9,
        unit="/s",
    )
    yield Result(
        what="fuzzer: events",
        explanation="Events of these runs that one processor simulates per second.",
        value=events / simulating.ns * 1e9,
        unit="/s",
    )
    yield Result(
        what="fuzzer: share of the checkers",
        explanation="Share of the fuzzer's time that the checkers take.",
        value=100 * checking.ns / total,
        unit="%",
    )


BENCHMARK = Benchmark("fuzzer", 3, measure)
