"""The learner: what decides an instance, in which order it is delivered, how others catch up."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.consensus.learner import BALLOTS_PER_INSTANCE_MAX, Learner
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Ballot, CatchUp, Decided, Decisions
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings

LOW, HIGH = Ballot(1, 1), Ballot(2, 2)
X: Batch = (Dot(1, 1),)
Y: Batch = (Dot(2, 1), Dot(1, 2))


class World:
    """A learner at replica 0 of `size`."""

    def __init__(self, size: int = 5, **settings: int) -> None:
        self.settings = Settings(members=tuple(range(size)), **settings)
        self.outbox, self.probes = Outbox(), Probes()
        self.learner = Learner(0, self.settings, self.outbox, self.probes)

    def decide(self, instance: int, batch: Batch) -> None:
        assert self.learner.on_decisions(1, instance, (batch,)) == [instance]
        self.outbox.take()

    def deliver(self) -> list[Dot]:
        delivered = []
        while (id := self.learner.next_to_deliver()) is not None:
            delivered.append(id)
            self.learner.advance_delivery()
        return delivered


@pytest.fixture
def world() -> World:
    return World()


def test_a_majority_in_one_ballot_decides(world: World) -> None:
    learner = world.learner
    assert not learner.on_proposal(LOW, 0, X)
    assert not learner.on_vote(LOW, 0, 1)
    assert not learner.on_vote(LOW, 0, 2)
    assert learner.on_vote(LOW, 0, 3)
    assert learner.decided == {0: X}
    assert learner.first_undecided == 1
    assert world.outbox.take().persist == (Decided(0, X),)


@pytest.mark.parametrize("order", list(permutations(["proposal", "one", "two", "three"])))
def test_votes_and_proposal_may_come_in_any_order(order: tuple[str, ...]) -> None:
    learner = World().learner
    inputs = {
        "proposal": lambda: learner.on_proposal(LOW, 0, X),
        "one": lambda: learner.on_vote(LOW, 0, 1),
        "two": lambda: learner.on_vote(LOW, 0, 2),
        "three": lambda: learner.on_vote(LOW, 0, 3),
    }
    results = [inputs[each]() for each in order]
    assert results == [False, False, False, True]
    assert learner.decided == {0: X}


def test_a_vote_that_comes_twice_counts_once(world: World) -> None:
    world.learner.on_proposal(LOW, 0, X)
    for _ in range(5):
        assert not world.learner.on_vote(LOW, 0, 1)
    assert not world.learner.is_decided(0)


def test_votes_of_different_ballots_are_not_added_up(world: World) -> None:
    world.learner.on_proposal(LOW, 0, X)
    world.learner.on_proposal(HIGH, 0, Y)
    for ballot, voter in ((LOW, 1), (LOW, 2), (HIGH, 3), (HIGH, 4)):
        assert not world.learner.on_vote(ballot, 0, voter)
    assert world.learner.on_vote(HIGH, 0, 0)
    assert world.learner.decided == {0: Y}


@given(st.lists(st.tuples(st.sampled_from([LOW, HIGH]), st.integers(0, 4)), max_size=20))
def test_exactly_a_majority_of_distinct_voters_in_a_ballot_decides(
    votes: list[tuple[Ballot, int]],
) -> None:
    learner = World().learner
    learner.on_proposal(LOW, 0, X)
    learner.on_proposal(HIGH, 0, Y)
    voters: dict[Ballot, set[int]] = {LOW: set(), HIGH: set()}
    expected: Batch | None = None
    for ballot, voter in votes:
        voters[ballot].add(voter)
        if expected is None and len(voters[ballot]) == 3:
            expected = X if ballot == LOW else Y
        learner.on_vote(ballot, 0, voter)
        assert learner.decided.get(0) == expected


def test_nothing_changes_what_is_decided(world: World) -> None:
    world.decide(0, X)
    assert not world.learner.on_proposal(HIGH, 0, Y)
    assert not any(world.learner.on_vote(HIGH, 0, voter) for voter in range(5))
    assert world.learner.on_decisions(2, 0, (Y,)) == []
    assert world.learner.decided == {0: X}
    assert world.outbox.take().persist == ()


def test_decisions_are_delivered_in_the_order_of_their_instances(world: World) -> None:
    world.decide(1, Y)
    assert world.probes.counts[Probe.DECIDED_OUT_OF_ORDER] == 1
    assert world.learner.next_to_deliver() is None
    world.decide(0, X)
    assert world.learner.first_undecided == 2
    assert world.deliver() == [*X, *Y]
    assert world.learner.delivered == 2


def test_an_empty_batch_delivers_nothing_and_is_passed(world: World) -> None:
    world.decide(0, ())
    world.decide(1, X)
    assert world.deliver() == [*X]
    assert world.learner.delivered == 2


def test_the_boundary_of_an_instance_is_where_no_batch_is_half_delivered(world: World) -> None:
    assert world.learner.is_at_batch_boundary()
    world.decide(0, Y)
    assert world.learner.is_at_batch_boundary()
    world.learner.next_to_deliver()
    world.learner.advance_delivery()
    assert not world.learner.is_at_batch_boundary()
    assert world.learner.delivered == 0
    world.learner.advance_delivery()
    assert world.learner.is_at_batch_boundary()
    assert world.learner.delivered == 1


@pytest.mark.parametrize("instance", [16, 17, 10**6, 2**61])
def test_nothing_is_kept_of_an_instance_beyond_the_horizon(instance: int) -> None:
    world = World(window=2)
    assert world.settings.horizon == 16
    assert not world.learner.on_proposal(LOW, instance, X)
    assert not any(world.learner.on_vote(LOW, instance, voter) for voter in range(5))
    assert world.learner.on_decisions(1, instance, (X,)) == []
    assert world.learner._tallies == {}
    assert world.learner.decided == {}
    assert world.outbox.take().persist == ()


def test_the_last_instance_before_the_horizon_can_be_decided() -> None:
    world = World(window=2)
    world.learner.on_proposal(LOW, 15, X)
    assert [world.learner.on_vote(LOW, 15, voter) for voter in (1, 2, 3)] == [False, False, True]


def test_only_so_many_ballots_are_counted_for_one_instance(world: World) -> None:
    for round_ in range(1, 20):
        world.learner.on_vote(Ballot(round_, 1), 0, 1)
    assert list(world.learner._tallies[0]) == [
        Ballot(round_, 1) for round_ in range(20 - BALLOTS_PER_INSTANCE_MAX, 20)
    ]


def test_a_peer_is_told_the_decisions_it_asks_for_up_to_a_limit() -> None:
    world = World(catch_up_limit=2)
    for instance, batch in enumerate((X, Y, (), X)):
        world.decide(instance, batch)
    assert world.learner.on_catch_up(3, 1)
    (send,) = world.outbox.take().send
    assert (send.to, send.message) == ((3,), Decisions(1, (Y, ())))


@pytest.mark.parametrize("first", [4, 5, 2**61])
def test_a_peer_that_asks_for_what_is_not_decided_gets_no_answer(world: World, first: int) -> None:
    world.decide(0, X)
    assert world.learner.on_catch_up(3, first)
    assert world.outbox.take().send == ()


def test_a_peer_that_asks_for_what_is_forgotten_is_not_answered_with_decisions(
    world: World,
) -> None:
    world.decide(0, X)
    world.decide(1, Y)
    world.deliver()
    world.learner.discard_below(1)
    assert not world.learner.on_catch_up(3, 0)
    assert world.learner.on_catch_up(3, 1)
    assert world.probes.counts[Probe.DECISIONS_FORGOTTEN] == 1


def asked(world: World, ticks: range, blocked: bool = False) -> list[tuple[int, int, int]]:
    """When whom was asked for what."""
    found = []
    for now in ticks:
        world.learner.request_catch_up_if_stalled(now, blocked)
        for send in world.outbox.take().send:
            assert isinstance(send.message, CatchUp)
            found.append((now, send.to[0], send.message.first))
    return found


def test_a_stalled_learner_asks_those_who_are_ahead_in_turn_and_ever_less_often() -> None:
    world = World(retry_ticks=3)
    world.learner.on_progress(2, 3, 0)
    world.learner.on_progress(4, 7, 0)
    assert asked(world, range(3)) == []
    assert asked(world, range(3, 25)) == [(3, 2, 0), (9, 4, 0), (21, 2, 0)]


def test_who_is_far_behind_asks_at_the_next_heartbeat_once() -> None:
    world = World(retry_ticks=8, heartbeat_ticks=2, window=4)
    world.learner.on_progress(2, 32, 0)
    assert asked(world, range(20)) == [(2, 2, 0), (18, 2, 0)]
    world.learner.on_progress(4, 33, 0)
    world.decide(0, X)
    assert asked(world, range(20, 30), blocked=True) == [(28, 2, 0)]


def test_progress_starts_the_patience_of_a_learner_anew() -> None:
    world = World(retry_ticks=3)
    world.learner.on_progress(2, 9, 0)
    assert asked(world, range(4)) == [(3, 2, 0)]
    world.decide(0, X)
    assert asked(world, range(4, 9)) == [(7, 2, 1)]


def test_a_learner_that_is_ahead_asks_nobody(world: World) -> None:
    world.decide(0, X)
    world.learner.on_progress(2, 1, 0)
    assert asked(world, range(100)) == []


def test_a_learner_whose_delivery_is_blocked_asks_for_what_it_has_decided(world: World) -> None:
    world.decide(0, X)
    world.learner.on_progress(2, 1, 0)
    assert asked(world, range(10), blocked=True) == [(8, 2, 0)]


def test_one_decision_is_told_or_forgotten(world: World) -> None:
    world.decide(3, X)
    assert world.learner.send_decision(2, 3)
    (send,) = world.outbox.take().send
    assert (send.to, send.message) == ((2,), Decisions(3, (X,)))
    assert not world.learner.send_decision(2, 2)


def test_a_learner_that_caught_up_in_part_asks_for_more(world: World) -> None:
    world.learner.on_progress(2, 5, 0)
    assert world.learner.on_decisions(2, 0, (X, Y)) == [0, 1]
    (send,) = world.outbox.take().send
    assert (send.to, send.message) == ((2,), CatchUp(2))


def test_progress_never_goes_back(world: World) -> None:
    world.learner.on_progress(2, 5, 4)
    world.learner.on_progress(2, 3, 2)
    assert world.learner.progress_of(2) == 5
    assert world.learner.stable_instance_of(2) == 4
    assert world.learner.progress_of(3) == world.learner.stable_instance_of(3) == 0


def test_a_decision_is_kept_until_everyone_delivered_it_and_we_need_it_no_more(
    world: World,
) -> None:
    for instance in range(3):
        world.decide(instance, ())
    world.deliver()
    for peer, progress in ((1, 3), (2, 2), (3, 3)):
        world.learner.on_progress(peer, progress, 0)
    world.learner.discard_delivered_by_all(3)
    assert list(world.learner.decided) == [0, 1, 2], "nothing is known of replica 4"
    world.learner.on_progress(4, 3, 0)
    world.learner.discard_delivered_by_all(1)
    assert list(world.learner.decided) == [1, 2]
    world.learner.discard_delivered_by_all(3)
    assert list(world.learner.decided) == [2]
    assert world.learner.first_retained == 2


def test_a_checkpoint_takes_the_place_of_decisions(world: World) -> None:
    world.decide(0, Y)
    world.learner.next_to_deliver()
    world.learner.advance_delivery()
    world.decide(5, X)
    world.learner.on_vote(LOW, 2, 1)
    world.learner.on_vote(LOW, 6, 1)
    world.learner.install(5)
    assert world.learner.decided == {5: X}
    assert list(world.learner._tallies) == [6]
    assert world.learner.first_retained == world.learner.delivered == 5
    assert world.learner.first_undecided == 6
    assert world.deliver() == [*X]


def test_a_checkpoint_that_is_behind_is_not_installed(world: World) -> None:
    world.decide(0, X)
    world.deliver()
    with pytest.raises(AssertionError):
        world.learner.install(0)


def test_a_restart_knows_its_decisions_also_across_a_hole(world: World) -> None:
    world.learner.restore({0: X, 1: Y, 3: X})
    assert world.learner.first_undecided == 2
    assert world.deliver() == [*X, *Y]
    assert world.learner.is_decided(3)


def test_a_restart_from_a_checkpoint_drops_what_it_covers(world: World) -> None:
    world.learner.install(2)
    world.learner.restore({0: X, 1: X, 2: Y})
    assert world.learner.decided == {2: Y}
    assert world.deliver() == [*Y]
