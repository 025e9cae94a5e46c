"""Divergence detection: replicas that continue and replicas that stop when states differ."""

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


def make_detector(members: int, *values: int) -> DivergenceDetector:
    """Return the detector of replica 0 with these digests, one for each request."""
    detector = DivergenceDetector(0, tuple(range(members)))
    for length, value in enumerate(values, 1):
        detector.record(Digest(length, value, (request("put", length),)), position=length)
    return detector


def message(*digests: tuple[int, int]) -> StateDigests:
    return StateDigests(digests)


def test_replica_with_a_majority_continues() -> None:
    detector = make_detector(3, 5, 6)
    detector.receive(message((2, 99)), 2)
    assert detector.verdict(0.0) is None, "replica 1 may agree"
    detector.receive(message((2, 6)), 1)
    assert detector.verdict(DISAGREEMENT_TIMEOUT_S * 2) is None
    assert detector.differing_peers() == [2]


def test_replica_that_differs_from_a_majority_stops_at_once() -> None:
    detector = make_detector(3, 5, 6, 7)
    detector.receive(message((1, 5), (2, 98), (3, 99)), 2)
    assert detector.verdict(0.0) is None
    detector.receive(message((1, 5), (3, 99)), 1)
    detector.take_message(durable=3)
    verdict = detector.verdict(0.0)
    assert verdict is not None
    assert "after 2 requests" in str(verdict)
    assert "after 1 requests they agreed" in str(verdict)
    assert "1 × put; at position 2: put(2)" in str(verdict)


def test_wait_for_silent_peers_is_limited() -> None:
    detector = make_detector(3, 5)
    detector.receive(message((1, 6)), 1)
    assert detector.verdict(10.0) is None
    assert detector.verdict(10.0 + DISAGREEMENT_TIMEOUT_S / 2) is None
    assert detector.verdict(10.0 + DISAGREEMENT_TIMEOUT_S) is not None


def test_agreement_before_the_divergence_does_not_count() -> None:
    """It proves nothing about the requests since then."""
    detector = make_detector(3, 5, 6)
    detector.receive(message((1, 5)), 1)
    detector.receive(message((2, 99)), 2)
    assert detector.verdict(0.0) is None
    assert detector.verdict(DISAGREEMENT_TIMEOUT_S) is not None


def test_peer_that_returns_with_the_same_state_agrees_again() -> None:
    detector = make_detector(2, 5, 6)
    detector.receive(message((1, 9)), 1)
    detector.take_message(durable=2)
    assert detector.verdict(0.0) is not None
    detector.receive(message((2, 6)), 1)
    assert detector.verdict(0.0) is None


def test_early_digests_of_peers_are_compared_later() -> None:
    detector = make_detector(2)
    detector.receive(message((1, 5), (2, 6)), 1)
    assert detector.verdict(0.0) is None
    detector.record(Digest(1, 5, ()), 1)
    assert detector.comparisons[1].same_at == 1
    detector.record(Digest(2, 7, ()), 2)
    detector.take_message(durable=2)
    assert detector.verdict(0.0) is not None


def test_replica_sends_its_digest_before_it_stops() -> None:
    """The other replica has no other way to learn that it must stop as well."""
    detector = make_detector(2, 5, 6)
    detector.take_message(durable=1)
    detector.receive(message((2, 99)), 1)
    assert detector.verdict(10.0) is None, "the records behind the state are not durable"
    assert detector.take_message(durable=2).digests == ((2, 6),)
    assert detector.verdict(10.1) is not None


def test_replica_that_cannot_send_its_digest_stops_after_the_timeout() -> None:
    detector = make_detector(2, 5)
    detector.receive(message((1, 99)), 1)
    assert detector.verdict(10.0) is None
    assert detector.verdict(10.0 + DISAGREEMENT_TIMEOUT_S) is not None


def test_message_holds_common_digests_and_repeats_the_newest() -> None:
    detector = make_detector(3, *range(DIGEST_INTERVAL_REQUESTS + 2))
    expected = (
        (DIGEST_INTERVAL_REQUESTS, DIGEST_INTERVAL_REQUESTS - 1),
        (DIGEST_INTERVAL_REQUESTS + 2, DIGEST_INTERVAL_REQUESTS + 1),
    )
    assert detector.take_message(durable=DIGEST_INTERVAL_REQUESTS + 2).digests == expected
    assert detector.take_message(durable=DIGEST_INTERVAL_REQUESTS + 2).digests == expected[1:]


def test_digest_is_sent_only_after_its_records_are_durable() -> None:
    """A replica may decide by its own vote.

    If it sends the resulting digest, crashes and loses the vote, the others may decide differently.
    The receiver of the digest must not mistake that for divergence.
    """
    crashing = make_detector(3, 5, 6)
    other = make_detector(3)
    early = crashing.take_message(durable=1)
    assert early.digests == ((1, 5),)
    other.receive(early, 1)
    for length, value in ((1, 5), (2, 7)):  # decided again, without the lost vote
        other.record(Digest(length, value, ()), length)
    assert other.differing_peers() == []
    assert crashing.take_message(durable=2).digests == ((2, 6),)


def test_later_digest_for_the_same_length_replaces_the_earlier_one() -> None:
    """The peer has installed the state of others, and no request was committed since."""
    detector = make_detector(2, 5)
    detector.receive(message((1, 9)), 1)
    assert detector.differing_peers() == [1]
    detector.receive(message((1, 5)), 1)
    assert detector.differing_peers() == []


def test_retained_digests_are_bounded() -> None:
    detector = make_detector(2, *range(DIGESTS_KEPT_MAX + 10))
    assert len(detector._own_digests) == DIGESTS_KEPT_MAX
    for first in range(0, DIGESTS_KEPT_MAX * 3, DIGESTS_PER_MESSAGE_MAX):
        start = DIGESTS_KEPT_MAX * 2 + first
        early = [(length, 1) for length in range(start, start + DIGESTS_PER_MESSAGE_MAX + 5)]
        detector.receive(message(*early), 1)
    assert len(detector.comparisons[1].early_digests) == DIGESTS_KEPT_MAX
    detector.receive(message((1, 99)), 1)  # the own digest is no longer retained
    assert detector.verdict(0.0) is None


def test_a_difference_stays_until_the_states_agree_at_a_later_length() -> None:
    detector = make_detector(3, 5, 6, 7, 8)
    detector.receive(message((3, 99)), 2)
    detector.receive(message((2, 6)), 2)
    assert detector.differing_peers() == [2], "the states agreed before they differed"
    detector.receive(message((4, 8)), 2)
    assert detector.differing_peers() == []
