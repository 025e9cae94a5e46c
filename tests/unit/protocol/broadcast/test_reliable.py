"""Reliable broadcast: requests are delivered once, in issue order, and pulled after a loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.broadcast.reliable import ReliableBroadcast
from creekdb.protocol.effects import Effects, Send
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Cast, Pull, PullResponse, Received, Summary
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables
from creekdb.protocol.validation import MessageRejection


def request(replica: int, event: int, name: str = "touch") -> Request:
    return Request(event, Dot(replica, event), Operation(name), False)


class BroadcastHarness:
    """Reliable broadcast of replica 0, by default of three."""

    def __init__(self, size: int = 3, **settings: int) -> None:
        self.settings = Settings(members=tuple(range(size)), **settings)
        self.shared = SharedVariables(0, self.settings)
        self.outbox, self.probes = self.shared.outbox, self.shared.probes
        self.delivered: list[Request] = []
        self.broadcast = ReliableBroadcast(self.shared, self.delivered.append)

    def tick(self, ticks: int) -> None:
        self.shared.ticks = ticks
        self.broadcast.tick()

    def effects(self) -> Effects:
        return self.outbox.take()

    def cast(self, *requests: Request) -> None:
        self.broadcast.on_cast(Cast(requests))

    def delivered_ids(self) -> list[Dot]:
        return [each.id for each in self.delivered]


@pytest.fixture
def harness() -> BroadcastHarness:
    return BroadcastHarness()


def test_issued_request_is_persisted_before_it_is_cast(harness: BroadcastHarness) -> None:
    harness.broadcast.cast(request(0, 1))
    effects = harness.effects()
    assert effects.persist == (Received(request(0, 1)),)
    assert effects.send == (Send((1, 2), Cast((request(0, 1),))),)
    assert harness.delivered == [], "the caller delivers it locally"


def test_request_is_delivered_at_most_once(harness: BroadcastHarness) -> None:
    for _ in range(3):
        harness.cast(request(1, 1))
    harness.broadcast.on_pulled(PullResponse((request(1, 1),)), 2)
    assert harness.delivered_ids() == [Dot(1, 1)]
    assert harness.effects().persist == (Received(request(1, 1)),)
    assert harness.probes.counts[Probe.REQUEST_DUPLICATED] == 3


def test_early_request_is_held_back(harness: BroadcastHarness) -> None:
    harness.cast(request(1, 3), request(1, 2), request(2, 1))
    assert harness.delivered_ids() == [Dot(2, 1)]
    assert [each.id for each in harness.broadcast.held_back()] == [Dot(1, 3), Dot(1, 2)]
    harness.cast(request(1, 1))
    assert harness.delivered_ids() == [Dot(2, 1), Dot(1, 1), Dot(1, 2), Dot(1, 3)]
    assert harness.broadcast.held_back() == ()


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 6)), max_size=30))
def test_requests_of_a_replica_are_delivered_once_and_in_issue_order(
    arrivals: list[tuple[int, int]],
) -> None:
    harness = BroadcastHarness()
    for replica, event in arrivals:
        harness.cast(request(replica, event))
    for replica in (1, 2):
        delivered = [each.event for each in harness.delivered_ids() if each.replica == replica]
        assert delivered == list(range(1, len(delivered) + 1))
        assert (replica, len(delivered) + 1) not in arrivals
    assert set(harness.broadcast.received) == {Dot(*each) for each in arrivals}
    assert set(harness.broadcast.delivered) == set(harness.delivered_ids())
    persisted = [
        each.request.id for each in harness.effects().persist if isinstance(each, Received)
    ]
    assert sorted(persisted) == sorted({Dot(*each) for each in arrivals})


def test_summary_lists_all_received_requests() -> None:
    harness = BroadcastHarness(summary_ticks=2)
    harness.cast(request(1, 1), request(1, 3))
    harness.tick(1)
    assert harness.effects().send == ()
    harness.tick(2)
    assert harness.effects().send == (Send((1, 2), Summary(Dots({1: (1, 2, 3, 4)}))),)


def test_missing_requests_are_pulled(harness: BroadcastHarness) -> None:
    harness.cast(request(1, 2))
    harness.broadcast.on_summary(Summary(Dots({1: (1, 4), 2: (1, 2)})), 2)
    assert harness.effects().send == (Send((2,), Pull(Dots({1: (1, 2, 3, 4), 2: (1, 2)}))),)


def test_peer_without_new_requests_is_not_pulled(harness: BroadcastHarness) -> None:
    harness.cast(request(1, 1), request(1, 2))
    harness.effects()
    harness.broadcast.on_summary(Summary(Dots({1: (1, 2)})), 2)
    assert harness.effects().send == ()


def test_a_request_is_pulled_from_one_peer_per_round() -> None:
    harness = BroadcastHarness(retry_ticks=1, summary_ticks=1)
    summary = Summary(Dots({1: (1, 3)}))
    pulled_peers = []
    for ticks in range(1, 5):
        harness.broadcast.on_summary(summary, 1)
        harness.broadcast.on_summary(summary, 2)
        pulled_peers.append([each.to for each in harness.effects().send])
        harness.tick(ticks)
        harness.effects()
    assert pulled_peers == [[(1,)], [(2,)], [(1,)], [(2,)]], "the peers take turns"


def test_pulls_rotate_over_all_sources_with_rare_summaries() -> None:
    harness = BroadcastHarness(size=5, retry_ticks=1, summary_ticks=3)
    pulled_peers = []
    for ticks in range(1, 16):
        if ticks % 3 == 1:  # always in the same order, without responses
            for peer in (1, 2, 3, 4):
                harness.broadcast.on_summary(Summary(Dots({1: (1, 3)})), peer)
            pulled_peers += [each.to for each in harness.effects().send]
        harness.tick(ticks)
        harness.effects()
    assert pulled_peers[:4] == [(1,), (2,), (3,), (4,)]


def test_only_source_is_pulled_again_in_the_next_round() -> None:
    harness = BroadcastHarness(size=5, retry_ticks=1, summary_ticks=1)
    for ticks in range(1, 4):
        harness.broadcast.on_summary(Summary(Dots({1: (1, 3)})), 2)
        assert [each.to for each in harness.effects().send] == [(2,)]
        harness.tick(ticks)
        harness.effects()


def pulls(harness: BroadcastHarness) -> list[tuple[int, Dots]]:
    sent = [each for each in harness.effects().send if isinstance(each.message, Pull)]
    return [(each.to[0], each.message.wanted) for each in sent if isinstance(each.message, Pull)]


def test_large_difference_is_pulled_over_several_ticks() -> None:
    harness = BroadcastHarness(pull_limit=4, retry_ticks=8, summary_ticks=8)
    harness.broadcast.on_summary(Summary(Dots({1: (1, 10)})), 1)
    assert pulls(harness) == [(1, Dots({1: (1, 5)}))]
    harness.broadcast.on_pulled(PullResponse(tuple(request(1, event) for event in range(1, 5))), 1)
    assert pulls(harness) == [], "the pull budget of the tick is used up"
    harness.tick(1)
    assert pulls(harness) == [(1, Dots({1: (5, 7)}))]
    assert harness.probes.counts[Probe.REQUEST_PULLED] == 4
    assert harness.probes.counts[Probe.PULL_CONTINUED] == 1


def test_backlogged_peers_are_pulled_in_turn() -> None:
    harness = BroadcastHarness(pull_limit=4, retry_ticks=8, summary_ticks=8)
    for peer in (1, 2):
        harness.broadcast.on_summary(Summary(Dots({1: (1, 20)})), peer)
    assert pulls(harness) == [(1, Dots({1: (1, 5)}))]
    pulled = []
    for ticks in (1, 2, 3):
        harness.tick(ticks)
        pulled += pulls(harness)
    assert pulled == [(1, Dots({1: (5, 7)})), (2, Dots({1: (7, 9)})), (1, Dots({1: (9, 11)}))]


def test_pull_budget_is_a_third_above_the_receive_rate() -> None:
    harness = BroadcastHarness(pull_limit=8, retry_ticks=100, summary_ticks=100)
    harness.broadcast.on_summary(Summary(Dots({1: (1, 100)})), 1)
    assert [len(wanted) for _, wanted in pulls(harness)] == [8]
    harness.tick(1)
    assert [len(wanted) for _, wanted in pulls(harness)] == [4], "the receive rate is unknown"
    harness.tick(2)
    harness.broadcast.on_summary(Summary(Dots({1: (1, 120)})), 1)
    pulls(harness)
    for tick in (3, 4):
        harness.tick(tick)
        pulled = pulls(harness)
        for _, wanted in pulled:  # each response triggers a pull within the budget
            harness.broadcast.on_pulled(PullResponse(tuple(request(*id) for id in wanted)), 1)
        pulled += pulls(harness)
        assert sum(len(wanted) for _, wanted in pulled) == 13


@pytest.mark.parametrize("summaries", [1, 2, 4])
@pytest.mark.parametrize("ticks", [1, 3])
def test_receive_rate_is_measured_in_own_ticks(summaries: int, ticks: int) -> None:
    """A busy replica has fewer ticks, and summaries get lost. The received counts are the same."""
    harness = BroadcastHarness(pull_limit=8, retry_ticks=1000, summary_ticks=1000)
    received, tick = 1, 0
    for _ in range(4):
        for each in range(1, summaries + 1):
            harness.broadcast.on_summary(Summary(Dots({1: (1, received + each * 24)})), 2)
        received += 24 * summaries
        for _ in range(ticks):
            tick += 1
            harness.tick(tick)
    assert harness.broadcast._receive_rates[2].per_tick == 24 * summaries // ticks


def test_bursts_of_summaries_do_not_change_the_receive_rate() -> None:
    harness = BroadcastHarness(pull_limit=8, retry_ticks=1000, summary_ticks=4)
    rates = []
    for tick in range(200):
        harness.tick(tick)
        if tick % 8 in (0, 1):  # two in a burst, then none for six ticks
            harness.broadcast.on_summary(Summary(Dots({1: (1, 41 + 40 * tick)})), 2)
            rates.append(harness.broadcast._receive_rates[2].per_tick)
    assert rates == [0] + [40] * 49


def test_pull_budget_bounds_catching_up_after_a_long_partition() -> None:
    harness = BroadcastHarness(pull_limit=8, retry_ticks=1000, summary_ticks=4)
    harness.broadcast.on_summary(Summary(Dots({1: (1, 2)})), 1)
    for tick in range(1, 101):
        harness.tick(tick)
    pulls(harness)
    harness.broadcast.on_summary(Summary(Dots({1: (1, 1001)})), 1)  # about ten per tick
    pulls(harness)
    harness.tick(101)
    pulled = 0
    while sent := pulls(harness):
        for _, wanted in sent:
            pulled += len(wanted)
            harness.broadcast.on_pulled(PullResponse(tuple(request(*id) for id in wanted)), 1)
    assert pulled == 9 + 3


def test_pulls_alone_keep_up_with_the_receive_rate() -> None:
    harness = BroadcastHarness(pull_limit=8, retry_ticks=1, summary_ticks=1)

    def respond() -> None:
        for peer, wanted in pulls(harness):
            harness.broadcast.on_pulled(PullResponse(tuple(request(*id) for id in wanted)), peer)

    for tick in range(1, 51):
        harness.broadcast.on_summary(Summary(Dots({1: (1, 1 + 12 * tick)})), 2)
        respond()
        harness.tick(tick)
        respond()
    assert 12 * 50 - len(harness.delivered) <= 12 * 3


def test_requests_cast_far_ahead_are_dropped_and_pulled_later() -> None:
    harness = BroadcastHarness(pull_limit=1)
    harness.cast(request(1, 17), request(1, 16))
    assert [each.id for each in harness.broadcast.held_back()] == [Dot(1, 16)]
    assert harness.probes.counts[Probe.REQUEST_TOO_FAR_AHEAD] == 1
    harness.cast(*(request(1, event) for event in range(1, 16)))
    assert len(harness.delivered) == 16
    harness.effects()
    harness.broadcast.on_summary(Summary(Dots({1: (1, 18)})), 1)
    assert pulls(harness) == [(1, Dots({1: (17, 18)}))]


def test_casts_skip_a_peer_that_is_far_behind() -> None:
    harness = BroadcastHarness(pull_limit=1, summary_ticks=1000)

    def cast_to(event: int) -> tuple[int, ...]:
        harness.effects()
        harness.broadcast.cast(request(0, event))
        (sent,) = harness.effects().send
        return sent.to

    harness.broadcast.on_summary(Summary(Dots({0: (1, 4)})), 1)  # replica 2 has sent no summary
    for event in range(1, 36):
        assert cast_to(event) == (1, 2)
    harness.tick(1)
    assert cast_to(36) == (1, 2), "a lag of 32 is within the limit"
    harness.tick(2)
    assert cast_to(37) == (2,)
    assert harness.probes.counts[Probe.CAST_SKIPPED] == 1
    harness.broadcast.on_summary(Summary(Dots({0: (1, 35)})), 1)
    harness.tick(3)
    assert cast_to(38) == (1, 2)


def test_pull_response_is_ordered_by_timestamp(harness: BroadcastHarness) -> None:
    first, second, third = (
        Request(timestamp, id, Operation("touch"), False)
        for timestamp, id in ((1, Dot(2, 1)), (2, Dot(1, 1)), (3, Dot(2, 2)))
    )
    harness.cast(second, first, third)
    harness.effects()
    harness.broadcast.on_pull(Pull(Dots({1: (1, 2), 2: (1, 3)})), 1)
    assert harness.effects().send == (Send((1,), PullResponse((first, second, third))),)


def test_restored_requests_are_delivered_in_the_order_of_receipt(harness: BroadcastHarness) -> None:
    harness.broadcast.restore([request(2, 1), request(1, 2), request(1, 1), request(2, 2)])
    assert harness.delivered_ids() == [Dot(2, 1), Dot(1, 1), Dot(1, 2), Dot(2, 2)]


def test_pull_response_is_limited() -> None:
    harness = BroadcastHarness(pull_limit=2)
    for event in (1, 2, 3):
        harness.broadcast.cast(request(0, event))
    harness.effects()
    harness.broadcast.on_pull(Pull(Dots({0: (2, 4)})), 2)
    assert harness.effects().send == (Send((2,), PullResponse((request(0, 2), request(0, 3)))),)
    harness.broadcast.on_pull(Pull(Dots({0: (1, 4)})), 2)
    assert harness.effects().send == (Send((2,), PullResponse((request(0, 1), request(0, 2)))),)


def test_pull_of_unknown_identifiers_is_counted_without_a_response(
    harness: BroadcastHarness,
) -> None:
    harness.broadcast.on_pull(Pull(Dots({0: (1, 2**61)})), 2)
    assert harness.shared.rejected == {MessageRejection.NEVER_CAST_ID: 1}
    assert harness.effects().send == ()


def test_pull_response_omits_discarded_requests(harness: BroadcastHarness) -> None:
    harness.broadcast.cast(request(0, 1))
    harness.broadcast.cast(request(0, 2))
    harness.effects()
    harness.broadcast.discard_covered(Dots({0: (1, 2)}))
    harness.broadcast.on_pull(Pull(Dots({0: (1, 3)})), 1)
    assert harness.effects().send == (Send((1,), PullResponse((request(0, 2),))),)
    assert harness.probes.counts[Probe.PULL_OF_DISCARDED] == 1


def test_requests_of_all_members_are_discarded() -> None:
    harness = BroadcastHarness(summary_ticks=1)
    for event in (1, 2, 3):
        harness.broadcast.cast(request(0, event))
    harness.broadcast.on_summary(Summary(Dots({0: (1, 4)})), 1)
    harness.tick(1)
    assert Probe.REQUESTS_DISCARDED not in harness.probes.counts, "replica 2 has sent no summary"
    harness.broadcast.on_summary(Summary(Dots({0: (1, 2, 3, 4)})), 2)
    harness.tick(2)
    assert harness.probes.counts[Probe.REQUESTS_DISCARDED] == 1
    harness.effects()
    harness.broadcast.on_pull(Pull(Dots({0: (1, 4)})), 2)
    assert harness.effects().send == (Send((2,), PullResponse((request(0, 2), request(0, 3)))),)


def test_requests_are_retained_again_for_a_peer_that_lost_its_disk() -> None:
    """Its earlier summary is void."""
    harness = BroadcastHarness(summary_ticks=1)
    harness.broadcast.cast(request(0, 1))
    everything = Summary(Dots({0: (1, 2)}))
    for peer in (1, 2):
        harness.broadcast.on_summary(everything, peer)
    harness.tick(1)
    assert harness.probes.counts[Probe.REQUESTS_DISCARDED] == 1

    harness.broadcast.retain_for(2, [request(0, 1)])
    harness.tick(2)
    harness.effects()
    harness.broadcast.on_pull(Pull(Dots({0: (1, 2)})), 2)
    assert harness.effects().send == (Send((2,), PullResponse((request(0, 1),))),)

    harness.broadcast.on_summary(everything, 2)
    harness.tick(3)
    assert harness.probes.counts[Probe.REQUESTS_DISCARDED] == 2


def test_discarding_does_not_iterate_over_claimed_ranges() -> None:
    harness = BroadcastHarness(summary_ticks=1)
    harness.broadcast.cast(request(0, 1))
    for peer in (1, 2):
        harness.broadcast.on_summary(Summary(Dots({0: (1, 2**61), 1: (1, 2**61)})), peer)
    harness.tick(1)
    assert harness.probes.counts[Probe.REQUESTS_DISCARDED] == 1


def test_another_request_with_a_known_identifier_is_a_conflict(harness: BroadcastHarness) -> None:
    harness.cast(request(1, 1))
    assert harness.broadcast.has_conflicting_request((request(1, 1, "other"),))
    assert not harness.broadcast.has_conflicting_request((request(1, 1),))
    assert not harness.broadcast.has_conflicting_request((request(1, 2),))


def test_checkpoint_replaces_the_requests_it_covers(harness: BroadcastHarness) -> None:
    harness.cast(request(1, 3), request(1, 5), request(1, 6))
    harness.broadcast.mark_delivered(Dots({1: (1, 5)}))
    assert harness.delivered_ids() == [Dot(1, 5), Dot(1, 6)], "the held-back requests are delivered"
    assert harness.broadcast.held_back() == ()
    harness.cast(request(1, 2))
    assert harness.delivered_ids() == [Dot(1, 5), Dot(1, 6)]


def test_hole_of_a_checkpoint_is_still_delivered(harness: BroadcastHarness) -> None:
    harness.broadcast.mark_delivered(Dots({1: (1, 2, 3, 4)}))
    harness.cast(request(1, 4))
    assert harness.delivered == []
    harness.cast(request(1, 2))
    assert harness.delivered_ids() == [Dot(1, 2), Dot(1, 4)]


def test_restored_requests_are_delivered_including_own_ones(harness: BroadcastHarness) -> None:
    harness.broadcast.restore([request(1, 2), request(0, 1), request(1, 1), request(2, 2)])
    assert harness.delivered_ids() == [Dot(0, 1), Dot(1, 1), Dot(1, 2)]
    assert [each.id for each in harness.broadcast.held_back()] == [Dot(2, 2)]
    assert harness.effects().persist == (), "they are already on disk"
    assert harness.broadcast.received.last(0) == 1


def test_broadcast_without_peers_sends_no_message() -> None:
    harness = BroadcastHarness(1, summary_ticks=1)
    harness.broadcast.cast(request(0, 1))
    harness.tick(1)
    assert harness.effects().send == ()


# --- causal contexts --------------------------------------------------------------------------


def strong(replica: int, event: int, context: Dots) -> Request:
    return Request(event, Dot(replica, event), Operation("touch"), True, context)


def test_strong_request_is_delivered_after_its_context(harness: BroadcastHarness) -> None:
    harness.cast(strong(1, 1, Dots({2: (1, 3)})), request(1, 2))
    harness.cast(request(2, 1))
    assert harness.delivered_ids() == [Dot(2, 1)]
    harness.cast(request(2, 2))
    assert harness.delivered_ids() == [Dot(2, 1), Dot(2, 2), Dot(1, 1), Dot(1, 2)]


def test_checkpoint_completes_a_context(harness: BroadcastHarness) -> None:
    harness.cast(strong(1, 1, Dots({2: (1, 9)})))
    harness.broadcast.mark_delivered(Dots({2: (1, 9)}))
    assert harness.delivered_ids() == [Dot(1, 1)]


@pytest.mark.parametrize("first_missing", [1, 2])
def test_long_chain_of_dependent_requests_is_delivered(
    first_missing: int,
) -> None:
    harness = BroadcastHarness()
    chain = []
    for event in range(1, 1_001):
        context: dict[int, tuple[int, ...]] = {1: (1, event), 2: (1, event)} if event > 1 else {}
        chain.append(strong(1, event, Dots(context)))
        chain.append(strong(2, event, Dots({**context, 1: (1, event + 1)})))
    missing = chain.pop(first_missing - 1)
    harness.cast(*chain)
    harness.cast(missing)
    assert len(harness.delivered) == 2_000


def test_context_with_huge_ranges_is_held_back() -> None:
    broadcast = BroadcastHarness(5).broadcast
    everything = (1, 2**62 - 1)
    broadcast.on_cast(Cast((strong(1, 1, Dots({2: everything, 3: everything, 4: everything})),)))
    assert len(broadcast.held_back()) == 1
