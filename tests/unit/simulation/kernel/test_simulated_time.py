"""The event heap: time order, ties in the order of scheduling, cancelling, stopping."""

import pytest

from creekdb.simulation.kernel.simulated_time import EventHeap


def test_events_happen_in_the_order_of_time() -> None:
    heap, seen = EventHeap(), list[tuple[int, str]]()
    for at_us, name in ((30, "c"), (10, "a"), (20, "b")):
        heap.schedule_at(at_us, lambda name: seen.append((heap.now_us, name)), name)
    assert heap.run()
    assert seen == [(10, "a"), (20, "b"), (30, "c")]


def test_events_of_one_instant_happen_in_the_order_they_were_scheduled() -> None:
    heap, seen = EventHeap(), list[int]()
    for each in range(50):
        heap.schedule_at(7, seen.append, each)
    heap.run()
    assert seen == list(range(50))


def test_an_event_may_schedule_another_one_at_its_own_instant() -> None:
    heap, seen = EventHeap(), list[int]()

    def schedule_another() -> None:
        heap.schedule_after(0, lambda: seen.append(heap.now_us))

    heap.schedule_at(5, schedule_another)
    heap.run()
    assert seen == [5]


def test_a_cancelled_event_does_not_happen_and_does_not_move_time() -> None:
    heap, seen = EventHeap(), list[str]()
    heap.schedule_at(1, seen.append, "kept")
    heap.cancel(heap.schedule_at(2, seen.append, "cancelled"))
    heap.run()
    assert (seen, heap.now_us, heap.processed_events) == (["kept"], 1, 1)


def test_a_stopped_heap_can_go_on_later() -> None:
    heap, seen = EventHeap(), list[int]()
    heap.schedule_at(1, heap.stop)
    heap.schedule_at(2, seen.append, 2)
    assert heap.run()
    assert seen == []
    assert heap.run()
    assert seen == [2]


def test_a_heap_that_runs_away_is_stopped_by_the_limit() -> None:
    heap = EventHeap()

    def again() -> None:
        heap.schedule_after(0, again)

    again()
    assert not heap.run(events_max=100)
    assert heap.processed_events == 100


def test_the_past_cannot_be_scheduled() -> None:
    heap = EventHeap()
    heap.schedule_at(10, lambda: None)
    heap.run()
    with pytest.raises(AssertionError):
        heap.schedule_at(9, lambda: None)
