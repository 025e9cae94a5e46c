"""TPC-C's consistency conditions on what the replicas of a run end with.

What a run measures: latencies, throughput, accuracy, ratios and utilisation.

As Section 6 of the paper defines them, over the measuring window: the time from the end of the
warm-up until clients stop to ask. Latencies, answers and accuracy come from the history;
executions, busy cores and bytes from the models. Ratios of nothing are None, never a made-up 0.

An operation is *done* when its client has what it asked for: a weak one with its first answer,
whatever kind of answer the scheme gives, a strong one with its stable answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from creekdb import tpcc
from creekdb.checkers import Verdict, verdict_rows
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import ABSENT
from creekdb.history import Dot, History, Key, OperationRecord
from creekdb.history.percentiles import percentile
from creekdb.protocol.values import is_same_value
from creekdb.simulation.kernel.cluster import SimulationRun
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.simulation.observation.recorder import Speculation
from creekdb.simulation.observation.samples import MeasurementWindow
from creekdb.tpcc import without_order_numbers
from creekdb.wire.deduplication import unwrap_call


def violated_conditions(history: History, datatype: DataType) -> list[str]:
    """Each condition that does not hold, with the replicas on which it does not. Replicas that end
    with equal states are looked at together."""
    assert isinstance(datatype.base, tpcc.PopulationBase)
    found: list[str] = []
    for state, replicas in _group_by_state(history):
        overrides = {key: ABSENT if value is None else value for key, value in state.items()}
        who = ", ".join(map(str, replicas))
        problems = tpcc.find_violations(datatype.base, overrides, only_touched=True)
        found += [f"replica {who}: {problem}" for problem in problems]
    return found


def _group_by_state(history: History) -> list[tuple[dict[Key, Any], list[int]]]:
    groups: list[tuple[dict[Key, Any], list[int]]] = []
    for final in history.final_states:
        state = dict(final.state)
        same = next((replicas for other, replicas in groups if other == state), None)
        if same is None:
            groups.append((state, [final.replica]))
        else:
            same.append(final.replica)
    return groups


SATURATION_SHARE = 0.97
"""A system that does less than this share of what it is asked for is saturated."""
BACKLOG_GROWTH_FACTOR = 1.5
BACKLOG_GROWTH_S = 0.002
"""So is one whose backlog is, in the second half of the window, so many times as large as in the
first, and so many seconds of load: less may be chance."""
BACKLOG_SAMPLES = 40


class SimulatedLatency(msgspec.Struct, frozen=True, kw_only=True):
    """In milliseconds of simulated time, from the question to the answer."""

    answers: int
    mean: float
    p50: float
    p95: float
    p99: float


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """One run, summed up: what `creek simulate --json` prints."""

    scheme: str
    datatype: str
    warehouses: int | None
    """Of TPC-C."""
    layout: str | None
    replicas: int
    cores: int
    exec_scale: float
    seed: int
    duration_ms: float
    """How long clients asked."""
    warm_up_ms: float
    """How long of that is not measured."""
    simulated_ms: float
    """The duration, and the time it took to come to rest."""
    load_tps: float | None
    """Operations that open-loop clients ask for per second, all together."""
    clients: int | None
    """Closed-loop clients, all together."""
    strong_share: float
    strong_kinds: tuple[str, ...]
    weak: int
    strong: int
    answered: int
    """Weak operations with an answer and strong ones with a stable answer."""
    gave_up: int
    unserved: int
    throughput_tps: float | None
    """Operations done while clients asked, per second."""
    saturated: bool | None
    """Was it asked for more than it can do? None in a closed loop."""
    backlog: int
    """Operations that were not done when clients stopped."""
    weak_tentative_ms: SimulatedLatency | None
    """The first answer to a weak operation."""
    weak_stable_ms: SimulatedLatency | None
    """Until it was certain how it ended."""
    strong_tentative_ms: SimulatedLatency | None
    strong_stable_ms: SimulatedLatency | None
    weak_speculated_ms: SimulatedLatency | None
    """Of schemes that withhold answers: when a weak operation could have been answered."""
    strong_speculated_ms: SimulatedLatency | None
    accuracy: float | None
    """The share of weak operations whose first answer was equal to the final one; where answers
    are withheld, whose first execution gave the answer. Of TPC-C: but for the numbers of orders."""
    exact_accuracy: float | None
    """The same, with the numbers of orders."""
    execution_ratio: float | None
    """Executions per operation and replica that had to execute it: 1 without any repetition."""
    cpu_utilisation: float | None
    network_utilisation: float | None
    messages_per_operation: dict[str, float]
    """By kind; a message to four replicas counts four times."""
    executions: int
    rollbacks: int
    committed: int
    crashes: int
    messages: int
    trace_hash: str
    unsettled: str | None
    verdicts: list[dict[str, Any]]
    violated: list[str]
    """Consistency conditions of TPC-C that do not hold on a replica."""
    probes: dict[str, int]
    refused: dict[str, int]
    malformed: int
    drift_us: dict[int, int]


def measure(
    scenario: Scenario,
    run: SimulationRun,
    verdicts: Sequence[Verdict],
    violated: Sequence[str] = (),
) -> Measures:
    history, clients, window = run.history, scenario.clients, run.window
    asked = [each for each in history.operations if each.invoked_us >= window.begin_us]
    weak = [each for each in asked if not each.strong]
    strong = [each for each in asked if each.strong]
    done_us = sorted(
        at_us for each in history.operations if (at_us := _completed_us(each)) is not None
    )
    backlogs = _backlogs(history.operations, done_us, window)
    throughput = _throughput(done_us, window)
    replicas = scenario.replicas
    is_open = clients.rate_per_second > 0
    lengths = [final.first + len(final.committed) for final in history.final_states]
    local = sum(each.is_local for each in history.operations)
    core_us = replicas * scenario.cpu.cores * window.duration_us
    capacity_bits = replicas * scenario.network.bandwidth_bps * window.duration_us / 1_000_000
    probes = sorted(run.probes.items(), key=lambda item: item[0].name)
    layout, warehouses = parse_tpcc_name(scenario.datatype)
    return Measures(
        scheme=scenario.scheme,
        datatype=scenario.datatype,
        warehouses=warehouses,
        layout=layout,
        replicas=replicas,
        cores=scenario.cpu.cores,
        exec_scale=scenario.cpu.scale,
        seed=scenario.seed,
        duration_ms=scenario.duration_us / 1000,
        warm_up_ms=scenario.warm_up_us / 1000,
        simulated_ms=run.simulated_us / 1000,
        load_tps=clients.rate_per_second * replicas if is_open else None,
        clients=None if is_open else clients.sessions * replicas,
        strong_share=clients.strong_share,
        strong_kinds=clients.strong_kinds,
        weak=len(weak),
        strong=len(strong),
        answered=sum(_completed_us(each) is not None for each in asked),
        gave_up=run.timed_out_calls,
        unserved=run.unserved_calls,
        throughput_tps=throughput,
        saturated=_is_saturated(len(asked), throughput, backlogs, window) if is_open else None,
        backlog=backlogs[-1],
        weak_tentative_ms=summarize_latency(
            each.answers[0].at_us - each.invoked_us for each in weak if each.answers
        ),
        weak_stable_ms=summarize_latency(
            last.at_us - each.invoked_us for each in weak if (last := each.stable or each.final)
        ),
        strong_tentative_ms=summarize_latency(
            each.tentative.at_us - each.invoked_us for each in strong if each.tentative
        ),
        strong_stable_ms=summarize_latency(
            each.stable.at_us - each.invoked_us for each in strong if each.stable
        ),
        weak_speculated_ms=_speculation_latency(weak, run.speculations),
        strong_speculated_ms=_speculation_latency(strong, run.speculations),
        accuracy=_accuracy(
            weak, run.speculations, without_order_numbers if layout else full_response
        ),
        exact_accuracy=_accuracy(weak, run.speculations, full_response),
        execution_ratio=_ratio(sum(run.cpu.executions), sum(lengths) + local),
        cpu_utilisation=_ratio(window.busy_us, core_us),
        network_utilisation=_ratio(8 * sum(window.bytes.values()), capacity_bits),
        messages_per_operation={
            kind: count / len(asked) for kind, count in window.messages.items() if asked
        },
        executions=sum(run.cpu.executions),
        rollbacks=sum(run.cpu.rollbacks),
        committed=max(lengths, default=0),
        crashes=run.crashes,
        messages=sum(run.network.messages.values()),
        trace_hash=run.trace_hash,
        unsettled=run.quiescence_failure,
        verdicts=verdict_rows(verdicts),
        violated=list(violated),
        probes={probe.name.lower(): count for probe, count in probes},
        refused=dict(sorted(run.rejected.items())),
        malformed=run.malformed,
        drift_us=dict(sorted(run.drift_us.items())),
    )


def summarize_latency(durations_us: Iterable[int]) -> SimulatedLatency | None:
    """None without a single duration."""
    ordered = sorted(durations_us)
    if not ordered:
        return None
    return SimulatedLatency(
        answers=len(ordered),
        mean=sum(ordered) / len(ordered) / 1000,
        p50=percentile(ordered, 50) / 1000,
        p95=percentile(ordered, 95) / 1000,
        p99=percentile(ordered, 99) / 1000,
    )


def _completed_us(record: OperationRecord) -> int | None:
    if not record.strong:
        return record.answers[0].at_us if record.answers else None
    return record.stable.at_us if record.stable is not None else None


def _throughput(done_us: list[int], window: MeasurementWindow) -> float | None:
    done = bisect_right(done_us, window.end_us) - bisect_left(done_us, window.begin_us)
    return _ratio(done * 1_000_000, window.duration_us)


def _backlogs(
    records: Sequence[OperationRecord], done_us: list[int], window: MeasurementWindow
) -> list[int]:
    """How many operations were asked for and not done, from time to time, last at its end."""
    invoked_us = sorted(record.invoked_us for record in records)
    steps = range(BACKLOG_SAMPLES + 1)
    times = (window.begin_us + window.duration_us * step // BACKLOG_SAMPLES for step in steps)
    return [bisect_right(invoked_us, at_us) - bisect_right(done_us, at_us) for at_us in times]


def _is_saturated(
    asked: int, throughput_tps: float | None, backlogs: list[int], window: MeasurementWindow
) -> bool | None:
    if throughput_tps is None:
        return None
    asked_tps = asked * 1_000_000 / window.duration_us
    middle = len(backlogs) // 2
    first, second = (sum(half) / middle for half in (backlogs[:middle], backlogs[-middle:]))
    grows = second > BACKLOG_GROWTH_FACTOR * first + BACKLOG_GROWTH_S * asked_tps
    return throughput_tps < SATURATION_SHARE * asked_tps or grows


def _speculation_latency(
    records: Iterable[OperationRecord], speculated: Mapping[Dot, Speculation]
) -> SimulatedLatency | None:
    return summarize_latency(
        found.at_us - each.invoked_us for each in records if (found := speculated.get(each.id))
    )


def _accuracy(
    weak: Iterable[OperationRecord],
    speculated: Mapping[Dot, Speculation],
    compared: Callable[[str, Any], Any],
) -> float | None:
    """`compared`: what counts of an operation's answer."""
    told = [
        was_right
        for each in weak
        if (was_right := is_accurate(each, speculated, compared)) is not None
    ]
    return _ratio(sum(told), len(told))


def is_accurate(
    record: OperationRecord,
    speculated: Mapping[Dot, Speculation],
    compared: Callable[[str, Any], Any],
) -> bool | None:
    """Was its first answer, or what could have been one, the last one? None: that is not known."""
    if (final := record.final) is not None:
        first, last = record.answers[0].outcome, final.outcome
    elif (stable := record.stable) is None:
        return None
    elif record.id in speculated:
        first, last = speculated[record.id].outcome, stable.outcome
    elif record.strong and record.tentative is not None:
        first, last = record.tentative.outcome, stable.outcome
    else:
        return None
    name = unwrap_call(record.operation).name
    return first.error == last.error and is_same_value(
        compared(name, first.value), compared(name, last.value)
    )


def full_response(operation: str, answer: Any) -> Any:
    """All of an answer counts."""
    return answer


def parse_tpcc_name(datatype: str) -> tuple[str | None, int | None]:
    """The layout and the warehouses, when it is TPC-C."""
    parts = datatype.split("-")
    return (parts[1], int(parts[2])) if parts[0] == "tpcc" and len(parts) == 4 else (None, None)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
