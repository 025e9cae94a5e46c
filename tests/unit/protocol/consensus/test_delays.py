"""The hold follows measured delays, within its bounds."""

from creekdb.protocol.consensus.delays import DelayEstimates
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables


def estimates(**settings: int) -> DelayEstimates:
    return DelayEstimates(SharedVariables(0, Settings(members=(0, 1, 2, 3, 4), **settings)))


def test_there_is_no_hold_before_a_delay_is_measured() -> None:
    assert estimates().hold_us() == 0


def test_the_hold_is_the_longest_recent_delay_of_any_origin() -> None:
    delays = estimates()
    for delay_us in (200, 300, 250):
        delays.add(1, delay_us)
        delays.add(2, delay_us - 20)
    assert 295 <= delays.hold_us() <= 300


def test_a_long_delay_is_forgotten_gradually() -> None:
    delays = estimates()
    delays.add(1, 1_000)
    held = []
    for _ in range(1_000):
        delays.add(1, 200)
        held.append(delays.hold_us())
    assert held == sorted(held, reverse=True)
    assert 200 <= held[-1] <= 210


def test_one_slow_origin_does_not_delay_all_requests() -> None:
    delays = estimates()
    for origin in (1, 2, 3):
        delays.add(origin, 200)
    delays.add(4, 80_000)
    assert delays.hold_us() == 400


def test_the_hold_is_limited_and_not_negative() -> None:
    delays = estimates(hold_us_max=150)
    delays.add(1, 200)
    assert delays.hold_us() == 150
    behind = estimates()
    behind.add(1, -5_000)  # the clock of the origin is ahead
    assert behind.hold_us() == 0


def test_delays_of_removed_members_do_not_count() -> None:
    shared = SharedVariables(0, Settings(members=(0, 1, 2)))
    delays = DelayEstimates(shared)
    delays.add(1, 100)
    delays.add(2, 150)
    shared.reconfigure(Configuration(1, ((0, ""), (1, "")), (2,)))
    delays.reconfigure()
    assert delays.hold_us() == 100
