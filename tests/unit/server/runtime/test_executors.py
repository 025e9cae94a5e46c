"""Operations that take too long are told of, by name and by where they are."""

import logging
import threading
import time

import pytest

from creekdb.protocol.request import Operation
from creekdb.server.runtime.executors import Watchdog
from creekdb.wire.deduplication import wrap_call
from creekdb.wire.event_log import EventLog

OPERATION = wrap_call("ann", 1, Operation("spin", ("lamp", 3)))


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_one_that_does_not_end_is_told_of_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    watchdog, over, begun = Watchdog(5.0, EventLog(0)), threading.Event(), threading.Event()

    def spinning() -> None:
        watchdog.begin(OPERATION)
        begun.set()
        over.wait()
        watchdog.end()

    thread = threading.Thread(target=spinning)
    thread.start()
    begun.wait()
    now = time.monotonic()
    with caplog.at_level(logging.INFO):
        watchdog.check(now + 1)
        assert not told(caplog)
        assert watchdog.status()["running"] is None
        watchdog.check(now + 6)
        watchdog.check(now + 7)
        assert len(told(caplog)) == 1
        assert told(caplog)[0].startswith("spin('lamp', 3) has been running for ")
        fields = caplog.records[0].__dict__["creek_fields"]
        assert "in spinning" in fields["trace"]
        assert watchdog.status()["running"].startswith("spin('lamp', 3) for ")
        watchdog.check(now + 12)  # again, after twice as long
        assert len(told(caplog)) == 2
        over.set()
        thread.join()
        assert told(caplog)[2].startswith("spin('lamp', 3) took ")
    assert watchdog.status()["running"] is None
    assert watchdog.status()["long"] == 1
    assert watchdog.status()["last"].startswith("spin('lamp', 3) took ")


def test_many_short_ones_are_nothing_to_tell_of(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(5.0, EventLog(0))
    with caplog.at_level(logging.INFO):
        for _ in range(10):
            watchdog.begin(OPERATION)
            watchdog.check(time.monotonic() + 4)
            watchdog.end()
            watchdog.check(time.monotonic() + 60)
    assert not told(caplog)
    assert watchdog.status() == {"running": None, "long": 0, "last": None}


def test_a_thread_of_its_own_looks_while_nobody_else_can(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(0.01, EventLog(0))
    watchdog.start()
    with caplog.at_level(logging.INFO):
        watchdog.begin(OPERATION)
        until = time.monotonic() + 20
        while not watchdog.long_count and time.monotonic() < until:
            pass  # as an operation does that never ends
        watchdog.end()
    watchdog.stop()
    assert watchdog.long_count == 1
