"""Event heap: time order, scheduling order at one instant, cancelling, stopping."""

import pytest

from creekdb.simulation.kernel.simulated_time import EventHeap


def test_events_run_in_the_order_of_time() -> None:
    heap, processed = EventHeap(), list[tuple[int, str]]()
    for at_us, name in ((30, "c"), (10, "a"), (20, "b")):
        heap.schedule_at(at_us, lambda name: processed.append((heap.now_us, name)), name)
    assert heap.run()
    assert processed == [(10, "a"), (20, "b"), (30, "c")]


def test_events_of_one_instant_run_in_the_order_of_scheduling() -> None:
    heap, processed = EventHeap(), list[int]()
    for each in range(50):
        heap.schedule_at(7, processed.append, each)
    heap.run()
    assert processed == list(range(50))


def test_an_event_may_schedule_another_at_its_own_instant() -> None:
    heap, processed = EventHeap(), list[int]()

    def schedule_another() -> None:
        heap.schedule_after(0, lambda: processed.append(heap.now_us))

    heap.schedule_at(5, schedule_another)
    heap.run()
    assert processed == [5]


def test_a_cancelled_event_neither_runs_nor_advances_time() -> None:
    heap, processed = EventHeap(), list[str]()
    heap.schedule_at(1, processed.append, "active")
    heap.cancel(heap.schedule_at(2, processed.append, "cancelled"))
    heap.run()
    assert (processed, heap.now_us, heap.processed_events) == (["active"], 1, 1)


def test_a_stopped_heap_can_be_resumed() -> None:
    heap, processed = EventHeap(), list[int]()
    heap.schedule_at(1, heap.stop)
    heap.schedule_at(2, processed.append, 2)
    assert heap.run()
    assert processed == []
    assert heap.run()
    assert processed == [2]


def test_the_event_limit_stops_an_endless_run() -> None:
    heap = EventHeap()

    def schedule_again() -> None:
        heap.schedule_after(0, schedule_again)

    schedule_again()
    assert not heap.run(events_max=100)
    assert heap.processed_events == 100


def test_events_cannot_be_scheduled_in_the_past() -> None:
    heap = EventHeap()
    heap.schedule_at(10, lambda: None)
    heap.run()
    with pytest.raises(AssertionError):
        heap.schedule_at(9, lambda: None)
