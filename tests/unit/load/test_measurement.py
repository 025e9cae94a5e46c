"""Counters of a load: the window, kinds of responses, and the summary."""

import pytest

from creekdb.load.measurement import (
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK_FINAL,
    WEAK_TENTATIVE,
    LoadMeter,
    latency_summary,
    load_result,
)

BEGIN_NS, END_NS = 1_000_000_000, 3_000_000_000


@pytest.mark.parametrize(
    ("sent_ns", "now_ns", "counted", "measured"),
    [
        (BEGIN_NS - 1, BEGIN_NS - 1, 0, 0),
        (BEGIN_NS - 1, BEGIN_NS, 1, 0),
        (BEGIN_NS, BEGIN_NS + 5, 1, 1),
        (END_NS - 5, END_NS, 1, 1),
        (END_NS - 5, END_NS + 1, 0, 0),
    ],
)
def test_a_latency_counts_if_both_ends_are_in_the_window(
    sent_ns: int, now_ns: int, counted: int, measured: int
) -> None:
    meter = LoadMeter(BEGIN_NS, END_NS)
    meter.record_response(WEAK_TENTATIVE, sent_ns, now_ns)
    meter.record_failure("busy", now_ns)

    assert meter.completed == counted
    assert len(meter.latencies_ns[WEAK_TENTATIVE]) == measured
    assert meter.errors["busy"] == counted


def test_a_call_completes_once() -> None:
    meter = LoadMeter(BEGIN_NS, END_NS)
    for kind in (WEAK_TENTATIVE, WEAK_FINAL, STRONG_TENTATIVE, STRONG_STABLE):
        meter.record_response(kind, BEGIN_NS, BEGIN_NS + 2_000_000)

    assert (meter.weak_completed, meter.strong_completed) == (1, 1)
    result = load_result(meter, {"replica 0": 1.0})
    assert (result.throughput_per_s, result.weak_per_s, result.strong_per_s) == (1.0, 0.5, 0.5)
    assert result.cpu_us == {"replica 0": 500_000.0}
    assert {kind: each.p50 for kind, each in result.latency_ms.items()} == {
        "weak tentative": 2.0,
        "weak final": 2.0,
        "strong tentative": 2.0,
        "strong stable": 2.0,
    }


def test_a_summary_has_nearest_ranks_in_milliseconds() -> None:
    summary = latency_summary([each * 1_000_000 for each in range(200, 0, -1)])

    assert summary is not None
    assert (summary.answers, summary.mean, summary.max) == (200, 100.5, 200.0)
    assert (summary.p50, summary.p95, summary.p99) == (100.0, 190.0, 198.0)
    assert latency_summary([]) is None
