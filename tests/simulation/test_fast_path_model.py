"""The fast path is safe in every state of small scopes, and each of its rules is necessary."""

import pytest

from tests.simulation.fast_path_model import Rules, Scope, Term, search

SCOPES = {
    "three": Scope(3, (Term(0, (0, 1)), Term(1, (1, 2))), values=3),
    "three-ballots": Scope(3, (Term(0, (0, 1)), Term(1, (1, 2)), Term(2, (0, 2)))),
    "four": Scope(4, (Term(0, (0, 1, 2)), Term(3, (1, 2, 3))), values=3),
    "five": Scope(5, (Term(0, (0, 1, 2)), Term(1, (1, 3, 4))), values=3),
    "five-new-leader": Scope(5, (Term(0, (0, 1, 2)), Term(4, (0, 3, 4))), values=3),
    "lost-leader": Scope(3, (Term(0, (0, 1)), Term(0, (), True), Term(2, (1, 2)))),
    "lost-follower": Scope(3, (Term(0, (0, 1)), Term(1, (), True), Term(2, (1, 2)))),
    "lost-later-leader": Scope(
        3, (Term(0, (0, 1)), Term(1, (1, 2)), Term(1, (), True), Term(2, (0, 2)))
    ),
}
STATES = {
    "three": 436,
    "three-ballots": 9_814,
    "four": 5_167,
    "five": 31_166,
    "five-new-leader": 28_656,
    "lost-leader": 1_863,
    "lost-follower": 1_868,
    "lost-later-leader": 42_377,
}
VIOLATED_IN = {
    "fast_quorum_is_complete": "three",
    "fast_decision_needs_leader": "three",
    "majority_counts_second_votes_only": "five",
    "first_votes_are_recorded": "three",
    "first_votes_respect_promises": "three",
    "first_votes_wait_for_leader": "three-ballots",
    "leader_proposes_once": "three",
    "promises_report_first_votes": "three",
    "recovery_prefers_second_votes": "three",
    "recovery_compares_ballots": "three-ballots",
    "quorum_is_fixed": "three",
    "lost_disk_restores_first_votes": "lost-leader",
}
"""A scope in which the protocol without the rule chooses two values."""


@pytest.mark.parametrize("name", SCOPES)
def test_no_reachable_state_has_two_chosen_values(name: str) -> None:
    result = search(SCOPES[name])

    assert result.violation is None
    assert result.states == STATES[name]
    assert result.fast_decisions > 0, "no fast quorum chose a value before a majority did"


def test_every_rule_has_a_scope_in_which_it_is_necessary() -> None:
    assert set(VIOLATED_IN) == set(Rules._fields)


@pytest.mark.parametrize("rule", VIOLATED_IN)
def test_each_rule_is_necessary(rule: str) -> None:
    result = search(SCOPES[VIOLATED_IN[rule]], Rules()._replace(**{rule: False}))

    assert result.violation is not None
