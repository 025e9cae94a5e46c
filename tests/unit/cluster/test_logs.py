"""What is told to who looks after a replica."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from creek.cluster import logs
from creek.cluster.logs import EventLog
from creek.cluster.watch import PAUSE_LOOKS, Watch


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger(logs.LOGGER)
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], level, own = before
    root.setLevel(level)
    ours.setLevel(own)


def told(form: str, level: str = "info") -> tuple[EventLog, io.StringIO]:
    stream = io.StringIO()
    logs.set_up(form, level, stream)
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


def test_a_change_is_told_once() -> None:
    events, stream = told("json")
    watch = Watch(events, 3)
    watch.look(None, [], {})
    assert names(stream) == []
    watch.look(1, [0, 1], {})
    watch.look(1, [0, 1], {})
    assert names(stream) == ["leader.changed", "peer.connected", "peer.connected"]
    watch.look(None, [0], {})
    assert names(stream) == ["leader.lost", "peer.lost"]


def test_many_refusals_are_few_events() -> None:
    events, stream = told("json")
    watch = Watch(events, 3)
    for count in range(1, PAUSE_LOOKS + 2):
        watch.look(None, [], {"malformed": count, "sent to a peer that is away": count})
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [each["reasons"] for each in found] == [{"malformed": 1}, {"malformed": PAUSE_LOOKS}]
