"""Metrics: latencies of calls, and their rendering for Prometheus."""

from typing import Any

import pytest

from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.server.observability import latency
from creekdb.server.observability.latency import CallLatencies, Histogram
from creekdb.server.observability.metrics import MetricFamily, gauge, render_metrics


def make_response(id: Dot, kind: ResponseKind) -> Response:
    return Response(id, 1, kind, Outcome(None))


def totals(latencies: CallLatencies) -> dict[str, tuple[int, float]]:
    """Return the count and the sum of each kind that was observed."""
    return {
        kind: (sum(histogram.counts), histogram.total)
        for kind, histogram in latencies.by_response().items()
        if sum(histogram.counts)
    }


def test_each_kind_of_response_has_its_own_histogram() -> None:
    latencies = CallLatencies()
    weak, strong = Dot(0, 1), Dot(0, 2)
    latencies.record_invocation(weak, False, 0.0)
    latencies.record_invocation(strong, True, 0.0)
    for now, response in (
        (1.0, make_response(weak, ResponseKind.TENTATIVE)),
        (2.0, make_response(strong, ResponseKind.TENTATIVE)),
        (3.0, make_response(strong, ResponseKind.TENTATIVE)),  # a second one does not count
        (4.0, make_response(strong, ResponseKind.STABLE)),
        (5.0, make_response(weak, ResponseKind.FINAL)),
    ):
        latencies.record_response(response, now)
    assert totals(latencies) == {
        "weak_tentative": (1, 1.0),
        "strong_tentative": (1, 2.0),
        "strong_stable": (1, 4.0),
        "weak_final": (1, 5.0),
    }


def test_completed_calls_are_not_retained() -> None:
    latencies = CallLatencies()
    for event, strong, kinds in (
        (1, False, (ResponseKind.TENTATIVE, ResponseKind.FINAL)),
        (2, True, (ResponseKind.TENTATIVE, ResponseKind.STABLE)),
        (3, True, (ResponseKind.STABLE,)),
        (-1, False, (ResponseKind.TENTATIVE,)),  # a local read
    ):
        latencies.record_invocation(Dot(0, event), strong, 0.0)
        for kind in kinds:
            latencies.record_response(make_response(Dot(0, event), kind), 0.0)
    assert not latencies._weak
    assert not latencies._strong
    assert not latencies._unfinished


def test_calls_without_last_response_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "TRACKED_CALLS_MAX", 10)
    latencies = CallLatencies()
    for event in range(1, 31):
        latencies.record_invocation(Dot(0, event), event % 2 == 0, 0.0)
    assert len(latencies._unfinished) == 10
    assert len(latencies._weak) + len(latencies._strong) == 10
    latencies.record_response(make_response(Dot(0, 1), ResponseKind.FINAL), 0.0)
    assert totals(latencies) == {}


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
