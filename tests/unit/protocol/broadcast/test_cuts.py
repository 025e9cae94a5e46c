"""Cuts: weak requests with lower timestamps, one dot per origin."""

from creekdb.protocol.broadcast.cuts import WeakRequests
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.request import Operation, Request


def weak(replica: int, event: int, timestamp: int) -> Request:
    return Request(timestamp, Dot(replica, event), Operation("write"), False)


def strong(replica: int, event: int, timestamp: int) -> Request:
    return Request(timestamp, Dot(replica, event), Operation("write"), True, Dots())


class WeakRequestsFixture:
    def __init__(self, *requests: Request) -> None:
        self.committed = DotSet()
        self.requests = WeakRequests(self.committed)
        for each in requests:
            self.requests.add(each)


def test_a_cut_names_the_last_earlier_weak_request_of_each_origin() -> None:
    fixture = WeakRequestsFixture(
        weak(3, 1, 10), weak(1, 1, 5), weak(1, 2, 20), weak(1, 4, 40), weak(2, 1, 30)
    )
    assert fixture.requests.cut_before(strong(0, 1, 30)) == (Dot(1, 2), Dot(3, 1))


def test_identifiers_order_equal_timestamps() -> None:
    fixture = WeakRequestsFixture(weak(1, 1, 30), weak(3, 1, 30))
    assert fixture.requests.cut_before(strong(2, 1, 30)) == (Dot(1, 1),)


def test_a_cut_omits_the_origin_of_its_strong_request() -> None:
    fixture = WeakRequestsFixture(weak(1, 1, 5), weak(2, 1, 6))
    assert fixture.requests.cut_before(strong(1, 2, 30)) == (Dot(2, 1),)


def test_a_cut_is_the_same_after_its_requests_are_committed() -> None:
    """So replicas that have the same requests compute the same cut, however far they are."""
    fixture = WeakRequestsFixture(weak(1, 1, 5), weak(1, 2, 6), weak(2, 1, 7))
    cut = fixture.requests.cut_before(strong(0, 1, 30))
    for dot in (Dot(1, 1), Dot(1, 2), Dot(2, 1)):
        fixture.committed.add(dot)
    fixture.requests.add(weak(1, 3, 40))
    fixture.requests.add(weak(2, 2, 41))
    assert fixture.requests.cut_before(strong(0, 1, 30)) == cut == (Dot(1, 2), Dot(2, 1))


def test_of_the_committed_requests_of_an_origin_only_the_last_is_retained() -> None:
    fixture = WeakRequestsFixture()
    for event in range(1, 100):
        fixture.requests.add(weak(1, event, event))
        fixture.committed.add(Dot(1, event))
    assert len(fixture.requests._by_origin[1]) <= 2
