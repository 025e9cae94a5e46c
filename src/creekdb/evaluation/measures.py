"""Measures of a run: latencies, throughput, accuracy, ratios, utilisation, TPC-C consistency.

Definitions follow Section 6 of the paper, over the measurement window: the time from the end of the
warm-up until clients stop. Latencies, responses and accuracy come from the history; executions,
busy cores and bytes come from the models. A ratio with a denominator of 0 is None.

An operation is *complete* when its client has the awaited response. For a weak operation this is
the first response of any kind, for a strong one the stable response.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from creekdb import tpcc
from creekdb.checkers import Verdict, verdict_rows
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import ABSENT
from creekdb.history import Dot, History, Key, OperationRecord, ResponseRecord
from creekdb.history.percentiles import percentile
from creekdb.protocol.extensions import enabled_extensions
from creekdb.protocol.values import is_same_value
from creekdb.simulation.kernel.cluster import SimulationRun
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.simulation.observation.recorder import Speculation
from creekdb.simulation.observation.samples import MeasurementWindow
from creekdb.tpcc import without_order_numbers
from creekdb.wire.deduplication import unwrap_call


def violated_conditions(history: History, datatype: DataType) -> list[str]:
    """Return the violated TPC-C conditions, each with the replicas that violate it.

    Replicas that end with equal states are checked together.
    """
    assert isinstance(datatype.base, tpcc.PopulationBase)
    violations: list[str] = []
    for state, replicas in _group_by_state(history):
        overrides = {key: ABSENT if value is None else value for key, value in state.items()}
        names = ", ".join(map(str, replicas))
        problems = tpcc.find_violations(datatype.base, overrides, only_touched=True)
        violations += [f"replica {names}: {problem}" for problem in problems]
    return violations


def _group_by_state(history: History) -> list[tuple[dict[Key, Any], list[int]]]:
    groups: list[tuple[dict[Key, Any], list[int]]] = []
    for final in history.final_states:
        state = dict(final.state)
        for other, replicas in groups:
            if other == state:
                replicas.append(final.replica)
                break
        else:
            groups.append((state, [final.replica]))
    return groups


SATURATION_SHARE = 0.97
"""A system with a throughput below this share of the issued load is saturated."""
BACKLOG_GROWTH_FACTOR = 1.5
BACKLOG_GROWTH_S = 0.002
"""A system whose backlog grows is saturated, too. The mean backlog of the second half of the window
must exceed the first half's by this factor plus this many seconds of load; less may be chance."""
BACKLOG_SAMPLES = 40


class SimulatedLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies in milliseconds of simulated time, from invocation to response."""

    answers: int
    mean: float
    p50: float
    p95: float
    p99: float


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of one run: the output of `creek simulate --json`."""

    scheme: str
    datatype: str
    warehouses: int | None
    """Number of TPC-C warehouses, or None."""
    layout: str | None
    replicas: int
    cores: int
    exec_scale: float
    extensions: tuple[str, ...]
    """Extensions of Creek beyond the paper that were on."""
    regions: int
    clock_skew_us: int
    """Difference between the clock that is ahead of all others and the last one."""
    seed: int
    duration_ms: float
    """Duration of the load phase, in milliseconds."""
    warm_up_ms: float
    """Part of the duration that is not measured, in milliseconds."""
    simulated_ms: float
    """Duration including the time until the cluster was quiescent, in milliseconds."""
    load_tps: float | None
    """Operations that all open-loop clients together issue per second."""
    clients: int | None
    """Number of closed-loop clients at all replicas."""
    strong_share: float
    strong_kinds: tuple[str, ...]
    weak: int
    strong: int
    answered: int
    """Number of weak operations with a response and strong ones with a stable response."""
    gave_up: int
    unserved: int
    throughput_tps: float | None
    """Operations completed in the measurement window, per second."""
    saturated: bool | None
    """True if the load exceeded the capacity of the system; None in a closed loop."""
    backlog: int
    """Number of incomplete operations when clients stopped."""
    weak_tentative_ms: SimulatedLatency | None
    """Latency of the first response to a weak operation."""
    weak_stable_ms: SimulatedLatency | None
    """Latency until the response to a weak operation was stable or final."""
    strong_tentative_ms: SimulatedLatency | None
    strong_stable_ms: SimulatedLatency | None
    weak_speculated_ms: SimulatedLatency | None
    """For schemes that withhold responses: latency of the first execution of a weak operation."""
    strong_speculated_ms: SimulatedLatency | None
    accuracy: float | None
    """Share of weak operations whose first response equals the final one. Where responses are
    withheld, the first execution is compared. Order numbers of TPC-C are ignored."""
    exact_accuracy: float | None
    """Accuracy including the order numbers of TPC-C."""
    execution_ratio: float | None
    """Executions per operation and replica that had to execute it; 1 without re-executions."""
    cpu_utilisation: float | None
    network_utilisation: float | None
    messages_per_operation: dict[str, float]
    """Messages per operation, by type; a message to four replicas counts four times."""
    executions: int
    rollbacks: int
    committed: int
    crashes: int
    messages: int
    trace_hash: str
    unsettled: str | None
    verdicts: list[dict[str, Any]]
    violated: list[str]
    """Consistency conditions of TPC-C that do not hold on some replica."""
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
    issued = [each for each in history.operations if each.invoked_us >= window.begin_us]
    weak = [each for each in issued if not each.strong]
    strong = [each for each in issued if each.strong]
    completed_us = sorted(
        at_us for each in history.operations if (at_us := _completed_us(each)) is not None
    )
    backlogs = _backlogs(history.operations, completed_us, window)
    throughput = _throughput(completed_us, window)
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
        extensions=enabled_extensions(scenario.scheme, scenario.protocol_settings()),
        regions=scenario.network.region_count,
        clock_skew_us=scenario.clock.skew_us_max,
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
        answered=sum(_completed_us(each) is not None for each in issued),
        gave_up=run.timed_out_calls,
        unserved=run.unserved_calls,
        throughput_tps=throughput,
        saturated=_is_saturated(len(issued), throughput, backlogs, window) if is_open else None,
        backlog=backlogs[-1],
        weak_tentative_ms=_latency(weak, lambda each: next(iter(each.responses), None)),
        weak_stable_ms=_latency(weak, lambda each: each.stable or each.final),
        strong_tentative_ms=_latency(strong, lambda each: each.tentative),
        strong_stable_ms=_latency(strong, lambda each: each.stable),
        weak_speculated_ms=_latency(weak, lambda each: run.speculations.get(each.id)),
        strong_speculated_ms=_latency(strong, lambda each: run.speculations.get(each.id)),
        accuracy=_accuracy(
            weak, run.speculations, without_order_numbers if layout else full_response
        ),
        exact_accuracy=_accuracy(weak, run.speculations, full_response),
        execution_ratio=_ratio(sum(run.cpu.executions), sum(lengths) + local),
        cpu_utilisation=_ratio(window.busy_us, core_us),
        network_utilisation=_ratio(8 * sum(window.bytes.values()), capacity_bits),
        messages_per_operation={
            kind: count / len(issued) for kind, count in window.messages.items() if issued
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
    """Summarise durations; return None if there are none."""
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
        return record.responses[0].at_us if record.responses else None
    return record.stable.at_us if record.stable is not None else None


def _throughput(completed_us: list[int], window: MeasurementWindow) -> float | None:
    begin = bisect_left(completed_us, window.begin_us)
    completed = bisect_right(completed_us, window.end_us) - begin
    return _ratio(completed * 1_000_000, window.duration_us)


def _backlogs(
    records: Sequence[OperationRecord], completed_us: list[int], window: MeasurementWindow
) -> list[int]:
    """Return the numbers of incomplete operations at regular times, the last at the window end."""
    invoked_us = sorted(record.invoked_us for record in records)
    steps = range(BACKLOG_SAMPLES + 1)
    times = (window.begin_us + window.duration_us * step // BACKLOG_SAMPLES for step in steps)
    return [bisect_right(invoked_us, at_us) - bisect_right(completed_us, at_us) for at_us in times]


def _is_saturated(
    issued: int, throughput_tps: float | None, backlogs: list[int], window: MeasurementWindow
) -> bool | None:
    if throughput_tps is None:
        return None
    issued_tps = issued * 1_000_000 / window.duration_us
    middle = len(backlogs) // 2
    first, second = (sum(half) / middle for half in (backlogs[:middle], backlogs[-middle:]))
    grows = second > BACKLOG_GROWTH_FACTOR * first + BACKLOG_GROWTH_S * issued_tps
    return throughput_tps < SATURATION_SHARE * issued_tps or grows


def _latency(
    records: Iterable[OperationRecord],
    response: Callable[[OperationRecord], ResponseRecord | Speculation | None],
) -> SimulatedLatency | None:
    """Summarise the times until a response, of the operations that have it."""
    return summarize_latency(
        found.at_us - each.invoked_us for each in records if (found := response(each)) is not None
    )


def _accuracy(
    weak: Iterable[OperationRecord],
    speculated: Mapping[Dot, Speculation],
    comparable_part: Callable[[str, Any], Any],
) -> float | None:
    """Return the share of accurate operations; `comparable_part` selects the compared part."""
    results = [
        is_equal
        for each in weak
        if (is_equal := is_accurate(each, speculated, comparable_part)) is not None
    ]
    return _ratio(sum(results), len(results))


def is_accurate(
    record: OperationRecord,
    speculated: Mapping[Dot, Speculation],
    comparable_part: Callable[[str, Any], Any],
) -> bool | None:
    """True if the first response (or withheld one) equals the last; None if either is missing."""
    if (final := record.final) is not None:
        first, last = record.responses[0].outcome, final.outcome
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
        comparable_part(name, first.value), comparable_part(name, last.value)
    )


def full_response(operation: str, response: Any) -> Any:
    """Return the whole response, for an exact comparison."""
    return response


def parse_tpcc_name(datatype: str) -> tuple[str | None, int | None]:
    """Return the layout and the number of warehouses of a TPC-C data type, or (None, None)."""
    parts = datatype.split("-")
    return (parts[1], int(parts[2])) if parts[0] == "tpcc" and len(parts) == 4 else (None, None)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
