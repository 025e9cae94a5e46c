"""Simulated time: the event heap and the skewed clocks of replicas.

Events run in the order (time, sequence). Events of one instant run in the order in which they were
scheduled, so that a run is repeatable. Time is in whole microseconds and never decreases. The heap
is independent of the content of its events.

The wall clock of a replica starts with a skew, drifts, and may jump in either direction. It only
determines the timestamps of requests. Ticks follow true time, so a wrong clock cannot start an
election.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeAlias

EventHandle: TypeAlias = list[Any]
"""A scheduled event, `[time, sequence, callback, arguments]`; opaque, only valid for `cancel`.

It is a list because the heap then compares in C and `cancel` can clear the callback in place."""


class EventHeap:
    def __init__(self) -> None:
        self._heap: list[EventHandle] = []
        self._sequence = 0
        self._is_stopped = False
        self.now_us = 0
        self.processed_events = 0

    def schedule_at(
        self, time_us: int, callback: Callable[..., None], *arguments: Any
    ) -> EventHandle:
        assert time_us >= self.now_us, "an event cannot be scheduled in the past"
        self._sequence += 1
        handle: EventHandle = [time_us, self._sequence, callback, arguments]
        heappush(self._heap, handle)
        return handle

    def schedule_after(
        self, delay_us: int, callback: Callable[..., None], *arguments: Any
    ) -> EventHandle:
        assert delay_us >= 0, "an event cannot be scheduled in the past"
        self._sequence += 1
        handle: EventHandle = [self.now_us + delay_us, self._sequence, callback, arguments]
        heappush(self._heap, handle)
        return handle

    def cancel(self, handle: EventHandle) -> None:
        """Cancel an event. Has no effect on an event that has already run."""
        handle[2] = None

    def stop(self) -> None:
        """Make `run` return after the current event."""
        self._is_stopped = True

    def run(self, events_max: int | None = None) -> bool:
        """Run until stopped or out of events; return False if `events_max` was reached first."""
        heap = self._heap
        self._is_stopped = False
        event_limit = None if events_max is None else self.processed_events + events_max
        while heap and not self._is_stopped:
            if self.processed_events == event_limit:
                return False
            time_us, _, callback, arguments = heappop(heap)
            if callback is None:
                continue
            self.now_us = time_us
            self.processed_events += 1
            callback(*arguments)
        return True


EPOCH_US = 1_600_000_000_000_000
"""Wall-clock time at the start of a run; realistic, so that no skew makes it negative."""

DAY_US = 86_400_000_000


class SkewedClock:
    def __init__(self, skew_us: int = 0, drift_ppm: int = 0) -> None:
        self.skew_us = skew_us
        self.drift_ppm = drift_ppm

    def read(self, true_us: int) -> int:
        return EPOCH_US + true_us + self.skew_us + true_us * self.drift_ppm // 1_000_000

    def jump(self, by_us: int) -> None:
        self.skew_us += by_us
