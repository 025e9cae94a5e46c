"""Ω: election, suspicion and indirect trust."""

from collections.abc import Iterable

import pytest

from creekdb.protocol.consensus.omega import NO_BALLOT, Omega
from creekdb.protocol.effects import Send
from creekdb.protocol.messages import Ballot, Heartbeat
from creekdb.protocol.probes import Probe
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables

ALL_MEMBERS = (0, 1, 2, 3, 4)


class OmegaHarness:
    """Oracle of one replica, by default replica 2 of five."""

    def __init__(
        self, index: int = 2, members: tuple[int, ...] = ALL_MEMBERS, acceptors: int = 0
    ) -> None:
        self.settings = Settings(
            members=members, acceptors=acceptors, heartbeat_ticks=2, suspect_ticks=4
        )
        self.shared = SharedVariables(index, self.settings)
        self.outbox, self.probes = self.shared.outbox, self.shared.probes
        self.omega = Omega(self.shared)

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.shared.ticks += 1
            self.omega.tick()

    def receive_heartbeats(
        self,
        senders: Iterable[int],
        ballot: Ballot = NO_BALLOT,
        leader: int | None = None,
        reachable: tuple[int, ...] = ALL_MEMBERS,
    ) -> None:
        for sender in senders:
            self.omega.on_heartbeat(Heartbeat(ballot, leader, reachable), sender)


@pytest.fixture
def harness() -> OmegaHarness:
    return OmegaHarness()


@pytest.mark.parametrize("senders", [[], [3]])
def test_no_leader_is_trusted_without_a_reachable_majority(
    harness: OmegaHarness, senders: list[int]
) -> None:
    harness.receive_heartbeats(senders, reachable=(2, 3))
    harness.tick()
    assert harness.omega.leader is None


def test_able_replica_with_the_lowest_number_is_trusted_first(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0, 1, 3, 4])
    harness.tick()
    assert harness.omega.leader == 0


def test_replica_without_mutual_links_to_a_majority_is_not_able(harness: OmegaHarness) -> None:
    """The promises of the members it reaches would not arrive."""
    harness.receive_heartbeats([0], reachable=(0, 1, 2))
    harness.receive_heartbeats([1], reachable=(1, 2, 3, 4))
    harness.receive_heartbeats([3, 4], reachable=(0, 1, 2, 3, 4))
    harness.tick()
    assert harness.omega.leader == 1


def test_replica_that_reaches_a_minority_is_not_able(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0], reachable=(0, 1))
    harness.receive_heartbeats([1, 3, 4])
    harness.tick()
    assert harness.omega.leader == 1


def test_owner_of_the_greatest_ballot_stays_leader(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0, 1, 3], ballot=Ballot(1, 3))
    harness.tick()
    assert harness.omega.leader == 3
    harness.receive_heartbeats([0], ballot=Ballot(2, 1))
    assert harness.omega.leader == 1, "a greater ballot takes effect at once"


def test_lower_ballot_is_ignored(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0, 1, 3], ballot=Ballot(5, 3))
    harness.omega.observe(Ballot(4, 1))
    harness.tick()
    assert harness.omega.max_ballot == Ballot(5, 3)
    assert harness.omega.leader == 3


def test_silent_leader_is_suspected_and_replaced(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0, 1, 3, 4], ballot=Ballot(1, 3))
    harness.tick()
    assert harness.omega.leader == 3
    for _ in range(5):
        harness.receive_heartbeats([0, 1, 4], ballot=Ballot(1, 3))
        harness.tick()
    assert harness.omega.leader == 0


def test_wrong_suspicion_increases_the_timeout(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([3])
    gaps = [harness.settings.suspect_ticks + 1, 7, 10]
    for ticks in gaps:
        harness.tick(ticks)
        harness.receive_heartbeats([3])
    assert harness.probes.counts[Probe.SUSPECTED_WRONGLY] == 3
    harness.tick(13)
    harness.receive_heartbeats([3])
    assert harness.probes.counts[Probe.SUSPECTED_WRONGLY] == 3, "13 ticks are within the timeout"


def test_timeout_is_bounded(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([3])
    for _ in range(20):
        harness.tick(harness.settings.suspect_ticks_max + 1)
        harness.receive_heartbeats([3])
    assert harness.probes.counts[Probe.SUSPECTED_WRONGLY] == 20


def test_unreachable_leader_trusted_by_a_majority_is_followed(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0, 1, 4], ballot=Ballot(1, 3), leader=3)
    harness.tick()
    assert harness.omega.leader == 3
    assert harness.probes.counts[Probe.LEADER_TRUSTED_INDIRECTLY] == 1


def test_unreachable_leader_trusted_by_a_minority_is_not_followed(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0], ballot=Ballot(1, 3), leader=3)
    harness.receive_heartbeats([1, 4], ballot=Ballot(1, 3), leader=None)
    harness.tick()
    assert harness.omega.leader == 0


def test_heartbeat_names_only_a_directly_reachable_leader(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0, 1, 4], ballot=Ballot(1, 3), leader=3)
    harness.tick(2)
    (send,) = harness.outbox.take().send
    assert send == Send((0, 1, 3, 4), Heartbeat(Ballot(1, 3), None, (0, 1, 2, 4)))


def test_heartbeat_contains_ballot_leader_and_reachable_members(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0, 1, 3], ballot=Ballot(1, 3))
    harness.tick()
    assert harness.outbox.take().send == ()
    harness.tick()
    (send,) = harness.outbox.take().send
    assert send == Send((0, 1, 3, 4), Heartbeat(Ballot(1, 3), 3, (0, 1, 2, 3)))


def test_replica_that_reaches_a_majority_may_trust_itself() -> None:
    harness = OmegaHarness(index=0)
    harness.receive_heartbeats([3, 4])
    harness.tick()
    assert harness.omega.leader == 0


def test_isolated_replica_trusts_no_leader(harness: OmegaHarness) -> None:
    harness.receive_heartbeats([0, 1, 3, 4], ballot=Ballot(1, 2))
    harness.tick()
    assert harness.omega.leader == 2
    harness.tick(10)
    assert harness.omega.leader is None


def test_single_replica_leads_without_messages() -> None:
    harness = OmegaHarness(index=0, members=(0,))
    harness.tick(5)
    assert harness.omega.leader == 0
    assert harness.outbox.take().send == ()


# --- configurations with non-voters ---------------------------------------------------------------


def test_primary_leads_without_reachable_peers() -> None:
    harness = OmegaHarness(index=0, acceptors=1)
    harness.tick()
    assert harness.omega.leader == 0
    harness.receive_heartbeats([1, 2, 3, 4], reachable=())
    harness.tick(20)
    assert harness.omega.leader == 0


@pytest.mark.parametrize("acceptors", [1, 2])
def test_non_voter_is_never_trusted(acceptors: int) -> None:
    harness = OmegaHarness(acceptors=acceptors)
    harness.receive_heartbeats([3, 4], leader=2)
    harness.tick()
    assert harness.omega.leader is None, "not even by itself"


def test_reachable_primary_is_trusted_by_non_voters() -> None:
    harness = OmegaHarness(acceptors=1)
    harness.receive_heartbeats([0], reachable=(0,))
    harness.tick()
    assert harness.omega.leader == 0


def test_majority_counts_voters_only() -> None:
    harness = OmegaHarness(acceptors=3)
    harness.receive_heartbeats([0, 3, 4], reachable=(0, 3, 4))
    harness.tick()
    assert harness.omega.leader is None, (
        "replica 0 reaches three of five members, but one of three voters"
    )
    harness.receive_heartbeats([0, 1], reachable=(0, 1))
    harness.tick()
    assert harness.omega.leader == 0


def test_indirect_trust_needs_a_majority_of_voters() -> None:
    harness = OmegaHarness(acceptors=3)
    harness.receive_heartbeats([3, 4], ballot=Ballot(1, 1), leader=1)
    harness.tick()
    assert harness.omega.leader is None, "only two non-voters trust the owner"
    harness.receive_heartbeats([0], ballot=Ballot(1, 1), leader=1, reachable=(0,))
    harness.tick()
    assert harness.omega.leader == 1
