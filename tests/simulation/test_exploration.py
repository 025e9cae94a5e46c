"""Exploration of the smallest scopes, and the planted faults that it must find."""

import json
import os
import subprocess
import sys

import pytest

from creekdb.execution.python_runtime import build_kind
from creekdb.exploration.scope import get_scope
from creekdb.exploration.search import Exploration, Explorer
from creekdb.schemes.registry import get_spec
from tests.docs.exploration import counts_of, stated_counts
from tests.mutants.catalogue import Mutant, consensus, ordering, release
from tests.mutants.planting import plant

STATES_MAX = 60_000

MUTANTS = {
    each.name: each
    for each in (*consensus.MUTANTS, *ordering.MUTANTS, *release.MUTANTS)
    if isinstance(each, Mutant)
}
CAUGHT_BY = {
    # acceptor
    "votes_before_predicate_holds": "smallest",
    "accepts_below_promised_ballot": "rival-leaders",
    "promise_omits_accepted_value": "two-strong-leader-change",
    "votes_before_accepted_value_is_durable": "smallest",
    "loses_promise_on_restart": "crash-and-leader-change",
    # learner
    "decides_without_majority_of_votes": "smallest",
    "sends_decisions_with_wrong_instances": "partition",
    # leader
    "ignores_accepted_values_of_promises": "two-strong-leader-change",
    "leads_without_majority_of_promises": "two-strong-leader-change",
    "reuses_recovered_instance": "two-strong-leader-change",
    # ordering
    "context_omits_tentative": "session",
    "commits_in_identifier_order": "noop",
    "leaves_context_request_tentative": "noop",
    "commits_request_before_its_context": "smallest",
    "commits_requests_outside_context": "smallest",
    "commit_rolls_nothing_back": "smallest",
    # broadcast
    "rb_delivers_twice": "lossy",
    # responses
    "stable_response_before_commit": "smallest",
    "final_response_hides_change": "smallest",
    # release
    "vote_leaves_before_its_record": "crash",
    "promise_leaves_before_its_record": "crash",
    "cast_leaves_before_its_request": "crash",
    "response_leaves_before_its_request": "crash",
    "proposal_leaves_before_its_request": "late-contexts-crash",
}
"""Scope in which the exploration finds each mutant."""


def explore(scope: str, scheme: str) -> Exploration:
    return Explorer(get_scope(scope), get_spec(scheme)).search(STATES_MAX)


def test_the_smallest_scope_is_exhausted_without_violation() -> None:
    assert counts_of(explore("smallest", "creek")) == stated_counts()["smallest"]
    assert counts_of(explore("smallest", "basic"))[:2] == (2_300, 7_309)


@pytest.mark.parametrize("scheme", ["creek", "basic", "differential"])
def test_extended_contexts_are_explored_without_violation(scheme: str) -> None:
    counts = counts_of(explore("late-contexts", scheme))

    assert scheme != "creek" or counts == stated_counts()["late-contexts"]


def test_a_crash_of_the_leader_frees_no_event_number_of_a_cut() -> None:
    counts = counts_of(explore("late-contexts-crash", "creek"))

    assert counts == stated_counts()["late-contexts-crash"]


def test_the_number_of_states_does_not_depend_on_the_hash_seed() -> None:
    command = [sys.executable, "-m", "creekdb", "explore", "noop", "--operations", "1", "--json"]
    counts = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        shown = subprocess.run(command, env=env, capture_output=True, check=True).stdout
        result = json.loads(shown)
        counts.append([result[name] for name in ("states", "transitions", "local_states")])

    assert counts[0] == counts[1]


@pytest.mark.skipif(build_kind() != "interpreted", reason="code of compiled functions is fixed")
@pytest.mark.parametrize("name", CAUGHT_BY)
def test_planted_faults_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    plant(mutant, monkeypatch)

    result = explore(CAUGHT_BY[name], mutant.scheme)

    assert result.violation is not None
    scope, scheme = get_scope(CAUGHT_BY[name]), get_spec(mutant.scheme)
    replayed = Explorer(scope, scheme).replay(result.path)
    assert replayed.violation == result.violation
    assert replayed.steps == result.steps
