"""Exploration of the fast path with the real replicas, in every state of small scopes."""

import pytest

from creekdb.exploration.scope import get_scope
from creekdb.exploration.search import Explorer
from creekdb.schemes.registry import get_spec

STATES = {
    "fast-path": 8_965,
    "fast-path-leader-change": 12_106,
    "fast-path-new-quorum": 6_502,
    "fast-path-late-contexts": 1_049,
}
"""Number of states of each scope."""


@pytest.mark.parametrize("scope", STATES)
def test_no_state_of_the_fast_path_violates_a_property(scope: str) -> None:
    result = Explorer(get_scope(scope), get_spec("creek")).search(sum(STATES.values()))

    assert result.violation is None
    assert result.is_exhausted
    assert result.states == STATES[scope]
