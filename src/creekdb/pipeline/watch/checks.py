"""Checks of a live cluster, as functions of frames: each batch is judged with a bounded state.

    prefix_order     replicas have the same change at each index, and none is missing at one of them
    committed_once   no request is committed twice, and no call of a client takes effect twice
    session_order    a weak request precedes every request that its replica issued later
    real_time        no change was final before a strong request that precedes it was called

The commit index is the order of the replicas. So equal changes at each index mean that committed
orders are prefixes of each other.

`real_time` compares clocks of replicas, so differences up to `clock_error_us` are no violation. A
request cannot get a position before one that is already final. If a strong request was called after
a change was final, it therefore follows that change, as linearizability requires. The feed has no
times of responses: a response that a client received before the commit is not detected here.

A frame of violations has the columns of VIOLATIONS.
"""

from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias
from pyspark.sql.window import Window

from creekdb.pipeline.spark.frames import conform_to_schema
from creekdb.pipeline.watch.tables import (
    AGREED,
    ENTRIES,
    ORIGINS,
    RANGES,
    SEEN_CALLS,
    VIOLATIONS,
)
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX

FEED_CHECKERS: Final = ("prefix_order", "committed_once", "session_order", "real_time")
SEEN_NUMBERS: Final = 4 * CALLS_PER_CLIENT_MAX
"""Calls of each client that are kept. The cluster itself keeps fewer."""
IDLE_COMMITS_MAX: Final = 1_000_000
"""Number of commits after which a client without a further call is dropped, with its calls."""
DEFAULT_CLOCK_ERROR_US: Final = 1_000_000


def entries_of(feed: DataFrame) -> DataFrame:
    """Return ENTRIES: the changes among rows of FEED."""
    has_effect = (F.size("keys") > 0).alias("has_effect")
    changes = feed.where("operation is not null")
    return conform_to_schema(changes.select(*feed.columns, has_effect), ENTRIES)


def ranges_of(feed: DataFrame) -> DataFrame:
    """Return RANGES: the ranges that replicas contributed completely."""
    rows = feed.where("operation is null and start < index")
    return conform_to_schema(rows.withColumn("stop", F.col("index")), RANGES)


# --- between replicas ----------------------------------------------------------------------------


def disagreements(entries: DataFrame, ranges: DataFrame, frontier: int) -> DataFrame:
    """Return indices before `frontier` at which replicas have different changes, or one has none.

    `entries` and `ranges` are those of all replicas. A range that a replica did not contribute,
    since it installed a snapshot, is not compared.
    """
    judged = entries.where(F.col("index") < frontier)
    one, other = F.struct("replica", _name()), F.struct(-F.col("replica"), "replica", _name())
    by_index = judged.groupBy("index").agg(
        F.count_distinct("digest").alias("versions"),
        F.min(F.struct("digest", one)).alias("one"),
        F.max(F.struct("digest", other)).alias("other"),
        F.collect_set("replica").alias("present"),
    )
    different = by_index.where("versions > 1").select(
        F.lit("prefix_order").alias("checker"),
        "index",
        F.format_string(
            "replica %d has %s, and replica %d has %s",
            *(F.col(f"one.col2.{name}") for name in ("replica", "name")),
            *(F.col(f"other.col2.{name}") for name in ("replica", "name")),
        ).alias("detail"),
    )
    expected = by_index.join(
        F.broadcast(ranges), F.expr("index >= start and index < stop"), "inner"
    )
    missing = expected.where("not array_contains(present, replica)").select(
        F.lit("prefix_order").alias("checker"),
        "index",
        F.format_string(
            "replica %d has no change, and replica %d has %s",
            F.col("replica"),
            F.col("one.col2.replica"),
            F.col("one.col2.name"),
        ).alias("detail"),
    )
    return conform_to_schema(different.unionByName(missing), VIOLATIONS)


def agreed_changes(entries: DataFrame, frontier: int) -> DataFrame:
    """Return AGREED: one change per index before `frontier`, with its first commit time."""
    combined = ("index", "committed_us", "replicas")
    others = [name for name in AGREED.names if name not in combined]
    first = F.min(F.struct("replica", "digest", *others)).alias("first")
    chosen = (
        entries.where(F.col("index") < frontier)
        .groupBy("index")
        .agg(
            first,
            F.min("committed_us").alias("committed_us"),
            F.count("*").alias("replicas"),
        )
        .select("index", "first.*", "committed_us", "replicas")
    )
    return conform_to_schema(chosen, AGREED)


def remaining(entries: DataFrame, frontier: int) -> DataFrame:
    """Return the entries that await other replicas."""
    return entries.where(F.col("index") >= frontier)


# --- along the order -----------------------------------------------------------------------------


def repeated_calls(agreed: DataFrame, seen: DataFrame) -> DataFrame:
    """Return requests that are committed twice, and calls that take effect again.

    A call that a client retried at another replica may be committed twice. The second request must
    write nothing.
    """
    same_request = (
        agreed.groupBy("origin", "event")
        .agg(F.min("index").alias("earlier"), F.max("index").alias("index"))
        .where(F.col("earlier") < F.col("index"))
        .select(
            F.lit("committed_once").alias("checker"),
            "index",
            F.format_string(
                "request %d.%d is committed twice, first at %d", "origin", "event", "earlier"
            ).alias("detail"),
        )
    )
    called = _calls(agreed)
    known = seen.groupBy("client", "number").agg(F.min("index").alias("seen_index"))
    order = Window.partitionBy("client", "number").orderBy("index")
    again = (
        called.join(known, ["client", "number"], "left")
        .withColumn("earlier", F.coalesce("seen_index", F.min("index").over(order)))
        .where("has_effect and earlier < index")
        .select(
            F.lit("committed_once").alias("checker"),
            "index",
            F.format_string(
                "call %d of client %s takes effect again in %d.%d, first at %d",
                *("number", "client", "origin", "event", "earlier"),
            ).alias("detail"),
        )
    )
    return conform_to_schema(same_request.unionByName(again), VIOLATIONS)


def seen_calls(
    agreed: DataFrame,
    seen: DataFrame,
    frontier: int,
    numbers: int = SEEN_NUMBERS,
    idle_commits: int = IDLE_COMMITS_MAX,
) -> DataFrame:
    """Return SEEN_CALLS after a batch: the last `numbers` numbers of each client.

    A client without a call among the last `idle_commits` indices before `frontier` is left out.
    """
    rows = _calls(agreed).select("client", "number", "index").unionByName(seen)
    first = rows.groupBy("client", "number").agg(F.min("index").alias("index"))
    client = Window.partitionBy("client")
    kept = first.select(
        "*",
        F.max("number").over(client).alias("last_number"),
        F.max("index").over(client).alias("last_index"),
    ).where(
        (F.col("number") > F.col("last_number") - numbers)
        & (F.col("last_index") >= frontier - idle_commits)
    )
    return conform_to_schema(kept, SEEN_CALLS)


def misplaced_requests(agreed: DataFrame, origins: DataFrame) -> DataFrame:
    """Return weak requests that follow a request that their replica issued later."""
    known = origins.select("origin", F.struct("event", "index").alias("known"))
    before = (
        Window.partitionBy("origin").orderBy("index").rowsBetween(Window.unboundedPreceding, -1)
    )
    latest = F.max(F.struct("event", "index")).over(before)
    compared = agreed.join(F.broadcast(known), "origin", "left").withColumn(
        "latest", F.greatest("known", latest)
    )
    found = compared.where("not strong and event < latest.event").select(
        F.lit("session_order").alias("checker"),
        "index",
        F.format_string(
            "weak request %d.%d follows %d.%d, which its replica issued later, at %d",
            *(F.col(name) for name in ("origin", "event", "origin")),
            F.col("latest.event"),
            F.col("latest.index"),
        ).alias("detail"),
    )
    return conform_to_schema(found, VIOLATIONS)


def highest_events(agreed: DataFrame, origins: DataFrame) -> DataFrame:
    """Return ORIGINS after a batch."""
    rows = agreed.select("origin", "event", "index").unionByName(origins)
    highest = rows.groupBy("origin").agg(F.max(F.struct("event", "index")).alias("highest"))
    return conform_to_schema(highest.select("origin", "highest.*"), ORIGINS)


def early_commits(agreed: DataFrame, last_call_us: int, clock_error_us: int) -> DataFrame:
    """Return changes that were final before a preceding strong request was called.

    `last_call_us` is the time of the last strong call of earlier batches.
    """
    upto = Window.partitionBy().orderBy("index").rowsBetween(Window.unboundedPreceding, 0)
    call_us = F.max(F.when(F.col("strong"), F.col("timestamp_us"))).over(upto)
    compared = agreed.withColumn("call_us", F.greatest(call_us, F.lit(last_call_us)))
    early_us = F.col("call_us") - F.col("committed_us")
    found = compared.where(early_us > clock_error_us).select(
        F.lit("real_time").alias("checker"),
        "index",
        F.format_string(
            "%d.%d was final %d ms before a strong request that precedes it was called",
            F.col("origin"),
            F.col("event"),
            (early_us / 1000).cast("bigint"),
        ).alias("detail"),
    )
    return conform_to_schema(found, VIOLATIONS)


class OrderState(NamedTuple):
    """State along the order that the next batch is judged with."""

    seen: DataFrame
    origins: DataFrame
    last_call_us: int


def order_violations(agreed: DataFrame, state: OrderState, clock_error_us: int) -> DataFrame:
    """Return all violations along the order."""
    return reduce(
        DataFrame.unionByName,
        (
            repeated_calls(agreed, state.seen),
            misplaced_requests(agreed, state.origins),
            early_commits(agreed, state.last_call_us, clock_error_us),
        ),
    )


def _calls(agreed: DataFrame) -> DataFrame:
    return agreed.where("client != ''")


def _name() -> Column:
    """Return the name of a request, for texts."""
    return F.format_string("%s (%d.%d)", "operation", "origin", "event").alias("name")
