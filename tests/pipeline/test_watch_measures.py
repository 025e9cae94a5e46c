"""Measurements of a watched cluster, from rows of its feed."""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from creekdb.pipeline.watch import measures
from creekdb.pipeline.watch.tables import KEPT_SCHEMAS
from creekdb.pipeline.watch.watcher import batch_tables, window_of, window_tables
from tests.pipeline.feed_rows import SECOND_US, Row, change_row, feed_frame, range_row


def rows_of(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]


def test_requests_count_in_the_step_in_which_they_became_final(spark: SparkSession) -> None:
    feed = feed_frame(
        spark,
        [
            change_row(1, timestamp_us=SECOND_US - 1),
            change_row(2, timestamp_us=SECOND_US - 1, committed_us=None, changed=None),
            change_row(3, changed=True, error="BadValue: no", timestamp_us=SECOND_US),
            range_row(0, 1, 4),
        ],
    )

    counted = {row["step_us"]: row for row in rows_of(measures.commits(feed, SECOND_US))}

    assert set(counted) == {0, SECOND_US}
    assert (counted[0]["commits"], counted[0]["unknown"]) == (1, 1)
    later = counted[SECOND_US]
    names = ("commits", "failed", "kept", "changed", "unknown")
    assert [later[name] for name in names] == [2, 1, 1, 1, 0]


def test_latencies_are_rounded_and_never_negative(spark: SparkSession) -> None:
    feed = feed_frame(
        spark,
        [
            change_row(1, timestamp_us=0, committed_us=12_345),
            change_row(2, timestamp_us=0, committed_us=12_999),
            change_row(3, timestamp_us=9000, committed_us=8000),
            change_row(4, committed_us=None),
        ],
    )

    counted = rows_of(measures.latency_counts(feed, SECOND_US))

    assert {row["latency_us"]: row["times"] for row in counted} == {12_000: 2, 0: 1}


def test_only_the_most_written_keys_of_a_minute_are_kept(spark: SparkSession) -> None:
    feed = feed_frame(
        spark,
        [change_row(1, keys=['"a"', '"b"']), change_row(2, keys=['"a"']), change_row(3, keys=[])],
    )

    kept = rows_of(measures.key_writes(feed, keys_max=1))

    assert kept == [{"step_us": 0, "key": '"a"', "writes": 2}]


def test_a_window_that_grows_by_batches_equals_that_of_all_rows() -> None:
    def rows(*steps_s: int) -> dict[str, pa.Table]:
        values = {pa.string(): "put", pa.bool_(): False, pa.int64(): 1}
        return {
            name: pa.Table.from_pylist(
                [
                    {each.name: values[each.type] for each in schema} | {"step_us": at * SECOND_US}
                    for at in steps_s
                ],
                schema,
            )
            for name, schema in KEPT_SCHEMAS.items()
        }

    def joined(*parts: dict[str, pa.Table]) -> dict[str, pa.Table]:
        return {name: pa.concat_tables([each[name] for each in parts]) for name in KEPT_SCHEMAS}

    first, second = rows(1, 400, 900), rows(901, 1400)
    trimmed, _ = window_of(first, SECOND_US, 600 * SECOND_US)

    grown = window_of(joined(trimmed, second), SECOND_US, 600 * SECOND_US)

    assert grown == window_of(joined(first, second), SECOND_US, 600 * SECOND_US)
    assert grown[0]["commits"]["step_us"].to_pylist() == [at * SECOND_US for at in (900, 901, 1400)]
    assert grown[1] == 2 * SECOND_US


def test_tables_of_the_window_add_up_the_batches(spark: SparkSession) -> None:
    first = [change_row(index, changed=index == 1) for index in (1, 2, 3)]
    second = [
        change_row(4, strong=True, changed=True, keys=['"b"']),
        change_row(5, changed=None, committed_us=None),
        change_row(6, operation="increment", timestamp_us=2 * SECOND_US),
    ]
    batches = [batch_tables(feed_frame(spark, rows), SECOND_US) for rows in (first, second)]
    kept = {
        name: spark.createDataFrame(batches[0][name].combine_chunks()).unionByName(
            spark.createDataFrame(batches[1][name].combine_chunks())
        )
        for name in batches[0]
    }

    tables = {name: rows_of(each) for name, each in window_tables(kept, SECOND_US).items()}

    assert [(row["operation"], row["weak"], row["apologies"]) for row in tables["apologies"]] == [
        ("put", 4, 1),
        ("increment", 1, 0),
    ]
    assert [row["share"] for row in tables["apologies"]] == [1 / 3, 0]
    throughput = {(row["step_us"], row["strong"]): row["commits"] for row in tables["throughput"]}
    assert throughput == {(0, False): 4, (0, True): 1, (2 * SECOND_US, False): 1}
    assert {row["p99_us"] for row in tables["latency"]} == {5000}
    assert [(row["key"], row["writes"]) for row in tables["hot_keys"]] == [('"a"', 5), ('"b"', 1)]
