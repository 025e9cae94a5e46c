"""What is kept for replicas that fell behind: so many outcomes, and so many bytes."""

import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Outcome
from creekdb.schemes.core import responses
from creekdb.schemes.core.responses import RetainedOutcomes


def kept(found: RetainedOutcomes) -> list[Dot]:
    return [id for id, _ in found.outcomes()]


def test_the_oldest_are_given_up_when_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "UNTOLD_LIMIT", 3)
    found = RetainedOutcomes((1, 2))
    for event in range(1, 6):
        found.add(event, Dot(1, event), Outcome(event))
    found.add(6, Dot(2, 1), Outcome(None, "LookupError: no lamp left"))
    found.add(6, Dot(9, 1), Outcome("of one that was removed"))
    assert kept(found) == [Dot(1, 3), Dot(1, 4), Dot(1, 5), Dot(2, 1)]


@pytest.mark.parametrize(
    "outcome",
    [Outcome("x" * 1000), Outcome(("x" * 500,) * 2), Outcome(None, "LookupError: " + "x" * 1000)],
)
def test_the_oldest_are_given_up_when_they_are_too_long(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "UNTOLD_BYTES", 2500)
    found = RetainedOutcomes((1, 2))
    for event in range(1, 6):
        found.add(event, Dot(1, event), outcome)
        found.add(event, Dot(2, event), Outcome(event))
    assert kept(found) == [Dot(1, 4), Dot(1, 5), *(Dot(2, event) for event in range(1, 6))]


def test_one_that_is_too_long_by_itself_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "UNTOLD_BYTES", 100)
    found = RetainedOutcomes((1,))
    found.add(1, Dot(1, 1), Outcome(1))
    found.add(1, Dot(1, 2), Outcome("x" * 101))
    found.add(1, Dot(1, 3), Outcome(3))
    assert kept(found) == [Dot(1, 1), Dot(1, 3)]


def test_what_is_told_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "UNTOLD_BYTES", 2500)
    found = RetainedOutcomes((1,))
    for event in range(1, 20):
        found.add(event, Dot(1, event), Outcome("x" * 1000))
        found.expire({1: event}.__getitem__)
        assert kept(found) == []
    found.reconfigure((1, 2))
    found.add(20, Dot(2, 1), Outcome(1))
    assert kept(found) == [Dot(2, 1)]
