"""Watchdog: long operations are reported with their name and stack. Time slices of tasks."""

import logging
import threading
import time
from contextlib import ExitStack

import pytest

from creekdb.protocol.request import Operation
from creekdb.server.runtime.executors import SLICE_S_MAX, SLICE_S_MIN, TimeSlices, Watchdog
from creekdb.wire.deduplication import wrap_call
from creekdb.wire.event_log import EventLog

TIMEOUT_S = 20.0
OPERATION = wrap_call("ann", 1, Operation("spin", ("lamp", 3)))


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_operation_that_does_not_end_is_reported_with_its_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watchdog, released, started = Watchdog(5.0, EventLog(0)), threading.Event(), threading.Event()

    def spin() -> None:
        watchdog.begin(OPERATION, time.monotonic())
        started.set()
        released.wait(TIMEOUT_S)
        watchdog.end()

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    assert started.wait(TIMEOUT_S)
    now = time.monotonic()
    with caplog.at_level(logging.INFO), ExitStack() as at_end:
        at_end.callback(released.set)  # also after a failed assertion
        watchdog.check(now + 1)
        assert not messages(caplog)
        assert watchdog.status()["running"] is None
        watchdog.check(now + 6)
        watchdog.check(now + 7)
        assert len(messages(caplog)) == 1
        assert messages(caplog)[0].startswith("spin('lamp', 3) has been running for ")
        fields = caplog.records[0].__dict__["creek_fields"]
        assert "in spin" in fields["trace"]
        assert watchdog.status()["running"].startswith("spin('lamp', 3) for ")
        watchdog.check(now + 12)  # reported again after twice the limit
        assert len(messages(caplog)) == 2
        released.set()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
        assert messages(caplog)[2].startswith("spin('lamp', 3) took ")
    assert watchdog.status()["running"] is None
    assert watchdog.status()["long"] == 1
    assert watchdog.status()["last"].startswith("spin('lamp', 3) took ")


def test_short_operations_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(5.0, EventLog(0))
    with caplog.at_level(logging.INFO):
        for _ in range(10):
            watchdog.begin(OPERATION, time.monotonic())
            watchdog.check(time.monotonic() + 4)
            watchdog.end()
            watchdog.check(time.monotonic() + 60)
    assert not messages(caplog)
    assert watchdog.status() == {"running": None, "long": 0, "last": None}


def test_watchdog_thread_reports_while_the_main_thread_is_busy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watchdog = Watchdog(0.01, EventLog(0))
    watchdog.start()
    try:
        with caplog.at_level(logging.INFO):
            watchdog.begin(OPERATION, time.monotonic())
            deadline = time.monotonic() + TIMEOUT_S
            while not messages(caplog) and time.monotonic() < deadline:
                pass  # like an operation that never ends
            assert watchdog.long_count == 1
            assert messages(caplog)[0].startswith("spin('lamp', 3) has been running for ")
            watchdog.end()
    finally:
        watchdog.stop()


def test_tasks_get_half_of_the_time_of_a_busy_loop() -> None:
    slices = TimeSlices()
    assert slices.begin(10.0) == 10.0 + SLICE_S_MIN, "the loop was not busy with tasks before"
    slices.end(10.004, has_more=True)
    assert slices.begin(10.054) == pytest.approx(10.054 + 0.05)
    slices.end(10.104, has_more=True)
    assert slices.begin(11.0) == 11.0 + SLICE_S_MAX
    slices.end(11.1, has_more=False)
    assert slices.begin(12.0) == 12.0 + SLICE_S_MIN
