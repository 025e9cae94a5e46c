"""`committed · tentative` against a naive implementation of lines 36-40 and 48-53."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from creekdb.errors import BadValue
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.order import RequestOrder
from creekdb.protocol.request import Operation, OrderKey, Request
from creekdb.protocol.settings import REPLICA_MAX, Settings
from creekdb.protocol.validation import COUNTER_LIMIT
from tests.unit.protocol.strategies import frozen_dots

OPERATION = Operation("touch")


class PaperLists:
    def __init__(self) -> None:
        self.committed: list[Request] = []
        self.tentative: list[Request] = []

    def adjust_tentative_order(self, r: Request) -> None:
        previous = [x for x in self.tentative if x.key < r.key]
        subsequent = [x for x in self.tentative if r.key < x.key]
        self.tentative = [*previous, r, *subsequent]

    def commit(self, r: Request) -> list[Request]:
        assert r.context is not None
        committed_ext = [x for x in self.tentative if x.id in r.context]
        new_tentative = [x for x in self.tentative if x not in committed_ext and x != r]
        self.committed = [*self.committed, *committed_ext, r]
        self.tentative = new_tentative
        return [*committed_ext, r]

    def install(self, ids: Dots) -> list[Request]:
        covered = [x for x in self.tentative if x.id in ids]
        self.tentative = [x for x in self.tentative if x.id not in ids]
        self.committed = [Request(0, id, OPERATION, False) for id in ids]
        return covered


def weak(timestamp: int, replica: int, event: int) -> Request:
    return Request(timestamp, Dot(replica, event), OPERATION, False)


def strong(timestamp: int, replica: int, event: int, context: Dots) -> Request:
    return Request(timestamp, Dot(replica, event), OPERATION, True, context)


def assert_same(order: RequestOrder, lists: PaperLists) -> None:
    assert order.committed == lists.committed[order.first_position :]
    assert order.length == len(lists.committed)
    assert list(order.tentative) == lists.tentative
    assert len(order.tentative) == len(lists.tentative)
    assert set(order.committed_ids) == {each.id for each in lists.committed}
    for each in lists.tentative:
        assert order.find_tentative(each.id) is each


def draw_request(draw: DrawFn, event: int, lists: PaperLists, is_strong: bool) -> Request:
    timestamp, replica = draw(st.integers(0, 12)), draw(st.integers(0, 2))
    if not is_strong:
        return weak(timestamp, replica, event)
    available = [each.id for each in lists.tentative if not each.strong]
    context = draw(st.sets(st.sampled_from(available))) if available else set()
    committed = [each.id for each in lists.committed]
    return strong(timestamp, replica, event, frozen_dots([*committed, *sorted(context)]))


@given(st.data())
def test_order_matches_the_lists_of_the_paper(data: st.DataObject) -> None:
    order, lists = RequestOrder(), PaperLists()
    steps = data.draw(
        st.lists(
            st.sampled_from(["weak", "weak", "strong", "commit", "commit", "truncate", "install"]),
            max_size=25,
        )
    )
    for event, step in enumerate(steps, 1):
        strongs = [each for each in lists.tentative if each.strong]
        if step in ("weak", "strong"):
            request = data.draw(
                st.composite(draw_request)(event, lists, step == "strong"), label="request"
            )
            order.insert(request)
            lists.adjust_tentative_order(request)
        elif step == "commit" and strongs:
            request = data.draw(st.sampled_from(strongs))
            assert order.commit(request) == lists.commit(request)
        elif step == "truncate":
            order.truncate_prefix(data.draw(st.integers(order.first_position, order.length)))
        elif step == "install":
            available = [each.id for each in lists.tentative]
            covered = data.draw(st.sets(st.sampled_from(available))) if available else set()
            new = [Dot(3, event)] if data.draw(st.booleans()) else []
            committed = [each.id for each in lists.committed]
            ids = frozen_dots([*committed, *sorted(covered), *new])
            order.install(len(ids), ids)
            lists.install(ids)
            assert order.committed == []
        assert_same(order, lists)


def test_tentative_is_ordered_by_timestamp_then_identifier() -> None:
    order = RequestOrder()
    requests = [weak(5, 1, 1), weak(5, 0, 2), weak(3, 2, 1), weak(5, 0, 1)]
    for each in requests:
        order.insert(each)
    assert [each.id for each in order.tentative] == [
        Dot(2, 1),
        Dot(0, 1),
        Dot(0, 2),
        Dot(1, 1),
    ]


def test_order_holds_for_the_greatest_identifiers() -> None:
    requests = [
        weak(0, REPLICA_MAX, COUNTER_LIMIT - 1),
        weak(1, 0, 1),
        weak(1, 0, COUNTER_LIMIT - 1),
        weak(1, 1, 1),
        weak(1, REPLICA_MAX, 1),
        weak(COUNTER_LIMIT - 1, 0, 2),
        weak(COUNTER_LIMIT - 1, REPLICA_MAX, 2),
    ]
    order = RequestOrder()
    for each in reversed(requests):
        order.insert(each)
    assert list(order.tentative) == requests == sorted(requests, key=lambda each: each.key)


@pytest.mark.parametrize("member", [-1, REPLICA_MAX + 1])
def test_replica_numbers_beyond_the_sort_key_are_rejected(member: int) -> None:
    with pytest.raises(BadValue, match="numbers must be from 0"):
        Settings(members=tuple(sorted((0, 1, member))))


def test_tentative_after_a_key_excludes_the_key() -> None:
    order = RequestOrder()
    first, second, third = weak(1, 0, 1), weak(2, 0, 2), weak(3, 0, 3)
    for each in (third, first, second):
        order.insert(each)
    assert list(order.tentative_after(None)) == [first, second, third]
    assert list(order.tentative_after(first.key)) == [second, third]
    assert list(order.tentative_after(OrderKey(2, Dot(0, 0)))) == [second, third]
    assert list(order.tentative_after(third.key)) == []


def test_commit_moves_the_context_in_tentative_order() -> None:
    order = RequestOrder()
    late, early, other = weak(9, 0, 1), weak(1, 1, 1), weak(2, 2, 1)
    head = strong(5, 1, 2, Dots({0: (1, 2), 1: (1, 2)}))
    for each in (late, early, other, head):
        order.insert(each)
    assert order.commit(head) == [early, late, head]
    assert list(order.tentative) == [other]


def test_commit_does_not_move_committed_requests_again() -> None:
    order = RequestOrder()
    first = weak(1, 0, 1)
    first_strong, second_strong = (
        strong(2, 0, 2, Dots({0: (1, 2)})),
        strong(3, 0, 3, Dots({0: (1, 3)})),
    )
    for each in (first, first_strong, second_strong):
        order.insert(each)
    order.commit(first_strong)
    assert order.commit(second_strong) == [second_strong]
    assert order.committed == [first, first_strong, second_strong]


def test_truncated_prefix_keeps_its_length_and_identifiers() -> None:
    order = RequestOrder()
    requests = [strong(each, 0, each, Dots()) for each in (1, 2, 3)]
    for each in requests:
        order.insert(each)
        order.commit(each)
    order.truncate_prefix(2)
    assert (order.first_position, order.length) == (2, 3)
    assert order.committed == requests[2:]
    assert order.committed_ids.covers(Dots({0: (1, 4)}))


def test_identifiers_of_a_prefix_exclude_later_commits() -> None:
    order = RequestOrder()
    first, second = weak(1, 0, 1), weak(2, 1, 1)
    first_strong, second_strong = (
        strong(3, 0, 2, Dots({0: (1, 2)})),
        strong(4, 1, 2, Dots({1: (1, 2)})),
    )
    for each in (first, second, first_strong, second_strong):
        order.insert(each)
    order.commit(first_strong)
    order.commit(second_strong)
    order.truncate_prefix(1)
    assert [order.ids_before(length) for length in (1, 2, 4)] == [
        frozen_dots(each.id for each in committed)
        for committed in (
            [first],
            [first, first_strong],
            [first, first_strong, second, second_strong],
        )
    ]


def test_request_cannot_be_inserted_twice() -> None:
    order = RequestOrder()
    request = strong(1, 0, 1, Dots())
    order.insert(request)
    with pytest.raises(AssertionError):
        order.insert(request)
    order.commit(request)
    with pytest.raises(AssertionError):
        order.insert(request)


def test_shorter_checkpoint_is_not_installed() -> None:
    order = RequestOrder()
    request = strong(1, 0, 1, Dots())
    order.insert(request)
    order.commit(request)
    with pytest.raises(AssertionError):
        order.install(0, Dots())
    assert order.committed == [request]


def test_checkpoint_without_a_committed_request_is_not_installed() -> None:
    """The length of the checkpoint does not matter."""
    order = RequestOrder()
    request = strong(1, 0, 1, Dots())
    order.insert(request)
    order.commit(request)
    others = frozen_dots([Dot(1, 1), Dot(1, 2)])
    assert not order.can_install(2, others)
    assert order.can_install(3, frozen_dots([request.id, Dot(1, 1), Dot(1, 2)]))
    assert not order.can_install(0, frozen_dots([request.id]))


def test_a_cut_may_name_an_origin_twice() -> None:
    order = RequestOrder()
    requests = [weak(1, 1, 1), weak(2, 1, 2), strong(3, 0, 1, Dots())]
    for request in requests:
        order.insert(request)

    assert order.commit(requests[-1], (Dot(1, 1), Dot(1, 2))) == requests
    assert list(order.tentative_after(None)) == []
