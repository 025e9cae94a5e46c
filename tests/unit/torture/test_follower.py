"""Check of a follower: its changes against the committed order, the calls and the states."""

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest

from creekdb.checkers import Illegal, Ok
from creekdb.client import Change
from creekdb.errors import CreekError
from creekdb.history import (
    Committed,
    Dot,
    FinalState,
    History,
    LoggedEvent,
    Operation,
    OperationRecord,
    RbCast,
    ReplicaLog,
)
from creekdb.protocol.request import NOOP, Request
from creekdb.torture.follower import StreamRunner, WriteRow, check_changes, check_stream


def change(index: int, value: int) -> Change:
    writes = (("a", value),)
    return Change(index, Dot(0, index), 5, "put", (), True, None, None, None, writes, ())


def record(event: int, operation: Operation) -> OperationRecord:
    return OperationRecord(
        session=0,
        replica=0,
        incarnation=0,
        id=Dot(0, event),
        operation=operation,
        strong=True,
        invoked_us=0,
    )


PUTS = [record(each, Operation("put", ("a", each))) for each in (1, 3, 4)]
COMMITTED = tuple(Dot(0, each) for each in (1, 2, 3, 4))
HISTORY = History(
    config={},
    datatype="kv",
    members=(0,),
    quiescent=True,
    operations=(*PUTS, record(2, NOOP), record(5, Operation("put", ("a", 9)))),
    logs=(
        ReplicaLog(
            replica=0,
            incarnation=0,
            started_us=0,
            crashed_us=None,
            events=tuple(
                LoggedEvent(each, Committed(dot, each)) for each, dot in enumerate(COMMITTED)
            ),
        ),
    ),
    final_states=(FinalState(replica=0, first=0, committed=COMMITTED, tentative=(), state=()),),
)
CHANGES = [change(1, 1), change(3, 3), change(4, 4)]
STATES: dict[str, dict[Any, Any]] = {"0": {"a": 4}}


def test_exactly_the_committed_writes_are_accepted() -> None:
    verdict = check_changes(CHANGES, {0: CHANGES, 1: CHANGES[1:]}, HISTORY, STATES)
    assert verdict == Ok("changes")


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ([*CHANGES[:2], *CHANGES[1:]], "received change 3 after change 3"),
        ([CHANGES[0], CHANGES[2]], "put is committed at 3, but the follower did not receive it"),
        (CHANGES[:2], "put is committed at 4, but the follower did not receive it"),
        ([*CHANGES, change(5, 4)], "but None is committed there"),
    ],
    ids=["repeated", "missing", "missing at the end", "not committed"],
)
def test_other_changes_are_rejected(changes: list[Change], cause: str) -> None:
    verdict = check_changes(changes, {}, HISTORY, STATES)
    assert isinstance(verdict, Illegal)
    assert cause in verdict.describe()


def test_a_call_whose_id_was_used_again_after_a_crash_need_not_be_followed() -> None:
    noop = Request(timestamp=5, id=Dot(0, 2), strong=True, operation=NOOP, context=None)
    first = msgspec.structs.replace(HISTORY.logs[0], crashed_us=4)
    second = ReplicaLog(
        replica=0,
        incarnation=1,
        started_us=5,
        crashed_us=None,
        events=(LoggedEvent(5, RbCast(noop)),),
    )
    history = msgspec.structs.replace(
        HISTORY,
        operations=(*PUTS, record(2, Operation("put", ("a", 2)))),
        logs=(first, second),
    )
    assert check_changes(CHANGES, {}, history, STATES) == Ok("changes")


def test_a_change_of_another_request_is_rejected() -> None:
    other = msgspec.structs.replace(CHANGES[1], id=Dot(1, 3))
    verdict = check_changes([CHANGES[0], other, CHANGES[2]], {}, HISTORY, STATES)
    assert isinstance(verdict, Illegal)
    assert "change 3 is" in verdict.describe()


def test_another_state_is_rejected() -> None:
    verdict = check_changes(CHANGES, {}, HISTORY, {"0": {"a": 4}, "1": {"a": 4.0}})
    assert isinstance(verdict, Illegal)
    assert "the followed value of 'a' is 4, but replica 1 has 4.0" in verdict.describe()


@pytest.mark.parametrize(
    ("feed", "cause"),
    [
        (CHANGES[:2], "replica 2 keeps 2 changes from 1, not 3"),
        ([*CHANGES[:2], change(4, 5)], "change 4 differs at replica 2"),
    ],
)
def test_another_feed_of_a_replica_is_rejected(feed: list[Change], cause: str) -> None:
    verdict = check_changes(CHANGES, {0: CHANGES, 2: feed}, HISTORY, STATES)
    assert isinstance(verdict, Illegal)
    assert cause in verdict.describe()


ROWS: list[WriteRow] = [(1, '"a"', "1"), (2, '["b",7]', None), (3, '"a"', '{"y":1,"x":[2]}')]
STREAMED = [
    change(1, 1),
    msgspec.structs.replace(change(2, 0), writes=(), deleted=(("b", 7),)),
    msgspec.structs.replace(change(3, 0), writes=(("a", {"x": (2,), "y": 1}),)),
]


def test_a_stream_with_the_followed_writes_is_accepted() -> None:
    assert check_stream(ROWS, STREAMED) == Ok("spark stream")


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        (ROWS[:2], "lacks the write of change 3"),
        ([*ROWS, ROWS[1]], "repeats or falsifies the write of change 2"),
        ([ROWS[0], (2, '["b",7]', "0"), ROWS[2]], "1 missing and 1 superfluous rows of 3"),
    ],
)
def test_other_rows_of_a_stream_are_rejected(rows: list[WriteRow], cause: str) -> None:
    verdict = check_stream(rows, STREAMED)
    assert isinstance(verdict, Illegal)
    assert cause in verdict.message


class RecordedStream:
    """Stream that records the calls of its methods."""

    def __init__(self, failure: str = "") -> None:
        self.calls: list[str] = []
        self._failure = failure

    def start(self) -> None:
        self.calls.append("start")

    def check(self) -> None:
        if self._failure:
            raise CreekError(self._failure)

    def stop(self) -> None:
        self.calls.append("stop")

    def finish(self) -> list[WriteRow]:
        self.calls.append("finish")
        return ROWS


async def test_a_stream_is_interrupted_until_the_round_is_over() -> None:
    stream = RecordedStream()
    runner = StreamRunner(stream, Random(1), run_s=(0.0, 0.001))
    runner.start()
    while stream.calls.count("start") < 3:
        await asyncio.sleep(0)

    await runner.finish()

    assert runner.rows == ROWS
    assert stream.calls[:4] == ["start", "stop", "start", "stop"]
    assert stream.calls[-2:] == ["start", "finish"]


async def test_a_failed_stream_fails_the_round() -> None:
    runner = StreamRunner(RecordedStream("the query failed"), Random(1), run_s=(0.0, 0.001))
    runner.start()
    await asyncio.sleep(0.05)
    with pytest.raises(CreekError, match="the query failed"):
        await runner.finish()
