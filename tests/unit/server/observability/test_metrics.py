"""What is counted, and how it is told."""

from typing import Any

import pytest

from creekdb.protocol.effects import Kind, Response
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.server.observability import latency
from creekdb.server.observability.latency import Histogram, Latencies
from creekdb.server.observability.metrics import Family, gauge, text_of


def answer(id: Dot, kind: Kind) -> Response:
    return Response(id, 1, kind, Outcome(None))


def seen(latencies: Latencies) -> dict[str, tuple[int, float]]:
    """How many of each kind, and how long they took in sum."""
    return {
        kind: (sum(histogram.counts), histogram.total)
        for kind, histogram in latencies.by_answer().items()
        if sum(histogram.counts)
    }


def test_each_kind_of_answer_has_its_own_times() -> None:
    latencies = Latencies()
    weak, strong = Dot(0, 1), Dot(0, 2)
    latencies.invoked(weak, False, 0.0)
    latencies.invoked(strong, True, 0.0)
    for now, response in (
        (1.0, answer(weak, Kind.TENTATIVE)),
        (2.0, answer(strong, Kind.TENTATIVE)),
        (3.0, answer(strong, Kind.TENTATIVE)),  # another one does not count
        (4.0, answer(strong, Kind.STABLE)),
        (5.0, answer(weak, Kind.FINAL)),
    ):
        latencies.answered(response, now)
    assert seen(latencies) == {
        "weak_tentative": (1, 1.0),
        "strong_tentative": (1, 2.0),
        "strong_stable": (1, 4.0),
        "weak_final": (1, 5.0),
    }


def test_nothing_is_kept_of_calls_that_are_over() -> None:
    latencies = Latencies()
    for event, strong, kinds in (
        (1, False, (Kind.TENTATIVE, Kind.FINAL)),
        (2, True, (Kind.TENTATIVE, Kind.STABLE)),
        (3, True, (Kind.STABLE,)),
        (-1, False, (Kind.TENTATIVE,)),  # only reads
    ):
        latencies.invoked(Dot(0, event), strong, 0.0)
        for kind in kinds:
            latencies.answered(answer(Dot(0, event), kind), 0.0)
    assert not latencies._weak
    assert not latencies._strong
    assert not latencies._open


def test_calls_that_never_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "CALLS_MAX", 10)
    latencies = Latencies()
    for event in range(1, 31):
        latencies.invoked(Dot(0, event), event % 2 == 0, 0.0)
    assert len(latencies._open) == 10
    assert len(latencies._weak) + len(latencies._strong) == 10
    latencies.answered(answer(Dot(0, 1), Kind.FINAL), 0.0)
    assert seen(latencies) == {}


def test_a_bucket_counts_all_up_to_its_bound() -> None:
    histogram = Histogram((0.5, 1.0))
    for value in (0.1, 0.5, 0.7, 3.0):
        histogram.observe(value)
    told = text_of([Family("wait", "histogram", "How long.", [({"kind": "weak"}, histogram)])])
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
    family = Family("n", "counter", "N.", [({"reason": label}, 1)])
    assert text_of([family]).splitlines()[-1] == f'n{{reason="{told}"}} 1'


@pytest.mark.parametrize(
    ("value", "told"), [(True, "1"), (False, "0"), (12345678901234567, "12345678901234567")]
)
def test_numbers_are_told_exactly(value: Any, told: str) -> None:
    assert text_of([gauge("n", "N.", value)]).splitlines()[-1] == f"n {told}"
