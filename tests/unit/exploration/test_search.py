from typing import Any

import msgspec
import pytest

from creekdb.errors import UsageError
from creekdb.exploration.node import Witness
from creekdb.exploration.scope import SCOPES, Scope, get_scope, with_calls
from creekdb.exploration.search import Explorer
from creekdb.schemes.registry import get_spec

ONE_CALL = with_calls(get_scope("two-strong"), 1)


def explorer(scope: Scope) -> Explorer:
    return Explorer(scope, get_spec("creek"))


def test_more_faults_reach_more_states() -> None:
    states = [
        explorer(msgspec.structs.replace(ONE_CALL, **bounds)).search(50_000).states
        for bounds in ({}, {"links": "any"}, {"losses": 1}, {"losses": 1, "duplicates": 1})
    ]

    assert states == [43, 103, 197, 882]


@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        ({"crashes": 1, "crashing": (1,)}, 304),
        ({"partitions": 1, "isolated": (1,)}, 177),
        ({"leader_changes": 1, "suspecting": (1,)}, 2_352),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_each_fault_reaches_all_its_states(bounds: dict[str, Any], states: int) -> None:
    result = explorer(msgspec.structs.replace(ONE_CALL, **bounds)).search(50_000)

    assert result.is_exhausted
    assert (result.states, result.violation) == (states, None)


def test_a_limited_search_is_not_exhausted() -> None:
    result = explorer(ONE_CALL).search(10)

    assert result.states == 10
    assert not result.is_exhausted
    assert result.violation is None


def test_random_walks_repeat_with_the_same_seed() -> None:
    scope = msgspec.structs.replace(ONE_CALL, crashes=1, ticks=2)
    first, second, other = (explorer(scope).walk(5, seed) for seed in (7, 7, 8))

    assert (first.states, first.transitions) == (second.states, second.transitions)
    assert (first.states, first.transitions) != (other.states, other.transitions)
    assert first.violation is None
    assert not first.is_exhausted


def test_a_replay_describes_its_steps() -> None:
    result = explorer(ONE_CALL).replay("0.0")

    assert [each.text for each in result.steps] == [
        "replica 1: call 0, strong append('a')",
        "1 → 0: Cast of strong 1.1 with context ()",
    ]
    assert result.steps[0].outputs[-1] == "responds to call 0: tentative 1"


def test_equal_messages_arrive_one_by_one() -> None:
    scope = msgspec.structs.replace(ONE_CALL, ticks=2, links="any")

    result = explorer(scope).replay("0.4.2.2")

    assert [each.text for each in result.steps] == [
        "replica 0: ticks",
        "replica 0: ticks",
        "0 → 1: Summary",
        "0 → 1: Summary",
    ]


def test_a_session_makes_its_calls_in_order() -> None:
    with pytest.raises(UsageError, match="must be a number below 1;"):
        explorer(get_scope("session")).replay("1")


def test_without_faults_a_stable_response_needs_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Witness, "has_stable", lambda *_: False)

    result = explorer(ONE_CALL).search(50_000)

    assert result.violation == ("call 0 has no stable response, although all messages have arrived")


def test_an_impossible_path_is_rejected() -> None:
    with pytest.raises(UsageError, match="step 2 is '99'"):
        explorer(ONE_CALL).replay("0.99")


def test_scopes_have_the_names_of_their_keys() -> None:
    assert all(name == scope.name for name, scope in SCOPES.items())
