"""Algorithm 1, lines 36-41: `adjustTentativeOrder`."""

from itertools import permutations

import pytest

from creekdb.protocol.messages import Accept, Cast
from tests.paper.harness import Cluster


def test_a_later_request_goes_to_the_tail() -> None:
    """Line 37: "previous = [x | x ∈ tentative ∧ x < r]"; here all requests are previous."""
    cluster = Cluster()
    first = cluster.weak(0, "append", "a", at=10)
    second = cluster.weak(1, "append", "b", at=20)

    cluster.deliver(Cast, to=2)

    assert cluster.tentative(2) == [first, second]


def test_an_earlier_request_goes_to_the_head() -> None:
    """Line 38: "subsequent = [x | x ∈ tentative ∧ r < x]"; here all requests are subsequent."""
    cluster = Cluster()
    second = cluster.weak(0, "append", "b", at=20)
    first = cluster.weak(1, "append", "a", at=10)

    cluster.deliver(Cast, to=2)

    assert cluster.rb_delivered(2) == [second, first]
    assert cluster.tentative(2) == [first, second]
    assert cluster.state_values(2) == ["a", "b"]


def test_a_request_is_inserted_between_previous_and_subsequent_ones() -> None:
    """Line 39: "tentative = previous · [r] · subsequent"."""
    cluster = Cluster(4)
    first = cluster.weak(0, "append", "a", at=10)
    third = cluster.weak(1, "append", "c", at=30)
    second = cluster.weak(2, "append", "b", at=20)

    cluster.deliver(Cast, to=3)

    assert cluster.rb_delivered(3) == [first, third, second]
    assert cluster.tentative(3) == [first, second, third]
    assert cluster.state_values(3) == ["a", "b", "c"]


def test_weak_and_strong_requests_share_one_timestamp_order() -> None:
    """Section 4.2: "to correctly order op among other weak operations and strong operations"."""
    cluster = Cluster(4, with_leader=False)
    cluster.hold(Accept)
    weak = [cluster.weak(each, "append", each, at=at) for each, at in ((0, 10), (1, 30))]
    strong = cluster.strong(2, "append", 2, at=20)

    cluster.deliver(Cast, to=3)

    assert cluster.tentative(3) == [weak[0], strong, weak[1]]


@pytest.mark.parametrize("arrival", list(permutations((0, 1, 2))))
def test_the_order_does_not_depend_on_the_order_of_arrival(arrival: tuple[int, ...]) -> None:
    """Section 4.1: "The operations on the tentative list are sorted using" their timestamps."""
    cluster = Cluster(4)
    ids = [cluster.weak(each, "append", each, at=10 + each) for each in (0, 1, 2)]

    for sender in arrival:
        cluster.deliver(Cast, sender=sender, to=3)

    assert cluster.rb_delivered(3) == [ids[each] for each in arrival]
    assert cluster.tentative(3) == ids
    assert cluster.state_values(3) == [0, 1, 2]


def test_a_tentative_request_follows_committed_ones_with_later_timestamps() -> None:
    """Line 40: "newOrder = committed · tentative"."""
    cluster = Cluster()
    cluster.hold(sender=2)
    early = cluster.weak(2, "append", "early", at=1)
    committed = cluster.strong(1, "append", "committed", at=100)
    cluster.flush()
    assert cluster.committed(0) == [committed]

    cluster.release()
    cluster.flush()

    assert cluster.requests[early].key < cluster.requests[committed].key
    assert cluster.committed(0) == [committed]
    assert cluster.tentative(0) == [early]
    assert [cluster.state_values(each) for each in cluster.members] == [["committed", "early"]] * 3


def test_the_new_order_is_the_order_of_execution() -> None:
    """Line 41: "adjustExecution(newOrder)": each replica executes in the order of its lists."""
    cluster = Cluster()
    for replica, at in ((0, 30), (1, 10), (2, 20)):
        cluster.weak(replica, "append", at, at=at)
    assert [cluster.state_values(each) for each in cluster.members] == [[30], [10], [20]]

    cluster.flush()

    assert [cluster.state_values(each) for each in cluster.members] == [[10, 20, 30]] * 3
