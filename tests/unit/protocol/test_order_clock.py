"""Hybrid clock: strictly increasing, and never behind an observed timestamp."""

from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.order import HybridClock

DAY_US = 24 * 3600 * 1_000_000
times = st.integers(0, 10**6)


@given(st.lists(st.tuples(st.booleans(), times, times), max_size=30))
def test_timestamps_increase_with_any_wall_clock(steps: list[tuple[bool, int, int]]) -> None:
    clock, seen = HybridClock(), [0]
    for is_stamp, timestamp, now in steps:
        if is_stamp:
            stamp = clock.stamp(now)
            assert stamp > max(seen)
            assert stamp >= now
            seen.append(stamp)
        else:
            lead = clock.observe(timestamp, now)
            assert lead == max(0, timestamp - max(now, *seen))
            seen.append(timestamp)
        assert clock.last == max(seen)


def test_timestamp_follows_a_wall_clock_that_is_ahead() -> None:
    clock = HybridClock()
    assert clock.stamp(100) == 100
    assert clock.stamp(100) == 101
    assert clock.stamp(7) == 102
    assert clock.stamp(500) == 500


def test_observed_timestamp_advances_the_clock() -> None:
    clock = HybridClock()
    assert clock.observe(DAY_US + 10, 10) == DAY_US
    assert clock.stamp(20) == DAY_US + 11
    assert clock.observe(DAY_US + 15, 20) == 4, "the lead is measured against the advanced clock"


def test_past_timestamp_does_not_change_the_clock() -> None:
    clock = HybridClock()
    clock.stamp(50)
    assert clock.observe(20, 60) == 0
    assert clock.last == 50
