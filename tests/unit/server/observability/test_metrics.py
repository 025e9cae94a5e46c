"""What is counted, and how it is told."""

from typing import Any

import pytest

from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.server.observability import latency
from creekdb.server.observability.latency import CallLatencies, Histogram
from creekdb.server.observability.metrics import MetricFamily, gauge, render_metrics


def answer(id: Dot, kind: ResponseKind) -> Response:
    return Response(id, 1, kind, Outcome(None))


def seen(latencies: CallLatencies) -> dict[str, tuple[int, float]]:
    """How many of each kind, and how long they took in sum."""
    return {
        kind: (sum(histogram.counts), histogram.total)
        for kind, histogram in latencies.by_response().items()
        if sum(histogram.counts)
    }


def test_each_kind_of_answer_has_its_own_times() -> None:
    latencies = CallLatencies()
    weak, strong = Dot(0, 1), Dot(0, 2)
    latencies.record_invocation(weak, False, 0.0)
    latencies.record_invocation(strong, True, 0.0)
    for now, response in (
        (1.0, answer(weak, ResponseKind.TENTATIVE)),
        (2.0, answer(strong, ResponseKind.TENTATIVE)),
        (3.0, answer(strong, ResponseKind.TENTATIVE)),  # another one does not count
        (4.0, answer(strong, ResponseKind.STABLE)),
        (5.0, answer(weak, ResponseKind.FINAL)),
    ):
        latencies.record_response(response, now)
    assert seen(latencies) == {
        "weak_tentative": (1, 1.0),
        "strong_tentative": (1, 2.0),
        "strong_stable": (1, 4.0),
        "weak_final": (1, 5.0),
    }


def test_nothing_is_kept_of_calls_that_are_over() -> None:
    latencies = CallLatencies()
    for event, strong, kinds in (
        (1, False, (ResponseKind.TENTATIVE, ResponseKind.FINAL)),
        (2, True, (ResponseKind.TENTATIVE, ResponseKind.STABLE)),
        (3, True, (ResponseKind.STABLE,)),
        (-1, False, (ResponseKind.TENTATIVE,)),  # only reads
    ):
        latencies.record_invocation(Dot(0, event), strong, 0.0)
        for kind in kinds:
            latencies.record_response(answer(Dot(0, event), kind), 0.0)
    assert not latencies._weak
    assert not latencies._strong
    assert not latencies._unfinished


def test_calls_that_never_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "CALLS_MAX", 10)
    latencies = CallLatencies()
    for event in range(1, 31):
        latencies.record_invocation(Dot(0, event), event % 2 == 0, 0.0)
    assert len(latencies._unfinished) == 10
    assert len(latencies._weak) + len(latencies._strong) == 10
    latencies.record_response(answer(Dot(0, 1), ResponseKind.FINAL), 0.0)
    assert seen(latencies) == {}


def test_a_bucket_counts_all_up_to_its_bound() -> None:
    histogram = Histogram((0.5, 1.0))
    for value in (0.1, 0.5, 0.7, 3.0):
        histogram.observe(value)
    told = render_metrics(
        [MetricFamily("wait", "histogram", "How long.", [({"kind": "weak"}, histogram)])]
    )
    assert told.splitlines() == [
        "# HELP wait How long.",
        "# TYPE wait histogram",
        'wait_bucket{kind="weak",le="0.5"} 2',
        'wait_bucket{kind="weak",le="1.0"} 3',
        'wait_bucket{kind="weak",le="+Inf"} 4',
        'wait_sum{kind="weak"} 4.3',
        'wait_count{kind="weak"} 4',
    ]


@pytest.mark.parametrize(
    ("label", "told"), [('a "b"', r"a \"b\""), ("a\\b", r"a\\b"), ("a\nb", r"a\nb")]
)
def test_labels_may_hold_anything(label: str, told: str) -> None:
    family = MetricFamily("n", "counter", "N.", [({"reason": label}, 1)])
    assert render_metrics([family]).splitlines()[-1] == f'n{{reason="{told}"}} 1'


@pytest.mark.parametrize(
    ("value", "told"), [(True, "1"), (False, "0"), (12345678901234567, "12345678901234567")]
)
def test_numbers_are_told_exactly(value: Any, told: str) -> None:
    assert render_metrics([gauge("n", "N.", value)]).splitlines()[-1] == f"n {told}"
