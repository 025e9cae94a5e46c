"""Limits on the number and size of outcomes retained for lagging replicas."""

import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import Outcome
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables
from creekdb.schemes.core.responses import RetainedOutcomes


def shared(*peers: int) -> SharedVariables:
    return SharedVariables(0, Settings(members=(0, *peers)))


def retained_ids(retained: RetainedOutcomes) -> list[Dot]:
    return [id for id, _ in retained.outcomes()]


def test_the_oldest_outcomes_are_dropped_above_the_count_limit() -> None:
    retained = RetainedOutcomes(shared(1, 2), count_max=3)
    for event in range(1, 6):
        retained.add(event, Dot(1, event), Outcome(event))
    retained.add(6, Dot(2, 1), Outcome(None, "LookupError: no lamp left"))
    retained.add(6, Dot(9, 1), Outcome("of a removed replica"))
    assert retained_ids(retained) == [Dot(1, 3), Dot(1, 4), Dot(1, 5), Dot(2, 1)]


@pytest.mark.parametrize(
    "outcome",
    [Outcome("x" * 1000), Outcome(("x" * 500,) * 2), Outcome(None, "LookupError: " + "x" * 1000)],
)
def test_the_oldest_outcomes_are_dropped_above_the_size_limit(outcome: Outcome) -> None:
    retained = RetainedOutcomes(shared(1, 2), bytes_max=2500)
    for event in range(1, 6):
        retained.add(event, Dot(1, event), outcome)
        retained.add(event, Dot(2, event), Outcome(event))
    assert retained_ids(retained) == [
        Dot(1, 4),
        Dot(1, 5),
        *(Dot(2, event) for event in range(1, 6)),
    ]


def test_an_outcome_above_the_size_limit_is_not_retained() -> None:
    retained = RetainedOutcomes(shared(1), bytes_max=100)
    retained.add(1, Dot(1, 1), Outcome(1))
    retained.add(1, Dot(1, 2), Outcome("x" * 101))
    retained.add(1, Dot(1, 3), Outcome(3))
    assert retained_ids(retained) == [Dot(1, 1), Dot(1, 3)]


def test_expired_outcomes_free_their_space() -> None:
    variables = shared(1)
    retained = RetainedOutcomes(variables, bytes_max=2500)
    for event in range(1, 20):
        retained.add(event, Dot(1, event), Outcome("x" * 1000))
        retained.expire({1: event}.__getitem__)
        assert retained_ids(retained) == []
    variables.reconfigure(Configuration(1, ((0, ""), (1, ""), (2, ""))))
    retained.add(20, Dot(2, 1), Outcome(1))
    assert retained_ids(retained) == [Dot(2, 1)]
