"""Metrics: latencies of calls, and their rendering for Prometheus."""

from typing import Any

import pytest

from creekdb.protocol.effects import ResponseKind
from creekdb.server.observability.latency import CallLatencies, Histogram
from creekdb.server.observability.metrics import MetricFamily, gauge, render_metrics


def totals(latencies: CallLatencies) -> dict[str, tuple[int, float]]:
    """Return the count and the sum of each kind that was observed."""
    return {
        kind: (sum(histogram.counts), histogram.total)
        for kind, histogram in latencies.by_response().items()
        if sum(histogram.counts)
    }


def test_each_kind_of_response_has_its_own_histogram() -> None:
    latencies = CallLatencies()
    for strong, kind, elapsed_s in (
        (False, ResponseKind.TENTATIVE, 1.0),
        (True, ResponseKind.TENTATIVE, 2.0),
        (True, ResponseKind.STABLE, 4.0),
        (False, ResponseKind.FINAL, 5.0),
    ):
        latencies.record(strong, kind, elapsed_s)
    assert totals(latencies) == {
        "weak_tentative": (1, 1.0),
        "strong_tentative": (1, 2.0),
        "strong_stable": (1, 4.0),
        "weak_final": (1, 5.0),
    }


def test_buckets_are_cumulative() -> None:
    histogram = Histogram((0.5, 1.0))
    for value in (0.1, 0.5, 0.7, 3.0):
        histogram.observe(value)
    text = render_metrics(
        [MetricFamily("wait", "histogram", "Waiting time.", [({"kind": "weak"}, histogram)])]
    )
    assert text.splitlines() == [
        "# HELP wait Waiting time.",
        "# TYPE wait histogram",
        'wait_bucket{kind="weak",le="0.5"} 2',
        'wait_bucket{kind="weak",le="1.0"} 3',
        'wait_bucket{kind="weak",le="+Inf"} 4',
        'wait_sum{kind="weak"} 4.3',
        'wait_count{kind="weak"} 4',
    ]


@pytest.mark.parametrize(
    ("label", "rendered"), [('a "b"', r"a \"b\""), ("a\\b", r"a\\b"), ("a\nb", r"a\nb")]
)
def test_label_values_are_escaped(label: str, rendered: str) -> None:
    family = MetricFamily("n", "counter", "N.", [({"reason": label}, 1)])
    assert render_metrics([family]).splitlines()[-1] == f'n{{reason="{rendered}"}} 1'


@pytest.mark.parametrize(
    ("value", "rendered"), [(True, "1"), (False, "0"), (12345678901234567, "12345678901234567")]
)
def test_numbers_are_rendered_exactly(value: Any, rendered: str) -> None:
    assert render_metrics([gauge("n", "N.", value)]).splitlines()[-1] == f"n {rendered}"
