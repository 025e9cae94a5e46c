"""Checks of a live history: each planted violation is found, and a sound history passes."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from creekdb.datatypes import get_datatype
from creekdb.errors import ChangesExpired
from creekdb.pipeline.storage import Location
from creekdb.pipeline.watch import checks
from creekdb.pipeline.watch.auditor import Auditor, Finding, verdicts
from creekdb.pipeline.watch.following import Batch
from creekdb.pipeline.watch.replay import Replay
from creekdb.pipeline.watch.tables import SEEN_CALLS
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.changes import Change, encode_changes
from tests.pipeline.feed_rows import SECOND_US, Row, change_row, feed_frame, range_row
from tests.pipeline.spark_tables import frame

REPLICAS = range(3)


def increment(number: int, value: int | None = None) -> bytes:
    """Return the change of `increment("a")` that is the `number`-th one."""
    written = number if value is None else value
    return encode_changes(
        (
            Change(
                *(number, Dot(number % 2, number), number * 1000, "increment", ("a", 1), False),
                *(None, written, None, (("a", written),), ()),
                client=f"c{number % 2}",
                number=number,
            ),
        )
    )


def history(first: int, stop: int, changed: dict[tuple[int, int], Row] | None = None) -> list[Row]:
    """Return the feeds of three replicas, with changed fields by replica and index."""
    rows: list[Row] = []
    for replica in REPLICAS:
        for index in range(first, stop):
            fields: dict[str, Any] = {
                "origin": index % 2,
                "client": f"c{index % 2}",
                "strong": index % 5 == 0,
                "operation": "increment",
                "body": increment(index),
            }
            fields |= (changed or {}).get((replica, index), {})
            if fields.pop("is_missing", False):
                continue
            rows.append(change_row(index, replica, **fields))
        rows.append(range_row(replica, first, stop))
    return rows


def everywhere(index: int, **fields: Any) -> dict[tuple[int, int], Row]:
    """Return fields that all replicas agree on."""
    return {(replica, index): fields for replica in REPLICAS}


class AuditFixture:
    def __init__(self, spark: SparkSession, directory: Any, is_replayed: bool = False) -> None:
        self.spark = spark
        self.out = Location.parse(directory)
        self.is_replayed = is_replayed
        self.restart()

    def restart(self) -> None:
        replay = Replay(get_datatype("kv"), self.out / "replay") if self.is_replayed else None
        self.auditor = Auditor(self.spark, self.out, replay=replay)

    def judge(self, number: int, rows: list[Row]) -> list[Finding]:
        ends = {
            replica: max(row["index"] for row in rows if row["replica"] == replica)
            for replica in {row["replica"] for row in rows}
        }
        return self.auditor.handle(Batch(number, feed_frame(self.spark, rows), ends)).findings


PLANTED: dict[str, tuple[str, int, dict[tuple[int, int], Row]]] = {
    "another_change": ("prefix_order", 9, {(1, 9): {"digest": 1, "operation": "delete"}}),
    "a_missing_change": ("prefix_order", 11, {(2, 11): {"is_missing": True}}),
    "a_call_twice": ("committed_once", 13, everywhere(13, number=5, client="c1")),
    "a_request_twice": ("committed_once", 15, everywhere(15, event=14, origin=0)),
    "a_late_weak_request": ("session_order", 17, everywhere(17, event=1)),
    "an_early_commit": ("real_time", 19, {(0, 19): {"committed_us": -2 * SECOND_US}}),
    "a_wrong_value": ("replay", 21, everywhere(21, body=increment(21, value=9))),
}


@pytest.fixture(scope="module")
def planted(spark: SparkSession, tmp_path_factory: Any) -> list[Finding]:
    """Return the findings in a history with all violations. Its first part was judged earlier."""
    audit = AuditFixture(spark, tmp_path_factory.mktemp("audit"), is_replayed=True)
    assert audit.judge(0, history(1, 8)) == []
    audit.restart()
    merged: dict[tuple[int, int], Row] = {}
    for _, _, changed in PLANTED.values():
        merged |= changed
    found = audit.judge(1, history(8, 22, merged))
    assert audit.auditor.violations == found
    return found


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str, planted: list[Finding]) -> None:
    checker, index, _ = PLANTED[name]

    assert [each.checker for each in planted if each.index == index] == [checker]
    assert verdicts(planted, has_replay=True)[checker] == "illegal"


def test_only_the_planted_violations_are_found(planted: list[Finding]) -> None:
    assert sorted(each.index for each in planted) == [index for _, index, _ in PLANTED.values()]


def test_a_violation_names_the_requests(planted: list[Finding]) -> None:
    details = {each.index: each.detail for each in planted}

    assert "replica 1 has delete (1.9)" in details[9]
    assert details[11] == "replica 2 has no change, and replica 0 has increment (1.11)"
    assert details[13] == "call 5 of client c1 takes effect again in 1.13, first at 5"
    assert details[21] == "increment (1.21) returned 9, and its replay 21"


def test_a_sound_history_is_judged_once_all_replicas_have_it(
    spark: SparkSession, tmp_path: Any
) -> None:
    """Replica 2 lags and has skipped changes; a retried call is committed twice; a batch recurs.

    A further replica responds when everything is judged.
    """
    audit = AuditFixture(spark, tmp_path)
    rows = history(1, 9, everywhere(7, number=3, client="c1", keys=[]))
    others = [row for row in rows if row["replica"] != 2]
    late = [row for row in rows if row["replica"] == 2 and row["start"] is None]
    late = [*(row for row in late if row["index"] > 5), range_row(2, 6, 9)]

    assert audit.judge(0, [*others, range_row(2, 1, 1)]) == []
    assert audit.auditor.progress.compared == 0
    assert audit.judge(1, late) == []
    audit.restart()
    assert audit.judge(1, late) == []
    assert audit.judge(2, [row | {"replica": 3} for row in rows if row["replica"] == 0]) == []
    assert (audit.auditor.progress.compared, audit.auditor.progress.frontier) == (8, 9)


def test_changes_that_no_replica_has_end_a_replay(spark: SparkSession, tmp_path: Any) -> None:
    audit = AuditFixture(spark, tmp_path, is_replayed=True)
    rows = [range_row(0, 1, 4), range_row(1, 6, 9), range_row(0, 9, 9)]

    with pytest.raises(ChangesExpired, match="cannot replay the changes from 4 to 5"):
        audit.judge(0, rows)


def test_calls_of_idle_clients_are_forgotten(spark: SparkSession) -> None:
    rows = [
        *(change_row(index, client="old") for index in (1, 2)),
        *(change_row(index, client="new") for index in (3, 4, 5)),
    ]
    agreed = checks.agreed_changes(checks.entries_of(feed_frame(spark, rows)), 6)
    none = frame(spark, SEEN_CALLS.empty_table())

    seen = checks.seen_calls(agreed, none, frontier=6, numbers=2, idle_commits=3)

    assert sorted(row["number"] for row in seen.collect()) == [4, 5]


def test_clocks_may_differ_within_the_given_error(spark: SparkSession) -> None:
    rows = [change_row(1, strong=True, timestamp_us=SECOND_US), change_row(2, committed_us=0)]
    agreed = checks.agreed_changes(checks.entries_of(feed_frame(spark, rows)), 3)

    assert checks.early_commits(agreed, 0, SECOND_US).count() == 0
    assert checks.early_commits(agreed, 0, SECOND_US - 1).count() == 1
