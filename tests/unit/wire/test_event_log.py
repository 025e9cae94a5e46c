"""The event log: formats, levels, rate limits, and logged state changes."""

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
from creekdb.wire import event_log
from creekdb.wire.counters import ServerCounter
from creekdb.wire.event_log import EVENTS_PER_WINDOW_MAX, EventLog, EventName
from creekdb.wire.reject_reason import RejectReason


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root, creek = logging.getLogger(), logging.getLogger(event_log.LOGGER_NAME)
    before = root.handlers[:], root.level, creek.level
    yield
    root.handlers[:], level, creek_level = before
    root.setLevel(level)
    creek.setLevel(creek_level)


def configured_log(form: str, level: str = "info") -> tuple[EventLog, io.StringIO]:
    stream = io.StringIO()
    event_log.configure_logging(form, level, stream)
    return EventLog(3), stream


def test_text_format_writes_one_line_per_event() -> None:
    events, stream = configured_log("text")
    events.warning(EventName.PEER_LOST, "no connection to replica 2", peer=2)
    line = stream.getvalue()
    assert line.endswith("warning replica 3: no connection to replica 2 (peer.lost peer=2)\n")
    assert line[10] == " "
    assert line[19] == "."


def test_json_format_writes_one_object_per_event() -> None:
    events, stream = configured_log("json")
    events.info(EventName.LEADER_CHANGED, "replica 2 leads now", leader=2)
    events_logged = json.loads(stream.getvalue())
    assert events_logged.pop("at").endswith("Z")
    assert events_logged == {
        "level": "info",
        "event": EventName.LEADER_CHANGED,
        "message": "replica 2 leads now",
        "replica": 3,
        "leader": 2,
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_break_in_a_message_does_not_start_a_line(form: str) -> None:
    events, stream = configured_log(form)
    events.info(EventName.REPLICA_BUSY, "first\nsecond", text="a\nb")
    assert stream.getvalue().count("\n") == 1


def test_events_below_the_level_are_not_logged() -> None:
    events, stream = configured_log("text", "error")
    events.warning(EventName.REPLICA_BUSY, "a warning")
    assert stream.getvalue() == ""


def test_records_of_libraries_have_the_same_format() -> None:
    _, stream = configured_log("json")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("asyncio").exception("task failed")
    events_logged = json.loads(stream.getvalue())
    assert (events_logged["event"], events_logged["message"]) == ("asyncio", "task failed")
    assert "ValueError: broken" in events_logged["trace"]


def take_event_names(stream: io.StringIO) -> list[str]:
    events_logged = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    stream.seek(0)
    stream.truncate()
    return events_logged


MEMBERS = Configuration(0, ((0, "a:1"), (1, "b:1"), (3, "c:1")))


def test_a_change_is_logged_once() -> None:
    events, stream = configured_log("json")
    logger = StateChangeLogger(events, 3)
    logger.check(None, [], {}, MEMBERS)
    assert take_event_names(stream) == []
    logger.check(1, [0, 1], {}, MEMBERS)
    logger.check(1, [0, 1], {}, MEMBERS)
    assert take_event_names(stream) == [
        EventName.LEADER_CHANGED,
        EventName.PEER_CONNECTED,
        EventName.PEER_CONNECTED,
    ]
    logger.check(None, [0], {}, MEMBERS)
    assert take_event_names(stream) == [EventName.LEADER_LOST, EventName.PEER_LOST]


def test_operations_with_other_code_are_logged_at_their_begin_and_end() -> None:
    events, stream = configured_log("json")
    logger = StateChangeLogger(events, 3)
    logger.check(1, [0, 1], {}, MEMBERS)
    take_event_names(stream)
    for _ in range(2):
        logger.check(1, [0, 1], {}, MEMBERS, {"0": ["book"]})
    line = json.loads(stream.getvalue())
    assert (line["event"], line["peer"], line["operations"]) == ("operations.differ", 0, ["book"])
    take_event_names(stream)
    logger.check(1, [0, 1], {}, MEMBERS, {"0": ["book", "leave"]})
    assert take_event_names(stream) == [EventName.OPERATIONS_DIFFER]
    logger.check(1, [1], {}, MEMBERS)
    assert take_event_names(stream) == [EventName.PEER_LOST]
    logger.check(1, [0, 1], {}, MEMBERS)
    assert take_event_names(stream) == [EventName.PEER_CONNECTED, EventName.OPERATIONS_EQUAL]
    logger.check(1, [0, 1], {}, MEMBERS)
    assert take_event_names(stream) == []


def test_another_kind_of_build_is_logged_once() -> None:
    events, stream = configured_log("json")
    logger = StateChangeLogger(events, 3)
    logger.check(1, [0, 1], {}, MEMBERS)
    take_event_names(stream)
    for _ in range(2):
        logger.check(1, [0, 1], {}, MEMBERS, {}, {"0": "compiled"})
    line = json.loads(stream.getvalue())
    assert (line["event"], line["peer"], line["build"]) == ("builds.differ", 0, "compiled")


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_frequent_events_are_rate_limited_and_the_last_one_is_logged() -> None:
    _, stream = configured_log("json")
    clock = Clock()
    events = EventLog(3, clock)
    logger = StateChangeLogger(events, 3)
    for check in range(1000):
        clock.now_s += 0.25
        logger.check(1, [0, 1] if check % 2 else [0], {}, MEMBERS)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[0]["event"] == EventName.LEADER_CHANGED
    events_of_zero = [each for each in lines if each.get("peer") == 0]
    assert [each["event"] for each in events_of_zero] == [EventName.PEER_CONNECTED], (
        "the other link does not flap"
    )
    events_of_one = [each for each in lines if each.get("peer") == 1]
    assert len(events_of_one) == 4 * EVENTS_PER_WINDOW_MAX + 10
    summaries = [each for each in events_of_one if "left_out" in each]
    assert len(summaries) == 4
    assert "events before it were suppressed" in summaries[0]["message"]
    suppressed = sum(each["left_out"] for each in summaries)

    stream.truncate(0)
    stream.seek(0)
    for _ in range(300):  # the connection stays up
        clock.now_s += 0.25
        logger.check(1, [0, 1], {}, MEMBERS)
    (last,) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (last["event"], last["peer"]) == (EventName.PEER_CONNECTED, 1), "the current state"
    assert len(events_of_one) + 1 + suppressed + last["left_out"] == 999, (
        "every event is logged or counted"
    )


def test_errors_of_operations_have_a_rate_limit_of_their_own() -> None:
    _, stream = configured_log("json")
    events = EventLog(3, Clock())
    for _ in range(EVENTS_PER_WINDOW_MAX + 7):
        events.info(EventName.OPERATION_RAISED, "divide raised", trace="line 1")
        events.error(EventName.OPERATION_LONG, "not rate-limited")
    names = take_event_names(stream)
    assert names.count(EventName.OPERATION_RAISED) == EVENTS_PER_WINDOW_MAX
    assert names.count(EventName.OPERATION_LONG) == EVENTS_PER_WINDOW_MAX + 7


def test_stopping_flushes_suppressed_events() -> None:
    _, stream = configured_log("json")
    events = EventLog(3, Clock())
    for number in range(EVENTS_PER_WINDOW_MAX + 7):
        events.warning(EventName.PEER_REFUSED, f"cannot connect: {number}", peer=2)
        events.warning(EventName.JOURNAL_NOTICED, "not rate-limited")
    events.info(EventName.REPLICA_STOPPING, "stopping")
    events_logged = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [each["event"] for each in events_logged[-2:]] == [
        EventName.PEER_REFUSED,
        EventName.REPLICA_STOPPING,
    ]
    assert (events_logged[-2]["left_out"], events_logged[-2]["message"][:19]) == (
        6,
        "cannot connect: 16;",
    )
    assert (
        sum(each["event"] == EventName.JOURNAL_NOTICED for each in events_logged)
        == EVENTS_PER_WINDOW_MAX + 7
    )


def test_many_rejections_are_few_events() -> None:
    events, stream = configured_log("json")
    logger = StateChangeLogger(events, 3)
    for count in range(1, REJECTION_LOG_CHECKS + 2):
        rejections: dict[str, int] = {
            RejectReason.MALFORMED: count,
            ServerCounter.PEER_NOT_CONNECTED: count,
        }
        logger.check(None, [0, 1], rejections, MEMBERS)
    events_logged = [json.loads(line) for line in stream.getvalue().splitlines()]
    events_logged = [each for each in events_logged if each["event"] == EventName.INPUT_REFUSED]
    assert [each["reasons"] for each in events_logged] == [
        {RejectReason.MALFORMED: 1},
        {RejectReason.MALFORMED: REJECTION_LOG_CHECKS},
    ]


def test_a_tls_mismatch_is_logged_with_a_remedy() -> None:
    events, stream = configured_log("text")
    logger = StateChangeLogger(events, 3)
    logger.check(None, [], {RejectReason.UNEXPECTED_TLS: 1}, MEMBERS)
    assert (
        "1 input was rejected. A connection used TLS, but this replica does not"
        in stream.getvalue()
    )
    for _ in range(REJECTION_LOG_CHECKS):
        rejections: dict[str, int] = {
            RejectReason.UNEXPECTED_TLS: 1,
            ServerCounter.TLS_MISSING: 2,
        }
        logger.check(None, [], rejections, MEMBERS)
    last = stream.getvalue().splitlines()[-1]
    assert (
        "2 inputs were rejected. A connection without TLS reached this replica, which requires"
        in last
    )


def test_a_missing_majority_is_logged_with_the_missing_members() -> None:
    events, stream = configured_log("text")
    logger = StateChangeLogger(events, 3)
    for connected in ([0], [], [1], []):
        for _ in range(NO_MAJORITY_LOG_CHECKS + 5):
            logger.check(None, connected, {}, MEMBERS)
    events_logged = [
        line for line in stream.getvalue().splitlines() if EventName.MAJORITY_MISSING in line
    ]
    assert len(events_logged) == 2
    assert "strong calls wait for replica 0 at a:1, replica 1 at b:1;" in events_logged[0]


def test_a_removed_replica_that_cannot_stop_logs_the_members_it_waits_for() -> None:
    events, stream = configured_log("text")
    logger = StateChangeLogger(events, 3)
    for _ in range(2 * NO_MAJORITY_LOG_CHECKS):
        logger.check(None, [0], {}, Configuration(1, ((0, "a:1"), (1, "b:1")), (3,)))
    (line,) = [
        line for line in stream.getvalue().splitlines() if EventName.MAJORITY_MISSING in line
    ]
    assert "was removed from its cluster" in line
    assert "It waits for replica 1 at b:1. If these members are lost, stop" in line
