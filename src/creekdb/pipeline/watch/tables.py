"""Tables of a live cluster, with the type and the meaning of each column."""

from typing import Final

import pyarrow as pa

from creekdb.pipeline.schemas import NULLABLE, declare_table

FEED: Final = declare_table(
    ("replica", pa.int32(), "replica that sent the row"),
    (
        "index",
        pa.int64(),
        "commit index; in a row without an operation, the index up to which all rows of the "
        "replica are complete",
    ),
    (
        "start",
        pa.int64(),
        "in a row without an operation, the first index of the range that the replica contributed; "
        "equal to `index` if it contributed nothing",
        NULLABLE,
    ),
    ("origin", pa.int32(), "replica that issued the request", NULLABLE),
    ("event", pa.int64(), "number of the request there", NULLABLE),
    ("timestamp_us", pa.int64(), "time of the call, by the clock of `origin`", NULLABLE),
    (
        "committed_us",
        pa.int64(),
        "time at which `replica` found the change final, by its own clock; null if it is unknown",
        NULLABLE,
    ),
    ("operation", pa.string(), "name of the operation; null in a row that ends a part", NULLABLE),
    ("strong", pa.bool_(), "true for strong operations", NULLABLE),
    (
        "changed",
        pa.bool_(),
        "true if the final response differed from the tentative one; null if it is unknown at "
        "`replica`",
        NULLABLE,
    ),
    ("error", pa.string(), "error that the operation raised", NULLABLE),
    ("client", pa.string(), "client; empty if the call was not deduplicated", NULLABLE),
    ("number", pa.int64(), "number of the call among those of the client", NULLABLE),
    ("keys", pa.list_(pa.string()), "written and deleted registers, as JSON", NULLABLE),
    ("digest", pa.int64(), "hash of all fields that replicas must agree on", NULLABLE),
    ("body", pa.binary(), "the whole change, encoded; null unless it was requested", NULLABLE),
)
"""Rows of the source `creek-feeds`: one per replica and change."""

_REPLICA: Final = ("replica", pa.int32(), "replica that sent the change")
_INDEX: Final = ("index", pa.int64(), "commit index")
_CALL_COLUMNS: Final = (
    ("origin", pa.int32(), "replica that issued the request"),
    ("event", pa.int64(), "number of the request there"),
    ("timestamp_us", pa.int64(), "time of the call, by the clock of `origin`"),
    ("committed_us", pa.int64(), "time at which the replica found it final", NULLABLE),
    ("operation", pa.string(), "name of the operation"),
    ("strong", pa.bool_(), "true for strong operations"),
    ("client", pa.string(), "client; empty if the call was not deduplicated"),
    ("number", pa.int64(), "number of the call among those of the client"),
    ("has_effect", pa.bool_(), "true if the request wrote or deleted a register"),
    ("body", pa.binary(), "the whole change, encoded; null unless it is replayed", NULLABLE),
)
ENTRIES: Final = declare_table(
    _REPLICA, _INDEX, ("digest", pa.int64(), "hash of the change"), *_CALL_COLUMNS
)
"""Changes of all replicas that `creek pipeline audit` has not compared yet."""
RANGES: Final = declare_table(
    _REPLICA,
    ("start", pa.int64(), "first index of a range that the replica contributed completely"),
    ("stop", pa.int64(), "index after the range"),
)
AGREED: Final = declare_table(
    _INDEX, ("replicas", pa.int32(), "replicas that have a change there"), *_CALL_COLUMNS
)
"""Changes that all replicas have been compared on, one row per index."""
SEEN_CALLS: Final = declare_table(
    ("client", pa.string(), "client"),
    ("number", pa.int64(), "number of its call"),
    ("index", pa.int64(), "first commit index of the call"),
)
ORIGINS: Final = declare_table(
    ("origin", pa.int32(), "replica that issued requests"),
    ("event", pa.int64(), "highest number of its committed requests"),
    ("index", pa.int64(), "commit index of that request"),
)
VIOLATIONS: Final = declare_table(
    ("checker", pa.string(), "property that is violated"),
    _INDEX,
    ("detail", pa.string(), "counterexample"),
)

COMMITS: Final = declare_table(
    ("step_us", pa.int64(), "start of the time step, by the clocks of the replicas"),
    ("operation", pa.string(), "name of the operation"),
    ("strong", pa.bool_(), "true for strong operations"),
    ("commits", pa.int64(), "committed requests"),
    ("failed", pa.int64(), "requests whose operation raised an error"),
    ("kept", pa.int64(), "requests whose tentative response held"),
    ("changed", pa.int64(), "requests whose final response differed from the tentative one"),
    ("unknown", pa.int64(), "requests without a record whether the response changed"),
)
LATENCY_COUNTS: Final = declare_table(
    ("step_us", pa.int64(), "start of the time step"),
    ("strong", pa.bool_(), "true for strong operations"),
    ("latency_us", pa.int64(), "commit latency, rounded to about one percent"),
    ("times", pa.int64(), "requests with this latency"),
)
KEY_WRITES: Final = declare_table(
    ("step_us", pa.int64(), "start of the minute"),
    ("key", pa.string(), "key, as JSON"),
    ("writes", pa.int64(), "requests that wrote or deleted the register"),
)
KEPT_SCHEMAS: Final = {
    "commits": COMMITS,
    "latency_counts": LATENCY_COUNTS,
    "key_writes": KEY_WRITES,
}
"""Tables that every batch of `creek pipeline watch` adds rows to. Sums over rows are exact."""

THROUGHPUT: Final = declare_table(
    ("step_us", pa.int64(), "start of the time step"),
    ("strong", pa.bool_(), "true for strong operations"),
    ("commits", pa.int64(), "committed requests in the step"),
    ("per_second", pa.float64(), "committed requests per second"),
)
LATENCY: Final = declare_table(
    ("step_us", pa.int64(), "start of the time step"),
    ("strong", pa.bool_(), "true for strong operations"),
    ("requests", pa.int64(), "requests with a known latency"),
    ("p50_us", pa.int64(), "median commit latency, by nearest rank"),
    ("p95_us", pa.int64(), "95th percentile"),
    ("p99_us", pa.int64(), "99th percentile"),
)
APOLOGIES: Final = declare_table(
    ("operation", pa.string(), "name of the operation"),
    ("weak", pa.int64(), "weak requests"),
    ("apologies", pa.int64(), "weak requests whose final response differed"),
    ("unknown", pa.int64(), "weak requests without a record whether the response changed"),
    ("share", pa.float64(), "apologies among the known ones; null without any", NULLABLE),
)
HOT_KEYS: Final = declare_table(
    ("key", pa.string(), "key, as JSON"),
    ("writes", pa.int64(), "requests that wrote or deleted the register"),
    ("share", pa.float64(), "share of all writes of registers"),
)
WATCH_SCHEMAS: Final = {
    "throughput": THROUGHPUT,
    "latency": LATENCY,
    "apologies": APOLOGIES,
    "hot_keys": HOT_KEYS,
}
"""Tables that `creek pipeline watch` computes from the kept ones, for the watched window."""
