"""Who goes on and who stops, when replicas come to different states."""

from creekdb.protocol.effects import Digest
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.server.observability.divergence import (
    DIGEST_EVERY,
    DIGESTS_KEPT,
    PATIENCE_S,
    TOLD_MAX,
    Digests,
)
from creekdb.wire.deduplication import call_once
from creekdb.wire.messages import Told


def request(name: str, *arguments: object) -> Request:
    operation = call_once("ann", 1, Operation(name, arguments))
    return Request(1, Dot(0, 1), operation, strong=False)


def digests(members: int, *values: int) -> Digests:
    """Of replica 0, which came to these, one request after the other."""
    found = Digests(0, tuple(range(members)))
    for length, value in enumerate(values, 1):
        found.note(Digest(length, value, (request("put", length),)), position=length)
    return found


def told(*digests: tuple[int, int]) -> Told:
    return Told(digests)


def test_with_a_majority_a_replica_goes_on() -> None:
    ours = digests(3, 5, 6)
    ours.receive(told((2, 99)), 2)
    assert ours.verdict(0.0) is None, "replica 1 may agree"
    ours.receive(told((2, 6)), 1)
    assert ours.verdict(PATIENCE_S * 2) is None
    assert ours.differing() == [2]


def test_a_replica_that_differs_from_too_many_stops_at_once() -> None:
    ours = digests(3, 5, 6, 7)
    ours.receive(told((1, 5), (2, 98), (3, 99)), 2)
    assert ours.verdict(0.0) is None
    ours.receive(told((1, 5), (3, 99)), 1)
    ours.take_told(durable=3)
    verdict = ours.verdict(0.0)
    assert verdict is not None
    assert "after 2 requests" in str(verdict)
    assert "after 1 they were the same" in str(verdict)
    assert "1 × put; as number 2: put(2)" in str(verdict)


def test_a_replica_does_not_wait_for_ever_for_who_could_tell() -> None:
    ours = digests(3, 5)
    ours.receive(told((1, 6)), 1)
    assert ours.verdict(10.0) is None
    assert ours.verdict(10.0 + PATIENCE_S / 2) is None
    assert ours.verdict(10.0 + PATIENCE_S) is not None


def test_one_who_agreed_before_the_difference_is_not_asked_in_vain() -> None:
    """It says nothing of what came since."""
    ours = digests(3, 5, 6)
    ours.receive(told((1, 5)), 1)
    ours.receive(told((2, 99)), 2)
    assert ours.verdict(0.0) is None
    assert ours.verdict(PATIENCE_S) is not None


def test_one_who_comes_back_with_our_state_is_one_of_us_again() -> None:
    ours = digests(2, 5, 6)
    ours.receive(told((1, 9)), 1)
    ours.take_told(durable=2)
    assert ours.verdict(0.0) is not None
    ours.receive(told((2, 6)), 1)
    assert ours.verdict(0.0) is None


def test_what_peers_tell_of_the_future_is_compared_when_it_is_here() -> None:
    ours = digests(2)
    ours.receive(told((1, 5), (2, 6)), 1)
    assert ours.verdict(0.0) is None
    ours.note(Digest(1, 5, ()), 1)
    assert ours.compared[1].same_at == 1
    ours.note(Digest(2, 7, ()), 2)
    ours.take_told(durable=2)
    assert ours.verdict(0.0) is not None


def test_who_stops_has_told_its_own_state_before() -> None:
    """The other one hears from nobody else that it has to stop as well."""
    ours = digests(2, 5, 6)
    ours.take_told(durable=1)
    ours.receive(told((2, 99)), 1)
    assert ours.verdict(10.0) is None, "what the state rests on is not durable"
    assert ours.take_told(durable=2).digests == ((2, 6),)
    assert ours.verdict(10.1) is not None


def test_who_cannot_tell_its_own_state_stops_all_the_same() -> None:
    ours = digests(2, 5)
    ours.receive(told((1, 99)), 1)
    assert ours.verdict(10.0) is None
    assert ours.verdict(10.0 + PATIENCE_S) is not None


def test_what_is_told_is_what_others_have_as_well_and_the_newest() -> None:
    ours = digests(3, *range(DIGEST_EVERY + 2))
    expected = ((DIGEST_EVERY, DIGEST_EVERY - 1), (DIGEST_EVERY + 2, DIGEST_EVERY + 1))
    assert ours.take_told(durable=DIGEST_EVERY + 2).digests == expected
    assert ours.take_told(durable=DIGEST_EVERY + 2).digests == expected[1:]


def test_nothing_is_told_that_rests_on_what_is_not_durable() -> None:
    """A replica may decide by its own vote. If it tells what came of that, crashes, and has
    forgotten the vote, the others may decide otherwise: who was told must not take that for a
    replica that differs."""
    crashes = digests(3, 5, 6)
    other = digests(3)
    early = crashes.take_told(durable=1)
    assert early.digests == ((1, 5),)
    other.receive(early, 1)
    for length, value in ((1, 5), (2, 7)):  # decided anew, without what was forgotten
        other.note(Digest(length, value, ()), length)
    assert other.differing() == []
    assert crashes.take_told(durable=2).digests == ((2, 6),)


def test_one_who_tells_another_state_at_the_same_place_is_believed() -> None:
    """It was given the state of others, and nothing has been committed since."""
    ours = digests(2, 5)
    ours.receive(told((1, 9)), 1)
    assert ours.differing() == [1]
    ours.receive(told((1, 5)), 1)
    assert ours.differing() == []


def test_what_is_kept_is_bounded() -> None:
    ours = digests(2, *range(DIGESTS_KEPT + 10))
    assert len(ours._ours) == DIGESTS_KEPT
    for first in range(0, DIGESTS_KEPT * 3, TOLD_MAX):
        told_ = [(DIGESTS_KEPT * 2 + first + each, 1) for each in range(TOLD_MAX + 5)]
        ours.receive(told(*told_), 1)
    assert len(ours._theirs[1]) == DIGESTS_KEPT
    ours.receive(told((1, 99)), 1)  # long forgotten here
    assert ours.verdict(0.0) is None
