"""Fast path: predictions of the leader's proposals."""

import pytest

from creekdb.protocol.consensus.delays import DelayEstimates
from creekdb.protocol.consensus.fast_path import FirstVoter
from creekdb.protocol.consensus.proposal_queue import DeadlineQueue
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Ballot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables
from tests.unit.protocol.consensus.test_proposal_queue import Requests

A, B, C, D = Dot(1, 1), Dot(2, 1), Dot(3, 1), Dot(4, 1)
OPEN, LATER = Ballot(6, 0), Ballot(12, 4)
"""Ballots of five voters whose fast quorums, (0, 1, 2) and (4, 0, 1), have replica 1."""
LIMIT = 100


class VoterHarness:
    """First voter of a replica of five. No delay is measured, so each request is due at once."""

    def __init__(self, replica: int = 1) -> None:
        self.shared = SharedVariables(replica, Settings(members=(0, 1, 2, 3, 4), fast_path=1))
        self.votes: list[tuple[Ballot, int, Batch]] = []
        self.requests = Requests()
        queue = DeadlineQueue(self.shared, self.requests, DelayEstimates(self.shared))
        self.voter = FirstVoter(self.shared, queue, self.requests.is_committed, self._cast)

    def _cast(self, ballot: Ballot, instance: int, batch: Batch) -> bool:
        self.votes.append((ballot, instance, batch))
        return True

    def vote(self, *ids: Dot, limit: int = LIMIT) -> list[tuple[Ballot, int, Batch]]:
        """Enqueue requests in the order of their timestamps, and return the new votes."""
        for id in ids:
            self.requests.timestamps[id] = 10 * id.replica
            self.voter.enqueue(id)
        self.voter.cast_due(limit)
        votes, self.votes = self.votes, []
        return votes


@pytest.fixture
def harness() -> VoterHarness:
    return VoterHarness()


def test_votes_follow_the_last_proposal_of_the_leader(harness: VoterHarness) -> None:
    harness.voter.on_proposal(OPEN, 7, (), opens=True)

    assert harness.vote(A, B) == [(OPEN, 8, (A,)), (OPEN, 9, (B,))]


def test_a_ballot_that_is_not_open_has_no_first_votes(harness: VoterHarness) -> None:
    harness.voter.on_proposal(OPEN, 7, (), opens=False)

    assert harness.vote(A) == []


def test_only_followers_in_the_fast_quorum_vote_first() -> None:
    for replica in (0, 3, 4):
        harness = VoterHarness(replica)
        harness.voter.on_proposal(OPEN, 7, (), opens=True)
        assert harness.vote(A) == []


def test_a_paused_leader_stops_first_votes(harness: VoterHarness) -> None:
    harness.voter.on_proposal(OPEN, 7, (), opens=True)
    harness.voter.on_proposal(OPEN, 8, (A,), opens=False)
    assert harness.vote(B) == []
    harness.voter.on_proposal(OPEN, 6, (), opens=False)  # a repeated proposal
    harness.voter.on_proposal(OPEN, 9, (), opens=True)
    assert harness.vote(C) == [(OPEN, 10, (C,))]


def test_a_request_that_the_leader_had_first_shifts_the_prediction(harness: VoterHarness) -> None:
    harness.voter.on_proposal(OPEN, 0, (), opens=True)
    assert harness.vote(B) == [(OPEN, 1, (B,))]
    harness.voter.on_proposal(OPEN, 1, (A,), opens=True)

    assert harness.vote(C) == [(OPEN, 3, (C,))]  # the leader proposes B in instance 2
    harness.voter.on_proposal(OPEN, 2, (B,), opens=True)
    assert harness.shared.probes.counts[Probe.FIRST_VOTE_MISSED] == 1
    assert harness.vote(A) == []


def test_a_request_that_the_leader_lacks_does_not_shift_the_prediction(
    harness: VoterHarness,
) -> None:
    harness.voter.on_proposal(OPEN, 0, (), opens=True)
    assert harness.vote(A, B) == [(OPEN, 1, (A,)), (OPEN, 2, (B,))]
    harness.voter.on_proposal(OPEN, 1, (B,), opens=True)
    assert harness.vote(C) == []  # the own first vote for B occupies instance 2
    harness.voter.on_proposal(OPEN, 2, (C,), opens=True)

    assert harness.vote(D) == [(OPEN, 3, (D,))]
    assert harness.shared.probes.counts[Probe.FIRST_VOTE_MISSED] == 2


def test_no_vote_is_cast_twice_or_beyond_the_window(harness: VoterHarness) -> None:
    harness.voter.on_proposal(OPEN, 0, (), opens=True)
    assert harness.vote(A, limit=1) == []
    assert harness.vote(B) == [(OPEN, 1, (B,))]
    harness.voter.on_delivered(B)

    assert harness.vote(C) == []  # instance 1 again, because no proposal has arrived
    harness.voter.on_proposal(OPEN, 1, (A,), opens=True)
    assert harness.vote(C) == [(OPEN, 2, (C,))]


def test_a_later_ballot_replaces_all_predictions(harness: VoterHarness) -> None:
    harness.voter.on_proposal(OPEN, 0, (), opens=True)
    harness.vote(A)
    harness.voter.on_proposal(LATER, 0, (), opens=True)
    harness.voter.on_proposal(OPEN, 5, (), opens=True)

    assert harness.vote(B) == [(LATER, 1, (B,))]
    harness.voter.reset()
    assert harness.vote(C) == []


def test_a_proposal_that_arrives_after_its_decision_is_not_retained(harness: VoterHarness) -> None:
    """Otherwise the identifier would remain for ever, because it is delivered only once."""
    harness.requests.committed.add(A)
    harness.voter.on_proposal(OPEN, 7, (A,), opens=True)

    assert not harness.voter._proposed
