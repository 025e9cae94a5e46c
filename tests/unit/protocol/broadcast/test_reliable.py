"""Reliable broadcast: delivered once, in each origin's order, and pulled when lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.broadcast.reliable import NEVER_CAST_ID, ReliableBroadcast
from creekdb.protocol.effects import Effects, Send
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Cast, Pull, PullResponse, Received, Summary
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.settings import Settings


def request(replica: int, event: int, name: str = "touch") -> Request:
    return Request(event, Dot(replica, event), Operation(name), False)


class World:
    """The gossip of replica 0 of three, or more."""

    def __init__(self, size: int = 3, **settings: int) -> None:
        self.settings = Settings(members=tuple(range(size)), **settings)
        self.outbox, self.probes = Outbox(), Probes()
        self.delivered: list[Request] = []
        self.refused: list[str] = []
        self.gossip = ReliableBroadcast(
            0,
            self.settings,
            self.outbox,
            self.probes,
            self.delivered.append,
            self.refused.append,
        )

    def effects(self) -> Effects:
        return self.outbox.take()

    def cast(self, *requests: Request) -> None:
        self.gossip.on_cast(Cast(requests))

    def delivered_ids(self) -> list[Dot]:
        return [each.id for each in self.delivered]


@pytest.fixture
def world() -> World:
    return World()


def test_a_request_issued_here_is_on_disk_before_it_is_pushed_to_all(world: World) -> None:
    world.gossip.cast(request(0, 1))
    effects = world.effects()
    assert effects.persist == (Received(request(0, 1)),)
    assert effects.send == (Send((1, 2), Cast((request(0, 1),))),)
    assert world.delivered == [], "its local delivery is the caller's"


def test_a_request_is_delivered_at_most_once(world: World) -> None:
    for _ in range(3):
        world.cast(request(1, 1))
    world.gossip.on_pulled(PullResponse((request(1, 1),)), 2)
    assert world.delivered_ids() == [Dot(1, 1)]
    assert world.effects().persist == (Received(request(1, 1)),)
    assert world.probes.counts[Probe.REQUEST_TWICE] == 3


def test_a_request_that_came_early_is_held_back(world: World) -> None:
    world.cast(request(1, 3), request(1, 2), request(2, 1))
    assert world.delivered_ids() == [Dot(2, 1)]
    assert [each.id for each in world.gossip.held_back()] == [Dot(1, 3), Dot(1, 2)]
    world.cast(request(1, 1))
    assert world.delivered_ids() == [Dot(2, 1), Dot(1, 1), Dot(1, 2), Dot(1, 3)]
    assert world.gossip.held_back() == ()


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 6)), max_size=30))
def test_each_replicas_requests_are_delivered_in_its_order_once(
    arrivals: list[tuple[int, int]],
) -> None:
    world = World()
    for replica, event in arrivals:
        world.cast(request(replica, event))
    for replica in (1, 2):
        delivered = [each.event for each in world.delivered_ids() if each.replica == replica]
        assert delivered == list(range(1, len(delivered) + 1))
        assert (replica, len(delivered) + 1) not in arrivals
    assert set(world.gossip.received) == {Dot(*each) for each in arrivals}
    assert set(world.gossip.delivered) == set(world.delivered_ids())
    persisted = [each.request.id for each in world.effects().persist if isinstance(each, Received)]
    assert sorted(persisted) == sorted({Dot(*each) for each in arrivals})


def test_a_summary_tells_everything_received_at_every_round() -> None:
    world = World(summary_ticks=2)
    world.cast(request(1, 1), request(1, 3))
    world.gossip.tick(1)
    assert world.effects().send == ()
    world.gossip.tick(2)
    assert world.effects().send == (Send((1, 2), Summary(Dots({1: (1, 2, 3, 4)}))),)


def test_what_a_peer_has_and_we_miss_is_pulled(world: World) -> None:
    world.cast(request(1, 2))
    world.gossip.on_summary(Summary(Dots({1: (1, 4), 2: (1, 2)})), 2)
    assert world.effects().send == (Send((2,), Pull(Dots({1: (1, 2, 3, 4), 2: (1, 2)}))),)


def test_a_peer_that_has_nothing_new_is_not_asked(world: World) -> None:
    world.cast(request(1, 1), request(1, 2))
    world.effects()
    world.gossip.on_summary(Summary(Dots({1: (1, 2)})), 2)
    assert world.effects().send == ()


def test_no_two_peers_are_asked_for_the_same_request_in_one_round() -> None:
    world = World(retry_ticks=1, summary_ticks=1)
    both = Summary(Dots({1: (1, 3)}))
    asked = []
    for ticks in range(1, 5):
        world.gossip.on_summary(both, 1)
        world.gossip.on_summary(both, 2)
        asked.append([each.to for each in world.effects().send])
        world.gossip.tick(ticks)
        world.effects()
    assert asked == [[(1,)], [(2,)], [(1,)], [(2,)]], "each round, it is another one's turn"


def test_everyone_who_has_a_request_is_asked_for_it_in_turn_however_rare_summaries_are() -> None:
    world = World(size=5, retry_ticks=1, summary_ticks=3)
    asked = []
    for ticks in range(1, 16):
        if ticks % 3 == 1:  # always in the same order, and nobody answers
            for peer in (1, 2, 3, 4):
                world.gossip.on_summary(Summary(Dots({1: (1, 3)})), peer)
            asked += [each.to for each in world.effects().send]
        world.gossip.tick(ticks)
        world.effects()
    assert asked[:4] == [(1,), (2,), (3,), (4,)]


def test_who_alone_has_a_request_is_asked_again_in_the_next_round() -> None:
    world = World(size=5, retry_ticks=1, summary_ticks=1)
    for ticks in range(1, 4):
        world.gossip.on_summary(Summary(Dots({1: (1, 3)})), 2)
        assert [each.to for each in world.effects().send] == [(2,)]
        world.gossip.tick(ticks)
        world.effects()


def pulls(world: World) -> list[tuple[int, Dots]]:
    sent = [each for each in world.effects().send if isinstance(each.message, Pull)]
    return [(each.to[0], each.message.wanted) for each in sent if isinstance(each.message, Pull)]


def test_a_large_difference_is_pulled_piece_by_piece_tick_by_tick() -> None:
    world = World(pull_limit=4, retry_ticks=8, summary_ticks=8)
    world.gossip.on_summary(Summary(Dots({1: (1, 10)})), 1)
    assert pulls(world) == [(1, Dots({1: (1, 5)}))]
    world.gossip.on_pulled(PullResponse(tuple(request(1, event) for event in range(1, 5))), 1)
    assert pulls(world) == [], "all have clients to attend to"
    world.gossip.tick(1)
    assert pulls(world) == [(1, Dots({1: (5, 7)}))]
    assert world.probes.counts[Probe.REQUEST_PULLED] == 4
    assert world.probes.counts[Probe.PULL_CONTINUED] == 1


def test_who_have_more_are_asked_in_turn() -> None:
    world = World(pull_limit=4, retry_ticks=8, summary_ticks=8)
    for peer in (1, 2):
        world.gossip.on_summary(Summary(Dots({1: (1, 20)})), peer)
    assert pulls(world) == [(1, Dots({1: (1, 5)}))]
    asked = []
    for ticks in (1, 2, 3):
        world.gossip.tick(ticks)
        asked += pulls(world)
    assert asked == [(1, Dots({1: (5, 7)})), (2, Dots({1: (7, 9)})), (1, Dots({1: (9, 11)}))]


def test_a_third_more_are_pulled_than_others_receive_meanwhile() -> None:
    world = World(pull_limit=8, retry_ticks=100, summary_ticks=100)
    world.gossip.on_summary(Summary(Dots({1: (1, 100)})), 1)
    assert [len(wanted) for _, wanted in pulls(world)] == [8]
    world.gossip.tick(1)
    assert [len(wanted) for _, wanted in pulls(world)] == [4], "nobody knows how many come"
    world.gossip.tick(2)
    world.gossip.on_summary(Summary(Dots({1: (1, 120)})), 1)
    pulls(world)
    for tick in (3, 4):
        world.gossip.tick(tick)
        asked = pulls(world)
        for _, wanted in asked:  # each answer is followed by the next, as long as it may pull
            world.gossip.on_pulled(PullResponse(tuple(request(*id) for id in wanted)), 1)
        asked += pulls(world)
        assert sum(len(wanted) for _, wanted in asked) == 13


@pytest.mark.parametrize("summaries", [1, 2, 4])
@pytest.mark.parametrize("ticks", [1, 3])
def test_the_pace_is_that_of_ones_own_ticks_however_fast_those_of_others_are(
    summaries: int, ticks: int
) -> None:
    """One who is busy has fewer of them, and summaries get lost; what was received meanwhile is the
    same."""
    world = World(pull_limit=8, retry_ticks=1000, summary_ticks=1000)
    told, tick = 1, 0
    for _ in range(4):
        for each in range(1, summaries + 1):
            world.gossip.on_summary(Summary(Dots({1: (1, told + each * 24)})), 2)
        told += 24 * summaries
        for _ in range(ticks):
            tick += 1
            world.gossip.tick(tick)
    assert world.gossip._receive_rates[2].per_tick == 24 * summaries // ticks


def test_summaries_that_come_in_waves_do_not_change_the_pace() -> None:
    world = World(pull_limit=8, retry_ticks=1000, summary_ticks=4)
    paces = []
    for tick in range(200):
        world.gossip.tick(tick)
        if tick % 8 in (0, 1):  # two at once, and then none for long
            world.gossip.on_summary(Summary(Dots({1: (1, 41 + 40 * tick)})), 2)
            paces.append(world.gossip._receive_rates[2].per_tick)
    assert paces == [0] + [40] * 49


def test_who_was_cut_off_for_long_does_not_pull_all_of_it_at_once() -> None:
    world = World(pull_limit=8, retry_ticks=1000, summary_ticks=4)
    world.gossip.on_summary(Summary(Dots({1: (1, 2)})), 1)
    for tick in range(1, 101):
        world.gossip.tick(tick)
    pulls(world)
    world.gossip.on_summary(Summary(Dots({1: (1, 1001)})), 1)  # some ten in each of these ticks
    pulls(world)
    world.gossip.tick(101)
    pulled = 0
    while asked := pulls(world):
        for _, wanted in asked:
            pulled += len(wanted)
            world.gossip.on_pulled(PullResponse(tuple(request(*id) for id in wanted)), 1)
    assert pulled == 9 + 3


def test_who_hears_of_requests_from_a_third_alone_keeps_up_with_them() -> None:
    world = World(pull_limit=8, retry_ticks=1, summary_ticks=1)

    def answer() -> None:
        for peer, wanted in pulls(world):
            world.gossip.on_pulled(PullResponse(tuple(request(*id) for id in wanted)), peer)

    for tick in range(1, 51):
        world.gossip.on_summary(Summary(Dots({1: (1, 1 + 12 * tick)})), 2)
        answer()
        world.gossip.tick(tick)
        answer()
    assert 12 * 50 - len(world.delivered) <= 12 * 3


def test_what_is_cast_far_ahead_is_not_kept_but_pulled_in_its_turn() -> None:
    world = World(pull_limit=1)
    world.cast(request(1, 17), request(1, 16))
    assert [each.id for each in world.gossip.held_back()] == [Dot(1, 16)]
    assert world.probes.counts[Probe.REQUEST_TOO_FAR] == 1
    world.cast(*(request(1, event) for event in range(1, 16)))
    assert len(world.delivered) == 16
    world.effects()
    world.gossip.on_summary(Summary(Dots({1: (1, 18)})), 1)
    assert pulls(world) == [(1, Dots({1: (17, 18)}))]


def test_who_is_far_behind_is_not_cast_to_until_it_is_closer() -> None:
    world = World(pull_limit=1, summary_ticks=1000)

    def cast_to(event: int) -> tuple[int, ...]:
        world.effects()
        world.gossip.cast(request(0, event))
        (sent,) = world.effects().send
        return sent.to

    world.gossip.on_summary(Summary(Dots({0: (1, 4)})), 1)  # of 2 nothing was heard
    for event in range(1, 36):
        assert cast_to(event) == (1, 2)
    world.gossip.tick(1)
    assert cast_to(36) == (1, 2), "32 are not too many"
    world.gossip.tick(2)
    assert cast_to(37) == (2,)
    assert world.probes.counts[Probe.CAST_SPARED] == 1
    world.gossip.on_summary(Summary(Dots({0: (1, 35)})), 1)
    world.gossip.tick(3)
    assert cast_to(38) == (1, 2)


def test_what_is_pulled_comes_in_the_order_of_its_timestamps(world: World) -> None:
    first, second, third = (
        Request(timestamp, id, Operation("touch"), False)
        for timestamp, id in ((1, Dot(2, 1)), (2, Dot(1, 1)), (3, Dot(2, 2)))
    )
    world.cast(second, first, third)
    world.effects()
    world.gossip.on_pull(Pull(Dots({1: (1, 2), 2: (1, 3)})), 1)
    assert world.effects().send == (Send((1,), PullResponse((first, second, third))),)


def test_what_was_on_disk_is_delivered_in_the_order_in_which_it_was_received(world: World) -> None:
    world.gossip.restore([request(2, 1), request(1, 2), request(1, 1), request(2, 2)])
    assert world.delivered_ids() == [Dot(2, 1), Dot(1, 1), Dot(1, 2), Dot(2, 2)]


def test_a_pull_is_answered_with_what_is_here_up_to_the_limit() -> None:
    world = World(pull_limit=2)
    for event in (1, 2, 3):
        world.gossip.cast(request(0, event))
    world.effects()
    world.gossip.on_pull(Pull(Dots({0: (2, 4)})), 2)
    assert world.effects().send == (Send((2,), PullResponse((request(0, 2), request(0, 3)))),)
    world.gossip.on_pull(Pull(Dots({0: (1, 4)})), 2)
    assert world.effects().send == (Send((2,), PullResponse((request(0, 1), request(0, 2)))),)


def test_a_pull_of_what_was_never_cast_is_counted_and_not_answered(world: World) -> None:
    world.gossip.on_pull(Pull(Dots({0: (1, 2**61)})), 2)
    assert world.refused == [NEVER_CAST_ID]
    assert world.effects().send == ()


def test_a_peer_that_pulls_what_is_forgotten_gets_the_rest(world: World) -> None:
    world.gossip.cast(request(0, 1))
    world.gossip.cast(request(0, 2))
    world.effects()
    world.gossip.discard_covered(Dots({0: (1, 2)}))
    world.gossip.on_pull(Pull(Dots({0: (1, 3)})), 1)
    assert world.effects().send == (Send((1,), PullResponse((request(0, 2),))),)
    assert world.probes.counts[Probe.PULL_OUTDATED] == 1


def test_what_every_member_has_is_forgotten() -> None:
    world = World(summary_ticks=1)
    for event in (1, 2, 3):
        world.gossip.cast(request(0, event))
    world.gossip.on_summary(Summary(Dots({0: (1, 4)})), 1)
    world.gossip.tick(1)
    assert Probe.REQUESTS_FORGOTTEN not in world.probes.counts, "replica 2 has not spoken"
    world.gossip.on_summary(Summary(Dots({0: (1, 2, 3, 4)})), 2)
    world.gossip.tick(2)
    assert world.probes.counts[Probe.REQUESTS_FORGOTTEN] == 1
    world.effects()
    world.gossip.on_pull(Pull(Dots({0: (1, 4)})), 2)
    assert world.effects().send == (Send((2,), PullResponse((request(0, 2), request(0, 3)))),)


def test_for_a_peer_that_lost_everything_all_is_kept_again() -> None:
    """What it said that it had, before, counts no more."""
    world = World(summary_ticks=1)
    world.gossip.cast(request(0, 1))
    everything = Summary(Dots({0: (1, 2)}))
    for peer in (1, 2):
        world.gossip.on_summary(everything, peer)
    world.gossip.tick(1)
    assert world.probes.counts[Probe.REQUESTS_FORGOTTEN] == 1

    world.gossip.retain_for(2, [request(0, 1)])
    world.gossip.tick(2)
    world.effects()
    world.gossip.on_pull(Pull(Dots({0: (1, 2)})), 2)
    assert world.effects().send == (Send((2,), PullResponse((request(0, 1),))),)

    world.gossip.on_summary(everything, 2)
    world.gossip.tick(3)
    assert world.probes.counts[Probe.REQUESTS_FORGOTTEN] == 2


def test_forgetting_does_not_walk_what_peers_claim_to_have() -> None:
    world = World(summary_ticks=1)
    world.gossip.cast(request(0, 1))
    for peer in (1, 2):
        world.gossip.on_summary(Summary(Dots({0: (1, 2**61), 1: (1, 2**61)})), peer)
    world.gossip.tick(1)
    assert world.probes.counts[Probe.REQUESTS_FORGOTTEN] == 1


def test_another_request_under_a_known_identifier_is_a_conflict(world: World) -> None:
    world.cast(request(1, 1))
    assert world.gossip.has_conflicting_request((request(1, 1, "other"),))
    assert not world.gossip.has_conflicting_request((request(1, 1),))
    assert not world.gossip.has_conflicting_request((request(1, 2),))


def test_a_checkpoint_brings_what_need_not_come_any_more(world: World) -> None:
    world.cast(request(1, 3), request(1, 5), request(1, 6))
    world.gossip.mark_delivered(Dots({1: (1, 5)}))
    assert world.delivered_ids() == [Dot(1, 5), Dot(1, 6)], "what waited for it is delivered"
    assert world.gossip.held_back() == ()
    world.cast(request(1, 2))
    assert world.delivered_ids() == [Dot(1, 5), Dot(1, 6)]


def test_a_checkpoint_with_a_hole_leaves_the_hole_to_be_delivered(world: World) -> None:
    world.gossip.mark_delivered(Dots({1: (1, 2, 3, 4)}))
    world.cast(request(1, 4))
    assert world.delivered == []
    world.cast(request(1, 2))
    assert world.delivered_ids() == [Dot(1, 2), Dot(1, 4)]


def test_requests_from_disk_are_delivered_again_ones_own_too(world: World) -> None:
    world.gossip.restore([request(1, 2), request(0, 1), request(1, 1), request(2, 2)])
    assert world.delivered_ids() == [Dot(0, 1), Dot(1, 1), Dot(1, 2)]
    assert [each.id for each in world.gossip.held_back()] == [Dot(2, 2)]
    assert world.effects().persist == (), "they are on disk"
    assert world.gossip.received.last(0) == 1


def test_gossip_alone_is_silent() -> None:
    outbox = Outbox()
    settings = Settings(members=(0,), summary_ticks=1)
    gossip = ReliableBroadcast(0, settings, outbox, Probes(), lambda _: None, lambda _: None)
    gossip.cast(request(0, 1))
    gossip.tick(1)
    assert outbox.take().send == ()


# --- causal contexts --------------------------------------------------------------------------


def strong(replica: int, event: int, context: Dots) -> Request:
    return Request(event, Dot(replica, event), Operation("touch"), True, context)


def test_a_strong_request_is_delivered_after_its_context(world: World) -> None:
    world.cast(strong(1, 1, Dots({2: (1, 3)})), request(1, 2))
    world.cast(request(2, 1))
    assert world.delivered_ids() == [Dot(2, 1)]
    world.cast(request(2, 2))
    assert world.delivered_ids() == [Dot(2, 1), Dot(2, 2), Dot(1, 1), Dot(1, 2)]


def test_a_checkpoint_may_bring_a_context(world: World) -> None:
    world.cast(strong(1, 1, Dots({2: (1, 9)})))
    world.gossip.mark_delivered(Dots({2: (1, 9)}))
    assert world.delivered_ids() == [Dot(1, 1)]


@pytest.mark.parametrize("first_missing", [1, 2])
def test_requests_that_wait_for_each_other_are_delivered_however_many_they_are(
    first_missing: int,
) -> None:
    world = World()
    chain = []
    for event in range(1, 1_001):
        seen: dict[int, tuple[int, ...]] = {1: (1, event), 2: (1, event)} if event > 1 else {}
        chain.append(strong(1, event, Dots(seen)))
        chain.append(strong(2, event, Dots({**seen, 1: (1, event + 1)})))
    late = chain.pop(first_missing - 1)
    world.cast(*chain)
    world.cast(late)
    assert len(world.delivered) == 2_000


def test_a_context_may_claim_any_number_of_requests() -> None:
    gossip = ReliableBroadcast(
        0,
        Settings(members=(0, 1, 2, 3, 4)),
        Outbox(),
        Probes(),
        lambda _: None,
        lambda _: None,
    )
    everything = (1, 2**62 - 1)
    gossip.on_cast(Cast((strong(1, 1, Dots({2: everything, 3: everything, 4: everything})),)))
    assert len(gossip.held_back()) == 1
