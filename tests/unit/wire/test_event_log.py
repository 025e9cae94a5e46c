"""What is told to who looks after a replica."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from creekdb.protocol.membership.configuration import Configuration
from creekdb.server.observability.status import (
    NO_MAJORITY_LOG_CHECKS,
    REJECTION_LOG_CHECKS,
    StateChangeLogger,
)
from creekdb.server.security.authentication import NO_TLS_FROM_PEER
from creekdb.wire import event_log
from creekdb.wire.event_log import EVENTS_PER_WINDOW_MAX, EventLog
from creekdb.wire.framing import UNEXPECTED_TLS


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger(event_log.LOGGER_NAME)
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], level, own = before
    root.setLevel(level)
    ours.setLevel(own)


def told(form: str, level: str = "info") -> tuple[EventLog, io.StringIO]:
    stream = io.StringIO()
    event_log.configure_logging(form, level, stream)
    return EventLog(3), stream


def test_an_event_is_a_line_for_people() -> None:
    events, stream = told("text")
    events.warning("peer.lost", "no connection to replica 2", peer=2)
    line = stream.getvalue()
    assert line.endswith("warning replica 3: no connection to replica 2 (peer.lost peer=2)\n")
    assert line[10] == " "
    assert line[19] == "."


def test_an_event_is_an_object_for_programs() -> None:
    events, stream = told("json")
    events.info("leader.changed", "replica 2 leads now", leader=2)
    found = json.loads(stream.getvalue())
    assert found.pop("at").endswith("Z")
    assert found == {
        "level": "info",
        "event": "leader.changed",
        "message": "replica 2 leads now",
        "replica": 3,
        "leader": 2,
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_nobody_can_make_up_a_line(form: str) -> None:
    events, stream = told(form)
    events.info("x", "first\nsecond", who="a\nb")
    assert stream.getvalue().count("\n") == 1


def test_what_is_below_the_level_is_not_told() -> None:
    events, stream = told("text", "error")
    events.warning("x", "quiet")
    assert stream.getvalue() == ""


def test_libraries_are_told_in_the_same_form() -> None:
    _, stream = told("json")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("asyncio").exception("it failed")
    found = json.loads(stream.getvalue())
    assert (found["event"], found["message"]) == ("asyncio", "it failed")
    assert "ValueError: broken" in found["trace"]


def names(stream: io.StringIO) -> list[str]:
    found = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    stream.seek(0)
    stream.truncate()
    return found


MEMBERS = Configuration(0, ((0, "a:1"), (1, "b:1"), (3, "c:1")))


def test_a_change_is_told_once() -> None:
    events, stream = told("json")
    watch = StateChangeLogger(events, 3)
    watch.check(None, [], {}, MEMBERS)
    assert names(stream) == []
    watch.check(1, [0, 1], {}, MEMBERS)
    watch.check(1, [0, 1], {}, MEMBERS)
    assert names(stream) == ["leader.changed", "peer.connected", "peer.connected"]
    watch.check(None, [0], {}, MEMBERS)
    assert names(stream) == ["leader.lost", "peer.lost"]


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_what_comes_and_goes_is_told_so_often_and_then_how_it_is() -> None:
    _, stream = told("json")
    clock = Clock()
    events = EventLog(3, clock)
    watch = StateChangeLogger(events, 3)
    for look in range(1000):
        clock.now_s += 0.25
        watch.check(1, [0, 1] if look % 2 else [0], {}, MEMBERS)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[0]["event"] == "leader.changed"
    of_zero = [each for each in lines if each.get("peer") == 0]
    assert [each["event"] for each in of_zero] == ["peer.connected"], "the other link does not flap"
    of_one = [each for each in lines if each.get("peer") == 1]
    assert len(of_one) == 4 * EVENTS_PER_WINDOW_MAX + 10
    summed_up = [each for each in of_one if "left_out" in each]
    assert len(summed_up) == 4
    assert "such events before it were left out" in summed_up[0]["message"]
    left_out = sum(each["left_out"] for each in summed_up)

    stream.truncate(0)
    stream.seek(0)
    for _ in range(300):  # all is quiet
        clock.now_s += 0.25
        watch.check(1, [0, 1], {}, MEMBERS)
    (last,) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (last["event"], last["peer"]) == ("peer.connected", 1), "how it is now"
    assert len(of_one) + 1 + left_out + last["left_out"] == 999, "nothing is lost"


def test_a_replica_that_stops_tells_what_it_held_back() -> None:
    _, stream = told("json")
    events = EventLog(3, Clock())
    for number in range(EVENTS_PER_WINDOW_MAX + 7):
        events.warning("peer.refused", f"cannot talk: {number}", peer=2)
        events.warning("journal.noticed", "is not bounded")
    events.info(event_log.REPLICA_STOPPING, "is being stopped")
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [each["event"] for each in found[-2:]] == ["peer.refused", "replica.stopping"]
    assert (found[-2]["left_out"], found[-2]["message"][:16]) == (6, "cannot talk: 16;")
    assert sum(each["event"] == "journal.noticed" for each in found) == EVENTS_PER_WINDOW_MAX + 7


def test_many_refusals_are_few_events() -> None:
    events, stream = told("json")
    watch = StateChangeLogger(events, 3)
    for count in range(1, REJECTION_LOG_CHECKS + 2):
        refused = {"malformed": count, "sent to a peer that is away": count}
        watch.check(None, [0, 1], refused, MEMBERS)
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    found = [each for each in found if each["event"] == "input.refused"]
    assert [each["reasons"] for each in found] == [
        {"malformed": 1},
        {"malformed": REJECTION_LOG_CHECKS},
    ]


def test_where_one_side_encrypts_and_the_other_does_not_it_is_told_what_to_do() -> None:
    events, stream = told("text")
    watch = StateChangeLogger(events, 3)
    watch.check(None, [], {UNEXPECTED_TLS: 1}, MEMBERS)
    assert "1 input was refused. Somebody encrypts, and this replica does not" in stream.getvalue()
    for _ in range(REJECTION_LOG_CHECKS):
        watch.check(None, [], {UNEXPECTED_TLS: 1, NO_TLS_FROM_PEER: 2}, MEMBERS)
    last = stream.getvalue().splitlines()[-1]
    assert "2 inputs were refused. Somebody does not encrypt, and this replica does" in last


def test_who_reaches_no_majority_says_whom_it_misses() -> None:
    events, stream = told("text")
    watch = StateChangeLogger(events, 3)
    for connected in ([0], [], [1], []):
        for _ in range(NO_MAJORITY_LOG_CHECKS + 5):
            watch.check(None, connected, {}, MEMBERS)
    found = [line for line in stream.getvalue().splitlines() if "majority.missing" in line]
    assert len(found) == 2
    assert "strong calls wait: is there replica 0 at a:1, replica 1 at b:1?" in found[0]


def test_one_that_was_removed_and_cannot_stop_says_what_it_waits_for() -> None:
    events, stream = told("text")
    watch = StateChangeLogger(events, 3)
    for _ in range(2 * NO_MAJORITY_LOG_CHECKS):
        watch.check(None, [0], {}, Configuration(1, ((0, "a:1"), (1, "b:1")), (3,)))
    (said,) = [line for line in stream.getvalue().splitlines() if "majority.missing" in line]
    assert "was removed from its cluster" in said
    assert "it waits for replica 1 at b:1. If they are gone for good, stop it" in said
