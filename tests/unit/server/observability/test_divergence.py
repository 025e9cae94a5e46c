"""Who goes on and who stops, when replicas come to different states."""

from creekdb.protocol.effects import Digest
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.server.observability.divergence import (
    DIGEST_INTERVAL_REQUESTS,
    DIGESTS_KEPT_MAX,
    DIGESTS_PER_MESSAGE_MAX,
    DISAGREEMENT_TIMEOUT_S,
    DivergenceDetector,
)
from creekdb.wire.deduplication import wrap_call
from creekdb.wire.messages import StateDigests


def request(name: str, *arguments: object) -> Request:
    operation = wrap_call("ann", 1, Operation(name, arguments))
    return Request(1, Dot(0, 1), operation, strong=False)


def digests(members: int, *values: int) -> DivergenceDetector:
    """Of replica 0, which came to these, one request after the other."""
    found = DivergenceDetector(0, tuple(range(members)))
    for length, value in enumerate(values, 1):
        found.record(Digest(length, value, (request("put", length),)), position=length)
    return found


def told(*digests: tuple[int, int]) -> StateDigests:
    return StateDigests(digests)


def test_with_a_majority_a_replica_goes_on() -> None:
    ours = digests(3, 5, 6)
    ours.receive(told((2, 99)), 2)
    assert ours.verdict(0.0) is None, "replica 1 may agree"
    ours.receive(told((2, 6)), 1)
    assert ours.verdict(DISAGREEMENT_TIMEOUT_S * 2) is None
    assert ours.differing_peers() == [2]


def test_a_replica_that_differs_from_too_many_stops_at_once() -> None:
    ours = digests(3, 5, 6, 7)
    ours.receive(told((1, 5), (2, 98), (3, 99)), 2)
    assert ours.verdict(0.0) is None
    ours.receive(told((1, 5), (3, 99)), 1)
    ours.take_message(durable=3)
    verdict = ours.verdict(0.0)
    assert verdict is not None
    assert "after 2 requests" in str(verdict)
    assert "after 1 they were the same" in str(verdict)
    assert "1 × put; as number 2: put(2)" in str(verdict)


def test_a_replica_does_not_wait_for_ever_for_who_could_tell() -> None:
    ours = digests(3, 5)
    ours.receive(told((1, 6)), 1)
    assert ours.verdict(10.0) is None
    assert ours.verdict(10.0 + DISAGREEMENT_TIMEOUT_S / 2) is None
    assert ours.verdict(10.0 + DISAGREEMENT_TIMEOUT_S) is not None


def test_one_who_agreed_before_the_difference_is_not_asked_in_vain() -> None:
    """It says nothing of what came since."""
    ours = digests(3, 5, 6)
    ours.receive(told((1, 5)), 1)
    ours.receive(told((2, 99)), 2)
    assert ours.verdict(0.0) is None
    assert ours.verdict(DISAGREEMENT_TIMEOUT_S) is not None


def test_one_who_comes_back_with_our_state_is_one_of_us_again() -> None:
    ours = digests(2, 5, 6)
    ours.receive(told((1, 9)), 1)
    ours.take_message(durable=2)
    assert ours.verdict(0.0) is not None
    ours.receive(told((2, 6)), 1)
    assert ours.verdict(0.0) is None


def test_what_peers_tell_of_the_future_is_compared_when_it_is_here() -> None:
    ours = digests(2)
    ours.receive(told((1, 5), (2, 6)), 1)
    assert ours.verdict(0.0) is None
    ours.record(Digest(1, 5, ()), 1)
    assert ours.comparisons[1].same_at == 1
    ours.record(Digest(2, 7, ()), 2)
    ours.take_message(durable=2)
    assert ours.verdict(0.0) is not None


def test_who_stops_has_told_its_own_state_before() -> None:
    """The other one hears from nobody else that it has to stop as well."""
    ours = digests(2, 5, 6)
    ours.take_message(durable=1)
    ours.receive(told((2, 99)), 1)
    assert ours.verdict(10.0) is None, "what the state rests on is not durable"
    assert ours.take_message(durable=2).digests == ((2, 6),)
    assert ours.verdict(10.1) is not None


def test_who_cannot_tell_its_own_state_stops_all_the_same() -> None:
    ours = digests(2, 5)
    ours.receive(told((1, 99)), 1)
    assert ours.verdict(10.0) is None
    assert ours.verdict(10.0 + DISAGREEMENT_TIMEOUT_S) is not None


def test_what_is_told_is_what_others_have_as_well_and_the_newest() -> None:
    ours = digests(3, *range(DIGEST_INTERVAL_REQUESTS + 2))
    expected = (
        (DIGEST_INTERVAL_REQUESTS, DIGEST_INTERVAL_REQUESTS - 1),
        (DIGEST_INTERVAL_REQUESTS + 2, DIGEST_INTERVAL_REQUESTS + 1),
    )
    assert ours.take_message(durable=DIGEST_INTERVAL_REQUESTS + 2).digests == expected
    assert ours.take_message(durable=DIGEST_INTERVAL_REQUESTS + 2).digests == expected[1:]


def test_nothing_is_told_that_rests_on_what_is_not_durable() -> None:
    """A replica may decide by its own vote. If it tells what came of that, crashes, and has
    forgotten the vote, the others may decide otherwise: who was told must not take that for a
    replica that differs."""
    crashes = digests(3, 5, 6)
    other = digests(3)
    early = crashes.take_message(durable=1)
    assert early.digests == ((1, 5),)
    other.receive(early, 1)
    for length, value in ((1, 5), (2, 7)):  # decided anew, without what was forgotten
        other.record(Digest(length, value, ()), length)
    assert other.differing_peers() == []
    assert crashes.take_message(durable=2).digests == ((2, 6),)


def test_one_who_tells_another_state_at_the_same_place_is_believed() -> None:
    """It was given the state of others, and nothing has been committed since."""
    ours = digests(2, 5)
    ours.receive(told((1, 9)), 1)
    assert ours.differing_peers() == [1]
    ours.receive(told((1, 5)), 1)
    assert ours.differing_peers() == []


def test_what_is_kept_is_bounded() -> None:
    ours = digests(2, *range(DIGESTS_KEPT_MAX + 10))
    assert len(ours._own_digests) == DIGESTS_KEPT_MAX
    for first in range(0, DIGESTS_KEPT_MAX * 3, DIGESTS_PER_MESSAGE_MAX):
        told_ = [
            (DIGESTS_KEPT_MAX * 2 + first + each, 1) for each in range(DIGESTS_PER_MESSAGE_MAX + 5)
        ]
        ours.receive(told(*told_), 1)
    assert len(ours._early_peer_digests[1]) == DIGESTS_KEPT_MAX
    ours.receive(told((1, 99)), 1)  # long forgotten here
    assert ours.verdict(0.0) is None
