"""What a run measures: latencies, throughput, accuracy, ratios and utilisation.

As Section 6 of the paper defines them. Latencies, answers and accuracy come from the history;
executions, busy cores and bytes from the models. Ratios of nothing are None, never a made-up 0.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from creek.checkers import Verdict, rows
from creek.cli.finals import final_order
from creek.history import History, OperationRecord
from creek.simulation.cluster import Run
from creek.simulation.scenario import Scenario


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """In milliseconds of simulated time, from the question to the answer."""

    answers: int
    mean: float
    p50: float
    p99: float


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """One run, summed up: what `creek simulate --json` prints."""

    scheme: str
    datatype: str
    replicas: int
    seed: int
    duration_ms: float
    """How long clients asked."""
    simulated_ms: float
    """That, and the time it took to come to rest."""
    load_tps: float | None
    """Operations that open-loop clients ask for per second, all together."""
    clients: int | None
    """Closed-loop clients, all together."""
    strong_share: float
    weak: int
    strong: int
    answered: int
    """Weak operations with an answer and strong ones with a stable answer."""
    gave_up: int
    unserved: int
    throughput_tps: float | None
    """Operations answered for good while clients asked, per second."""
    weak_tentative_ms: Latency | None
    strong_tentative_ms: Latency | None
    strong_stable_ms: Latency | None
    accuracy: float | None
    """The share of first tentative answers that are equal to the final ones."""
    execution_ratio: float | None
    """Executions per operation and replica: 1 without any repetition."""
    cpu_utilisation: float | None
    network_utilisation: float | None
    executions: int
    rollbacks: int
    committed: int
    crashes: int
    messages: int
    trace_hash: str
    unsettled: str | None
    verdicts: list[dict[str, Any]]
    probes: dict[str, int]
    refused: dict[str, int]
    malformed: int
    drift_us: dict[int, int]


def measure(scenario: Scenario, run: Run, verdicts: Sequence[Verdict]) -> Measures:
    history, clients = run.history, scenario.clients
    weak = [each for each in history.operations if not each.strong]
    strong = [each for each in history.operations if each.strong]
    stable = [each.stable.at_us - each.invoked_us for each in strong if each.stable]
    replicas = scenario.replicas
    is_open = clients.rate_per_second > 0
    lengths = [final.first + len(final.committed) for final in history.finals]
    core_us = replicas * scenario.cpu.cores * run.simulated_us
    capacity_bits = replicas * scenario.network.bandwidth_bps * run.simulated_us / 1_000_000
    probes = sorted(run.probes.items(), key=lambda item: item[0].name)
    return Measures(
        scheme=scenario.scheme,
        datatype=scenario.datatype,
        replicas=replicas,
        seed=scenario.seed,
        duration_ms=scenario.duration_us / 1000,
        simulated_ms=run.simulated_us / 1000,
        load_tps=clients.rate_per_second * replicas if is_open else None,
        clients=None if is_open else clients.sessions * replicas,
        strong_share=clients.strong_share,
        weak=len(weak),
        strong=len(strong),
        answered=sum(bool(each.answers) for each in weak) + len(stable),
        gave_up=run.gave_up,
        unserved=run.unserved,
        throughput_tps=_throughput(history.operations, scenario.duration_us),
        weak_tentative_ms=latency(_first_us(weak)),
        strong_tentative_ms=latency(_first_us(strong)),
        strong_stable_ms=latency(stable),
        accuracy=_accuracy(history),
        execution_ratio=_ratio(sum(run.cpu.executions), sum(lengths)),
        cpu_utilisation=_ratio(sum(run.cpu.busy_us), core_us),
        network_utilisation=_ratio(8 * sum(run.network.bytes.values()), capacity_bits),
        executions=sum(run.cpu.executions),
        rollbacks=sum(run.cpu.rollbacks),
        committed=max(lengths, default=0),
        crashes=run.crashes,
        messages=sum(run.network.messages.values()),
        trace_hash=run.trace_hash,
        unsettled=run.unsettled,
        verdicts=rows(verdicts),
        probes={probe.name.lower(): count for probe, count in probes},
        refused=dict(sorted(run.refused.items())),
        malformed=run.malformed,
        drift_us=dict(sorted(run.drift_us.items())),
    )


def latency(durations_us: Iterable[int]) -> Latency | None:
    """Mean and percentiles by nearest rank; None without a single duration."""
    ordered = sorted(durations_us)
    if not ordered:
        return None
    return Latency(
        answers=len(ordered),
        mean=sum(ordered) / len(ordered) / 1000,
        p50=_percentile(ordered, 50) / 1000,
        p99=_percentile(ordered, 99) / 1000,
    )


def _percentile(ordered: Sequence[int], percent: int) -> int:
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def _first_us(records: Iterable[OperationRecord]) -> list[int]:
    return [each.tentative.at_us - each.invoked_us for each in records if each.tentative]


def _throughput(records: Iterable[OperationRecord], duration_us: int) -> float | None:
    done = 0
    for record in records:
        answer = record.stable if record.strong else record.tentative
        done += answer is not None and answer.at_us <= duration_us
    return _ratio(done * 1_000_000, duration_us)


def _accuracy(history: History) -> float | None:
    told = [each for each in final_order(history) if each.record and each.record.tentative]
    return _ratio(sum(not each.changed for each in told), len(told))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
