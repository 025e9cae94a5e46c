"""Tables of the pipeline, with the type and the meaning of each column.

Times are integer microseconds of the run's own clock, since integers are exact and their
percentiles are cheap. `run` names a run in every table. The description of a column is stored in
the files, and the documentation page of the tables is generated from it.
"""

from typing import Any, Final, TypeAlias

import pyarrow as pa

NULLABLE: Final = True
_Column: TypeAlias = tuple[str, pa.DataType, str] | tuple[str, pa.DataType, str, bool]


def declare_table(*columns: _Column) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, kind, bool(flags), {"description": description})
            for name, kind, description, *flags in columns
        ]
    )


def description(field: pa.Field) -> str:
    """Return the meaning of a column, or an empty text for the columns of TPC-C."""
    text: bytes = (field.metadata or {}).get(b"description", b"")
    return text.decode()


_RUN: Final = ("run", pa.string(), "name of the run")

_EXPERIMENT_FIELDS: Final = (
    ("source", pa.string(), "`simulated` or `live`"),
    ("scheme", pa.string(), "replication scheme"),
    ("layout", pa.string(), "registers that hold a row of TPC-C; null without TPC-C", NULLABLE),
    ("warehouses", pa.int32(), "size of TPC-C; null without TPC-C", NULLABLE),
    ("load_tps", pa.float64(), "operations per second; null with closed-loop clients", NULLABLE),
    ("strong_share", pa.float64(), "strong operations; null if every Payment is strong", NULLABLE),
    ("exec_scale", pa.float64(), "factor of all execution times"),
    ("replicas", pa.int32(), "number of replicas"),
    ("cores", pa.int32(), "cores of each replica"),
    ("local_reads", pa.bool_(), "true if read-only weak operations run at one replica alone"),
    ("decided_only", pa.bool_(), "true for Archie without speculation"),
    (
        "extensions",
        pa.string(),
        "extensions of Creek that are on, separated by commas; may be empty",
    ),
    ("regions", pa.int32(), "number of regions that the replicas are spread over"),
    ("clock_skew_us", pa.int64(), "difference between the first and the last clock"),
    ("faults", pa.string(), "faults with their times, separated by semicolons; may be empty"),
    ("duration_us", pa.int64(), "time in which clients invoke operations"),
)
EXPERIMENT_COLUMNS: Final = tuple(field[0] for field in _EXPERIMENT_FIELDS)
"""Columns that are equal in runs that differ only in their seed."""

RUNS: Final = declare_table(
    _RUN,
    *_EXPERIMENT_FIELDS,
    ("seed", pa.int64(), "seed of all random choices"),
    ("begin_us", pa.int64(), "start of the measurement window"),
    ("end_us", pa.int64(), "end of the measurement window"),
    # COUNTER_COLUMNS: null without counters, as in a bare history.
    ("executions", pa.int64(), "executions at all replicas", NULLABLE),
    ("to_execute", pa.int64(), "minimum number of executions, without re-execution", NULLABLE),
    ("busy_us", pa.int64(), "busy time of all cores in the measurement window", NULLABLE),
    ("core_us", pa.int64(), "capacity of all cores in the measurement window", NULLABLE),
    ("bytes", pa.int64(), "bytes sent by all replicas in the measurement window", NULLABLE),
    ("capacity_bytes", pa.int64(), "capacity of all links in the measurement window", NULLABLE),
    ("messages", pa.int64(), "messages sent by all replicas in that window", NULLABLE),
    ("trace_hash", pa.string(), "hash over all inputs of all replicas; empty for a live run"),
    ("unsettled", pa.string(), "reason why the run did not converge; null if it did", NULLABLE),
    ("violated", pa.string(), "violated TPC-C conditions, one per line"),
    ("command", pa.string(), "command that repeats the run"),
)
COUNTER_COLUMNS: Final = tuple(
    RUNS.names[RUNS.names.index("executions") : RUNS.names.index("trace_hash")]
)
"""Columns of RUNS that come from counters."""

OPERATIONS: Final = declare_table(
    _RUN,
    ("replica", pa.int32(), "replica that was called"),
    ("incarnation", pa.int32(), "number of restarts of the replica before the call"),
    ("event", pa.int64(), "identifier, with `replica`; negative if local to the replica"),
    ("session", pa.int64(), "client session"),
    ("kind", pa.string(), "name of the operation"),
    ("strong", pa.bool_(), "true for strong operations"),
    ("arguments", pa.string(), "arguments, as a JSON array"),
    ("invoked_us", pa.int64(), "time of the call"),
    ("tentative_us", pa.int64(), "time of the first tentative response", NULLABLE),
    ("stable_us", pa.int64(), "time of the stable response", NULLABLE),
    ("final_us", pa.int64(), "time of the final response to a weak operation", NULLABLE),
    ("speculated_us", pa.int64(), "time of a speculative result that was withheld", NULLABLE),
    (
        "first_response",
        pa.string(),
        'first response, as JSON: a value, or `{"$error": "…"}`; null without a response',
        NULLABLE,
    ),
    ("last_response", pa.string(), "last response, in the same form", NULLABLE),
    ("failed", pa.bool_(), "true if the last response is an error", NULLABLE),
    ("accurate", pa.bool_(), "like `exact`, except for order numbers of TPC-C", NULLABLE),
    ("exact", pa.bool_(), "true if the first and the last response are equal", NULLABLE),
    ("commit_index", pa.int64(), "position in the committed order, from 0", NULLABLE),
)

ORDERS: Final = declare_table(
    _RUN,
    ("replica", pa.int32(), "replica that committed the request"),
    ("index", pa.int64(), "position in the committed order, from 0"),
    ("origin", pa.int32(), "replica that issued the request"),
    ("event", pa.int64(), "number of the request there"),
)

SAMPLES: Final = declare_table(
    _RUN,
    ("replica", pa.int32(), "sampled replica"),
    ("at_us", pa.int64(), "time of the sample"),
    ("committed", pa.int64(), "length of the committed order"),
    ("tentative", pa.int64(), "number of tentative requests"),
    ("executions", pa.int64(), "executions since the start of the run"),
    ("busy_us", pa.int64(), "busy time of all cores since the start of the run"),
    ("bytes", pa.int64(), "bytes sent since the start of the run"),
)

FINAL_STATES: Final = declare_table(
    _RUN,
    ("replica", pa.int32(), "member of the cluster at the end of the run"),
    ("first", pa.int64(), "position of the first committed request that the replica still lists"),
    ("committed", pa.int64(), "number of committed requests that the replica lists"),
    ("tentative", pa.int64(), "number of tentative requests"),
    ("order_digest", pa.string(), "hash of the listed committed requests"),
    ("state_digest", pa.string(), "hash of all registers"),
)

MEASURES: Final = declare_table(
    _RUN,
    *_EXPERIMENT_FIELDS,
    ("seed", pa.int64(), "seed of all random choices"),
    ("asked", pa.int64(), "operations invoked in the measurement window"),
    ("throughput_tps", pa.float64(), "completed operations per second", NULLABLE),
    ("saturated", pa.bool_(), "true if the load exceeds the capacity; null in closed loops", True),
    ("backlog", pa.int64(), "operations without a response at the end of the window"),
    ("accuracy", pa.float64(), "share of accurate first responses to weak operations", NULLABLE),
    ("exact_accuracy", pa.float64(), "share of exact first responses", NULLABLE),
    ("execution_ratio", pa.float64(), "executions over their minimum", NULLABLE),
    ("cpu_utilisation", pa.float64(), "busy share of all cores", NULLABLE),
    ("network_utilisation", pa.float64(), "used share of all links", NULLABLE),
    ("messages_per_operation", pa.float64(), "messages between replicas per operation", NULLABLE),
)

LATENCIES: Final = declare_table(
    _RUN,
    ("answer", pa.string(), "kind of response, such as `weak_tentative` or `strong_stable`"),
    ("kind", pa.string(), "name of the operation, or `all`"),
    ("answers", pa.int64(), "number of responses"),
    ("mean_us", pa.float64(), "mean latency"),
    ("p50_us", pa.int64(), "median latency, by nearest rank"),
    ("p95_us", pa.int64(), "95th percentile"),
    ("p99_us", pa.int64(), "99th percentile"),
)
ALL_KINDS: Final = "all"
RESPONSE_KINDS: Final = (
    "weak_tentative",
    "weak_stable",
    "strong_tentative",
    "strong_stable",
    "weak_speculated",
    "strong_speculated",
    "all_done",
)
"""Kinds of response, for latency statistics.

`weak_tentative` is the first response to a weak operation, tentative or stable. `all_done`
is the response that the client waits for, of weak and strong operations.
"""

OVER_TIME: Final = declare_table(
    _RUN,
    ("replica", pa.int32(), "replica that was called"),
    ("answer", pa.string(), "awaited response: `weak_tentative` or `strong_stable`"),
    ("at_us", pa.int64(), "start of the step, relative to `begin_us`"),
    ("length_us", pa.int64(), "length of the step"),
    ("done", pa.int64(), "responses in the step"),
    ("asked", pa.int64(), "operations invoked in the step that got a response at any time"),
    ("p50_us", pa.int64(), "median latency of those operations; null without any", NULLABLE),
    ("max_us", pa.int64(), "highest latency of those operations", NULLABLE),
)
"""Time steps of live runs and of runs with faults."""

SUMMARY: Final = declare_table(
    *_EXPERIMENT_FIELDS,
    ("measure", pa.string(), "a column of `measures`, or a kind of response with its statistic"),
    ("seeds", pa.int64(), "number of runs"),
    ("mean", pa.float64(), "mean over the runs"),
    ("low", pa.float64(), "lower end of the 95 % confidence interval", NULLABLE),
    ("high", pa.float64(), "upper end of the 95 % confidence interval", NULLABLE),
)

PEAKS: Final = declare_table(
    *(column for column in _EXPERIMENT_FIELDS if column[0] not in ("load_tps", "duration_us")),
    ("seed", pa.int64(), "seed of all random choices"),
    ("peak_tps", pa.float64(), "throughput at the highest unsaturated load"),
    ("load_tps", pa.float64(), "highest unsaturated load"),
    ("saturating_tps", pa.float64(), "lowest saturating load; null without one", NULLABLE),
)

VERDICTS: Final = declare_table(
    _RUN,
    ("checker", pa.string(), "property that was checked"),
    ("verdict", pa.string(), "`ok`, `illegal` or `unknown`"),
    ("detail", pa.string(), "counterexample, or reason of `unknown`; empty if ok"),
    ("command", pa.string(), "command that repeats the run or the check"),
)

RUN_SCHEMAS: Final = {
    "runs": RUNS,
    "operations": OPERATIONS,
    "orders": ORDERS,
    "samples": SAMPLES,
    "final_states": FINAL_STATES,
    "run_verdicts": VERDICTS,
}
"""Tables that the tasks of `simulate` write, with rows of each run."""

RESULT_SCHEMAS: Final = {
    "measures": MEASURES,
    "latencies": LATENCIES,
    "over_time": OVER_TIME,
    "summary": SUMMARY,
    "peaks": PEAKS,
    "verdicts": VERDICTS,
}
"""Tables that `measure` and `verify` compute from those of the runs."""

# --- tables of 'creek export': of a cluster, not of a run ---------------------------------------

REGISTERS: Final = declare_table(
    ("key", pa.string(), 'key, as JSON: `"lamp"`, `3` or `["stock", "lamp"]`'),
    ("key_text", pa.string(), "key that is a string", NULLABLE),
    ("key_int", pa.int64(), "key that is an integer", NULLABLE),
    ("key_parts", pa.list_(pa.string()), "parts of a key that is a tuple, as strings", NULLABLE),
    (
        "kind",
        pa.string(),
        "type of the value: `null`, `bool`, `int`, `float`, `text`, `bytes`, `tuple`, `dict`; "
        "`deleted` for a deleted initial register",
    ),
    ("value", pa.string(), "value, as JSON as over HTTP; null if deleted", NULLABLE),
    ("value_bool", pa.bool_(), "value that is a truth value", NULLABLE),
    ("value_int", pa.int64(), "value that is an integer of 64 bits", NULLABLE),
    ("value_float", pa.float64(), "value that is a floating-point number", NULLABLE),
    ("value_text", pa.string(), "value that is a string", NULLABLE),
    ("value_bytes", pa.binary(), "value that is a byte string", NULLABLE),
)
VALUE_KINDS: Final = ("null", "bool", "int", "float", "text", "bytes", "tuple", "dict", "deleted")
"""Types of a stored value. `deleted` marks an initial register that was deleted."""

COMMITTED: Final = declare_table(
    ("index", pa.int64(), "position in the committed order, from 0"),
    ("origin", pa.int32(), "replica that issued the operation"),
    ("event", pa.int64(), "number of the operation there"),
    ("timestamp_us", pa.int64(), "time, by the clock of that replica"),
    ("strong", pa.bool_(), "true for strong operations"),
    ("operation", pa.string(), "name of the operation"),
    ("arguments", pa.string(), "arguments, as a JSON array"),
    ("client", pa.string(), "client; null for operations of the cluster itself", NULLABLE),
    ("number", pa.int64(), "call number of the client", NULLABLE),
)
EXPORT_SCHEMAS: Final = {"state": REGISTERS, "operations": COMMITTED}
"""Tables of `creek export`."""

PARQUET_OPTIONS: Final[dict[str, Any]] = {
    "compression": "zstd",
    "compression_level": 3,
    "write_page_checksum": True,
}
"""Options of all Parquet files that Arrow writes. Readers verify the checksum of each page."""
