"""Committed requests of all runs, by run and position: the input of the relational checkers.

A run is cut into buckets of consecutive positions, so that tasks divide a long run among them. A
property of a prefix is first computed per bucket, then over buckets, which are few. A window inside
each bucket completes it, with the value carried in from the other buckets.

    numbered_runs   one number per run, since integers are cheaper to move and to compare than names
    invocations     OPERATIONS, with the guarantees of the run's scheme
    entries         ORDERS
    agreed_order    one row per position, with the requests that replicas and operations have there
    carried_rows    rows that stand for the earlier and later buckets of a run

A request is one integer, `request_id`, of its replica and event, because Spark groups integers
without sorting them.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.schemes import registry

POSITIONS_PER_BUCKET: Final = 2**14
EVENT_BITS: Final = 44
"""Bits of an event number in a request id. The bits above hold the replica."""
REPLICA_BITS: Final = 18
_EVENT_MASK: Final = f"{2**EVENT_BITS - 1}L"
ROWS_PER_PARTITION: Final = 1_000_000

BUCKET: Final = ("number", "bucket")


def numbered_runs(runs: DataFrame) -> DataFrame:
    """Add `number`, and `tentative`: True if the scheme sends tentative responses.

    An unknown scheme counts as Creek. A number is a hash of 64 bits, which needs no common count of
    all runs. Two of a million runs have the same number with a probability of 3 in 10⁸.
    """
    specs = registry.SCHEMES.values()
    stable_only = [each.name for each in specs if not each.guarantees.tentative]
    return runs.select(
        *("run", "trace_hash", "unsettled"),
        F.xxhash64("run").alias("number"),
        (~F.col("scheme").isin(stable_only)).alias("tentative"),
    )


def invocations(numbered: DataFrame, operations: DataFrame, bucket_size: int) -> DataFrame:
    """Return operations by run number.

    `strong` is True for operations that are ordered like strong ones, which all operations are if
    the scheme sends no tentative responses. `weak` is the contrary.
    """
    guarantees = F.broadcast(numbered.select("run", "number", "tentative", "trace_hash"))
    return operations.join(guarantees, "run").selectExpr(
        "number",
        f"commit_index div {bucket_size} as bucket",
        *("commit_index", "replica", "event", "incarnation", "session"),
        "strong or not tentative as strong",
        "tentative and not strong as weak",
        *("invoked_us", "tentative_us", "stable_us", "final_us"),
        "trace_hash != '' as is_traced",
    )


def entries(numbered: DataFrame, orders: DataFrame, bucket_size: int) -> DataFrame:
    return orders.join(F.broadcast(numbered.select("run", "number")), "run").selectExpr(
        *("number", f"index div {bucket_size} as bucket", "index", "origin", "event", "replica")
    )


class RowCounts(NamedTuple):
    partitions: int | None
    """Number of partitions for rows of both tables; None for Spark's setting."""
    uncommitted: int
    """Operations without a commit position."""


def count_rows(operations: DataFrame, orders: DataFrame) -> RowCounts:
    counted = operations.agg(
        F.count("*").alias("rows"), F.count_if(F.col("commit_index").isNull()).alias("uncommitted")
    ).collect()[0]
    needed = -(-(counted["rows"] + orders.count()) // ROWS_PER_PARTITION)
    configured = int(operations.sparkSession.conf.get("spark.sql.shuffle.partitions") or 0)
    return RowCounts(needed if needed > configured else None, counted["uncommitted"])


def spread(frame: DataFrame, partitions: int | None) -> DataFrame:
    """Distribute rows by bucket."""
    return (
        frame.repartition(*BUCKET) if partitions is None else frame.repartition(partitions, *BUCKET)
    )


# --- request ids ---------------------------------------------------------------------------------


def request_id(replica: str, event: str) -> Column:
    is_valid = (
        f"{replica} between 0 and {2**REPLICA_BITS - 1} and {event} between 0 and {_EVENT_MASK}"
    )
    text = f"format_string('the request %d.%d is out of range', {replica}, {event})"
    return F.expr(
        f"if({is_valid}, shiftleft(cast({replica} as bigint), {EVENT_BITS}) + {event}, "
        f"cast(raise_error({text}) as bigint))"
    )


def replica_of(id: str) -> str:
    return f"shiftright({id}, {EVENT_BITS})"


def event_of(id: str) -> str:
    return f"({id} & {_EVENT_MASK})"


# --- positions -----------------------------------------------------------------------------------


def agreed_order(invoked: DataFrame, ordered: DataFrame, partitions: int | None) -> DataFrame:
    """Return one row per position, with the lowest and the highest request of each table.

    `one` and `other` are those of ORDERS, and `first_invoked` and `last_invoked` those of
    operations with that commit position. They are equal unless the run violates a property.
    """
    absent = F.lit(None).cast("bigint")
    in_orders = ordered.select(
        *BUCKET, "index", request_id("origin", "event").alias("listed"), absent.alias("invoked")
    )
    in_operations = invoked.where("commit_index is not null").select(
        *BUCKET,
        F.col("commit_index").alias("index"),
        absent.alias("listed"),
        request_id("replica", "event").alias("invoked"),
    )
    rows = spread(in_orders.unionByName(in_operations), partitions)
    return rows.groupBy(*BUCKET, "index").agg(
        F.min("listed").alias("one"),
        F.max("listed").alias("other"),
        F.min("invoked").alias("first_invoked"),
        F.max("invoked").alias("last_invoked"),
    )


UNCLAIMED: Final = "one is not null and not (one <=> first_invoked) and not (one <=> last_invoked)"
"""Condition for positions whose request is not that of an operation with this position."""
CONFLICTING: Final = (
    "first_invoked != one or first_invoked != other or last_invoked != one or last_invoked != other"
)


class OrderSummary(NamedTuple):
    """Findings in the agreed orders of all runs, which decide on further queries."""

    last_bucket: int
    unclaimed: int
    contradictions: int
    """Positions with different requests, of replicas or operations."""
    gaps: int
    """Runs with positions that no replica recorded."""


def summarise(agreed: DataFrame) -> OrderSummary:
    by_run = agreed.groupBy("number").agg(
        F.max("bucket").alias("last_bucket"),
        F.expr(f"count_if({UNCLAIMED})").alias("unclaimed"),
        F.expr(f"count_if(one != other or {CONFLICTING})").alias("contradictions"),
        F.expr("count_if(index >= 0 and one is not null)").alias("positions"),
        F.expr("max(index) filter (where one is not null)").alias("last"),
    )
    row = by_run.agg(
        F.max("last_bucket"),
        F.sum("unclaimed"),
        F.sum("contradictions"),
        F.expr("count_if(last >= positions)"),
    ).collect()[0]
    return OrderSummary(*(each or 0 for each in row))


# --- values of other buckets ----------------------------------------------------------------------


def bucket_totals(requests: DataFrame, agreed: DataFrame) -> DataFrame:
    """Return values of each bucket of long runs, by session, replica and incarnation."""
    long_runs = agreed.where("bucket > 0").select("number").distinct()
    time_key = f"cast(invoked_us as decimal(18)) * {_TIME_UNIT} + event"
    return (
        requests.join(F.broadcast(long_runs), "number", "left_semi")
        .groupBy(*BUCKET, "session", "replica", "incarnation")
        .agg(
            F.expr("max(invoked_us) filter (where strong)").alias("strong_us"),
            F.max("invoked_us").alias("invoked_us"),
            F.expr(f"min({time_key}) filter (where weak)").alias("weak_key"),
            F.expr("min(event) filter (where weak)").alias("weak_event"),
        )
    )


_TIME_UNIT: Final = f"{10**14}BD"
"""Factor of the time in a decimal that orders requests by time and event; exceeds all events."""


def carried_rows(totals: DataFrame, bucket_size: int) -> DataFrame:
    """Return rows of requests, with `is_carried`, that stand for other buckets of their run.

    A row holds what one of the windows compares. Before the bucket, it is the last invocation of
    the run or of a session. After the bucket, it is the first weak request of a session or replica.
    """
    before = f"bucket * {bucket_size} - 1"
    after = f"(bucket + 1) * {bucket_size}"
    of_run = _carried(totals, (), "max(strong_us)", "bucket")
    of_session = _carried(totals, ("session",), "max(invoked_us)", "bucket")
    of_calls = _carried(totals, ("session", "replica", "incarnation"), "min(weak_key)", "-bucket")
    of_replica = _carried(totals, ("replica",), "min(weak_event)", "-bucket")
    parts = (
        of_run.selectExpr(*BUCKET, f"{before} as index", "true as strong", "value as invoked_us"),
        of_session.selectExpr(*BUCKET, f"{before} as index", "session", "value as invoked_us"),
        of_calls.selectExpr(
            *(*BUCKET, f"{after} as index", "session", "replica", "incarnation", "true as weak"),
            f"cast(floor(value / {_TIME_UNIT}) as bigint) as invoked_us",
            f"cast(pmod(value, {_TIME_UNIT}) as bigint) as event",
        ),
        of_replica.selectExpr(
            *(*BUCKET, f"{after} as index", "replica", "true as weak", "value as event")
        ),
    )
    first, *others = parts
    for part in others:
        first = first.unionByName(part, allowMissingColumns=True)
    return first.withColumn("is_carried", F.lit(True))


def _carried(totals: DataFrame, keys: tuple[str, ...], value: str, order: str) -> DataFrame:
    """Return the value of the buckets before each bucket, in ascending or descending order."""
    grouped = totals.groupBy("number", *keys, "bucket").agg(F.expr(value).alias("own"))
    function = value.partition("(")[0]
    return grouped.selectExpr(
        *("number", *keys, "bucket"),
        f"{function}(own) over (partition by {', '.join(('number', *keys))} order by {order} "
        "rows between unbounded preceding and 1 preceding) as value",
    ).where("value is not null")
