"""Fast quorums: their names, their choice by the leader, and pauses of the fast path."""

import pytest

from creekdb.checkers import quorums
from creekdb.protocol.consensus.delays import DelayEstimates
from creekdb.protocol.consensus.fast_quorums import (
    CHANGE_FACTOR,
    PAUSE,
    PAUSE_MAX,
    SAMPLE,
    FastPathControl,
    ballot_of_quorum,
    fast_quorum,
)
from creekdb.protocol.messages import Ballot
from creekdb.protocol.probes import Probe
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables

MEMBERS = (0, 1, 2, 3, 4)
FIRST = Ballot(1, 0)
Absent = tuple[int, ...] | None


class ControlHarness:
    """Control of replica 0, which leads five replicas. Each decides after it has proposed."""

    def __init__(self) -> None:
        self.shared = SharedVariables(0, Settings(members=MEMBERS, fast_path=1))
        self.delays = DelayEstimates(self.shared)
        self.reachable: tuple[int, ...] = MEMBERS
        self.control = FastPathControl(self.shared, self.delays, lambda: self.reachable)
        self.instance = 0
        self.ballot = self.control.choose(FIRST)
        self.decide(None)  # opens the ballot

    @property
    def quorum(self) -> tuple[int, ...]:
        return fast_quorum(MEMBERS, self.ballot)

    @property
    def pauses(self) -> int:
        return self.shared.probes.counts.get(Probe.FAST_PATH_PAUSED, 0)

    def decide(self, absent: Absent, count: int = 1) -> None:
        """Propose and decide instances, each without the votes of these members in time."""
        for _ in range(count):
            self.control.on_proposed(self.instance, is_open=self.control.is_on)
            self.control.on_decided(self.instance, absent)
            self.instance += 1

    def change(self) -> bool:
        """Let a tick pass; True if it changes the fast quorum."""
        self.shared.ticks += 1
        if not self.control.must_change(self.ballot):
            return False
        self.ballot = self.control.choose(Ballot(self.ballot.round + 1, 0))
        self.decide(None)
        return True

    def pause_length(self) -> int:
        """Decide until the pause ends."""
        length = 0
        while not self.control.is_on:
            self.decide(())
            length += 1
        self.decide(None)  # opens the ballot again
        return length


@pytest.fixture
def harness() -> ControlHarness:
    return ControlHarness()


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(1, 8))
def test_a_fast_quorum_is_a_majority_with_the_owner(size: int) -> None:
    voters = tuple(range(size))
    named = {fast_quorum(voters, Ballot(each, size - 1)) for each in range(1, 40)}

    for quorum in named:
        assert quorum[0] == size - 1
        assert len(set(quorum)) == len(quorum) == size // 2 + 1
    assert {each for quorum in named for each in quorum} == set(voters)


@pytest.mark.parametrize("size", range(1, 8))
def test_replicas_and_checkers_agree_on_fast_quorums(size: int) -> None:
    voters = tuple(range(size))
    ballots = [Ballot(each, owner) for each in range(1, 40) for owner in voters]

    assert all(fast_quorum(voters, each) == quorums.fast_quorum(voters, each) for each in ballots)


@pytest.mark.parametrize("size", range(1, 8))
def test_the_lowest_ballot_that_names_a_quorum_is_found(size: int) -> None:
    voters = tuple(range(size))
    for owner in voters:
        for round in range(1, 40):
            quorum = fast_quorum(voters, Ballot(round, owner))
            found = ballot_of_quorum(voters, Ballot(7, owner), set(quorum))
            assert fast_quorum(voters, found) == quorum
            names = [fast_quorum(voters, Ballot(each, owner)) for each in range(7, found.round)]
            assert found.round >= 7
            assert quorum not in names


def test_a_quorum_of_many_voters_is_named_without_listing_all_quorums() -> None:
    voters = tuple(range(99))
    ballot = Ballot(10**12, 3)
    quorum = fast_quorum(voters, ballot)

    assert len(set(quorum)) == 50
    assert ballot_of_quorum(voters, ballot, set(quorum)) == ballot


def test_a_choice_among_many_quorums_skips_no_rounds() -> None:
    """Others reject a ballot that skips 2**32 rounds, and an epoch has 2**40."""
    voters = tuple(range(41))
    chosen = ballot_of_quorum(voters, FIRST, set(voters[-20:]))
    largest = ballot_of_quorum(voters[:23], FIRST, set(voters[12:23]))

    assert chosen == FIRST
    assert len(set(fast_quorum(voters, chosen))) == 21
    assert fast_quorum(voters[:23], largest) == (0, *voters[12:23])


# --- choice ---------------------------------------------------------------------------------------


def test_a_quorum_has_the_members_with_the_shortest_delays(harness: ControlHarness) -> None:
    for member, delay_us in ((1, 900), (2, 200), (3, 800), (4, 300)):
        harness.delays.add(member, delay_us)

    assert fast_quorum(MEMBERS, harness.control.choose(FIRST)) == (0, 2, 4)


def test_members_without_a_measured_delay_come_last(harness: ControlHarness) -> None:
    harness.delays.add(4, 90_000)

    assert fast_quorum(MEMBERS, harness.control.choose(FIRST)) == (0, 1, 4)


def test_a_suspected_member_is_replaced(harness: ControlHarness) -> None:
    assert harness.quorum == (0, 1, 2)
    assert not harness.change()
    harness.reachable = (0, 1, 3, 4)

    assert harness.change()
    assert harness.quorum == (0, 1, 3)
    assert not harness.change()


def test_an_absent_member_is_replaced_after_one_sample(harness: ControlHarness) -> None:
    harness.decide((1,), SAMPLE - 1)
    assert not harness.change()
    harness.decide((1,))

    assert harness.change()
    assert harness.quorum == (0, 2, 3)
    assert not harness.pauses


def test_a_member_that_votes_in_time_is_not_replaced(harness: ControlHarness) -> None:
    """Its first votes are wrong, or every other member is sometimes the faster one."""
    for each in range(SAMPLE):
        harness.decide((1 + each % 2,))

    assert not harness.change()
    assert harness.pauses == 1


def test_no_ballot_is_started_without_a_better_quorum(harness: ControlHarness) -> None:
    harness.reachable = (0, 1, 2)
    for _ in range(3):
        harness.decide((2,), SAMPLE)
        assert not harness.change()
        assert harness.pause_length()
    assert harness.pauses == 3

    harness.reachable = (0, 1)
    assert not harness.change()


def test_the_time_between_two_changes_doubles_until_a_sample_is_good(
    harness: ControlHarness,
) -> None:
    suspect_ticks = harness.shared.settings.suspect_ticks
    suspected = (harness.quorum[-1],)
    waits = []
    for _ in range(4):
        waited = 0
        harness.reachable = tuple(each for each in MEMBERS if each not in suspected)
        while not harness.change():
            waited += 1
        waits.append(waited)
        suspected = (harness.quorum[-1],)
    assert waits == [
        0,
        CHANGE_FACTOR * suspect_ticks - 1,
        2 * CHANGE_FACTOR * suspect_ticks - 1,
        4 * CHANGE_FACTOR * suspect_ticks - 1,
    ]

    harness.decide(None, SAMPLE)
    harness.shared.ticks += 8 * CHANGE_FACTOR * suspect_ticks
    harness.reachable = tuple(each for each in MEMBERS if each not in suspected)
    assert harness.change()
    harness.reachable = tuple(each for each in MEMBERS if each != harness.quorum[-1])
    harness.shared.ticks += CHANGE_FACTOR * suspect_ticks - 1
    assert harness.change()


# --- pauses ---------------------------------------------------------------------------------------


def test_the_fast_path_pauses_if_less_than_half_of_a_sample_is_fast(
    harness: ControlHarness,
) -> None:
    for each in range(SAMPLE):
        harness.decide(None if each % 2 else ())
    assert harness.pauses == 0
    for each in range(SAMPLE):
        harness.decide(None if each % 2 and each > 1 else ())

    assert harness.pauses == 1
    assert harness.pause_length() == PAUSE


def test_a_pause_is_twice_as_long_as_the_one_before(harness: ControlHarness) -> None:
    lengths = []
    for _ in range(9):
        harness.decide((), SAMPLE)
        lengths.append(harness.pause_length())
    assert lengths[:3] == [PAUSE, 2 * PAUSE, 4 * PAUSE]
    assert lengths[-1] == lengths[-2] == PAUSE_MAX

    harness.decide(None, SAMPLE)
    harness.decide((), SAMPLE)
    assert harness.pause_length() == PAUSE


def test_decisions_are_judged_only_after_followers_can_predict_them(
    harness: ControlHarness,
) -> None:
    """They follow the leader once the first open proposal has arrived."""
    harness.control.choose(Ballot(20, 0))
    harness.control.on_proposed(100, is_open=False)  # recovered
    for instance in range(101, 101 + 2 * SAMPLE):
        harness.control.on_proposed(instance, is_open=True)
    for instance in range(100, 101 + 2 * SAMPLE):
        harness.control.on_decided(instance, ())
    assert harness.pauses == 0

    harness.instance = 101 + 2 * SAMPLE
    harness.decide((), SAMPLE)
    assert harness.pauses == 1
