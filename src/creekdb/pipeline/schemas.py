"""Tables between the stages, with the types of their columns.

Times are integer microseconds of the run's own clock, since integers are exact and their
percentiles are cheap. Only columns declared as nullable may be null.

`run` names a run in every table. It is the name of the run directory.
"""

from typing import Final, TypeAlias

import pyarrow as pa

NULLABLE: Final = True
_Column: TypeAlias = tuple[str, pa.DataType] | tuple[str, pa.DataType, bool]


def _table(*columns: _Column) -> pa.Schema:
    return pa.schema([pa.field(name, kind, bool(flags)) for name, kind, *flags in columns])


_EXPERIMENT_FIELDS: Final = (
    ("source", pa.string()),  # simulated or live
    ("scheme", pa.string()),
    ("layout", pa.string(), NULLABLE),
    ("warehouses", pa.int32(), NULLABLE),
    ("load_tps", pa.float64(), NULLABLE),
    ("strong_share", pa.float64(), NULLABLE),  # null: every Payment is strong
    ("exec_scale", pa.float64()),
    ("replicas", pa.int32()),
    ("cores", pa.int32()),
    ("local_reads", pa.bool_()),
    ("faults", pa.string()),  # fault language, separated by semicolons; may be empty
    ("duration_us", pa.int64()),
)
EXPERIMENT_COLUMNS: Final = tuple(field[0] for field in _EXPERIMENT_FIELDS)
"""Columns that are equal in runs that differ only in their seed."""

RUNS: Final = _table(
    ("run", pa.string()),
    *_EXPERIMENT_FIELDS,
    ("seed", pa.int64()),
    ("begin_us", pa.int64()),  # start of the measurement window
    ("end_us", pa.int64()),
    # COUNTER_COLUMNS: null without counters, as in a bare history.
    ("executions", pa.int64(), NULLABLE),  # over all replicas
    ("to_execute", pa.int64(), NULLABLE),  # minimum number of executions, without re-execution
    ("busy_us", pa.int64(), NULLABLE),  # over all cores, in the measurement window
    ("core_us", pa.int64(), NULLABLE),  # capacity of all cores in the measurement window
    ("bytes", pa.int64(), NULLABLE),  # sent by all replicas in the measurement window
    ("capacity_bytes", pa.int64(), NULLABLE),
    ("messages", pa.int64(), NULLABLE),  # sent by all replicas in the measurement window
    ("trace_hash", pa.string()),  # empty for a live run
    ("unsettled", pa.string(), NULLABLE),  # reason why the run did not converge; null if it did
    ("violated", pa.string()),  # violated TPC-C conditions, one per line
    ("command", pa.string()),  # command that repeats the run
)
COUNTER_COLUMNS: Final = tuple(
    RUNS.names[RUNS.names.index("executions") : RUNS.names.index("trace_hash")]
)
"""Columns of RUNS that come from counters."""

OPERATIONS: Final = _table(
    ("run", pa.string()),
    ("replica", pa.int32()),
    ("incarnation", pa.int32()),
    ("event", pa.int64()),  # identifier, together with `replica`; negative if local to the replica
    ("session", pa.int64()),
    ("kind", pa.string()),
    ("strong", pa.bool_()),
    ("invoked_us", pa.int64()),
    ("tentative_us", pa.int64(), NULLABLE),  # first tentative response
    ("stable_us", pa.int64(), NULLABLE),
    ("final_us", pa.int64(), NULLABLE),
    ("speculated_us", pa.int64(), NULLABLE),  # speculative result that the scheme withheld
    ("failed", pa.bool_(), NULLABLE),  # the last response is an error; null without a response
    ("accurate", pa.bool_(), NULLABLE),  # like `exact`, except for order numbers
    ("exact", pa.bool_(), NULLABLE),  # first and last response are equal
    ("commit_index", pa.int64(), NULLABLE),  # position in the committed order
)

ORDERS: Final = _table(
    ("run", pa.string()),
    ("replica", pa.int32()),  # replica that committed the request
    ("index", pa.int64()),
    ("origin", pa.int32()),  # identifier of the request, together with `event`
    ("event", pa.int64()),
)

SAMPLES: Final = _table(
    ("run", pa.string()),
    ("replica", pa.int32()),
    ("at_us", pa.int64()),
    ("committed", pa.int64()),
    ("tentative", pa.int64()),
    ("executions", pa.int64()),  # since the start of the run, like the columns below
    ("busy_us", pa.int64()),
    ("bytes", pa.int64()),
)

MEASURES: Final = _table(
    ("run", pa.string()),
    *_EXPERIMENT_FIELDS,
    ("seed", pa.int64()),
    ("asked", pa.int64()),  # operations invoked in the measurement window
    ("throughput_tps", pa.float64(), NULLABLE),
    ("saturated", pa.bool_(), NULLABLE),  # null with closed-loop clients
    ("backlog", pa.int64()),
    ("accuracy", pa.float64(), NULLABLE),
    ("exact_accuracy", pa.float64(), NULLABLE),
    ("execution_ratio", pa.float64(), NULLABLE),
    ("cpu_utilisation", pa.float64(), NULLABLE),
    ("network_utilisation", pa.float64(), NULLABLE),
    ("messages_per_operation", pa.float64(), NULLABLE),
)

LATENCIES: Final = _table(
    ("run", pa.string()),
    ("answer", pa.string()),  # one of RESPONSE_KINDS
    ("kind", pa.string()),  # kind of operation, or ALL_KINDS
    ("answers", pa.int64()),
    ("mean_us", pa.float64()),
    ("p50_us", pa.int64()),
    ("p95_us", pa.int64()),
    ("p99_us", pa.int64()),
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

OVER_TIME: Final = _table(
    ("run", pa.string()),
    ("replica", pa.int32()),
    ("answer", pa.string()),  # response that the client waits for: weak_tentative or strong_stable
    ("at_us", pa.int64()),  # start of the step, relative to `begin_us`
    ("length_us", pa.int64()),  # length of the step
    ("done", pa.int64()),  # responses in the step
    ("asked", pa.int64()),  # operations invoked in the step that got a response at any time
    ("p50_us", pa.int64(), NULLABLE),  # latency of those operations; null without any
    ("max_us", pa.int64(), NULLABLE),
)
"""Time steps of live runs and of runs with faults."""

SUMMARY: Final = _table(
    *_EXPERIMENT_FIELDS,
    ("measure", pa.string()),  # a column of MEASURES, or a response kind with its statistic
    ("seeds", pa.int64()),
    ("mean", pa.float64()),
    ("low", pa.float64(), NULLABLE),  # confidence interval of 95 %
    ("high", pa.float64(), NULLABLE),
)

PEAKS: Final = _table(
    *(column for column in _EXPERIMENT_FIELDS if column[0] not in ("load_tps", "duration_us")),
    ("seed", pa.int64()),
    ("peak_tps", pa.float64()),  # throughput at the highest unsaturated load
    ("load_tps", pa.float64()),
    ("saturating_tps", pa.float64(), NULLABLE),  # lowest saturating load; null without one
)

VERDICTS: Final = _table(
    ("run", pa.string()),
    ("checker", pa.string()),
    ("verdict", pa.string()),  # ok, illegal or unknown
    ("detail", pa.string()),  # counterexample, or reason of `unknown`; empty if ok
    ("command", pa.string()),
)

RESULT_SCHEMAS: Final = {
    "measures": MEASURES,
    "latencies": LATENCIES,
    "over_time": OVER_TIME,
    "summary": SUMMARY,
    "peaks": PEAKS,
    "verdicts": VERDICTS,
}
"""Tables over all runs."""

# --- tables of 'creek export': of a cluster, not of a run ---------------------------------------

REGISTERS: Final = _table(
    ("key", pa.string()),  # as JSON: "lamp", 3 or ["stock", "lamp"]
    ("key_text", pa.string(), NULLABLE),  # key that is a string
    ("key_int", pa.int64(), NULLABLE),  # key that is an integer
    ("key_parts", pa.list_(pa.string()), NULLABLE),  # key that is a tuple: ["stock", "lamp"]
    ("kind", pa.string()),  # type of the value, one of VALUE_KINDS
    ("value", pa.string(), NULLABLE),  # as JSON, encoded as over HTTP; null if deleted
    ("value_bool", pa.bool_(), NULLABLE),  # one of these columns, if the value has such a type
    ("value_int", pa.int64(), NULLABLE),
    ("value_float", pa.float64(), NULLABLE),
    ("value_text", pa.string(), NULLABLE),
    ("value_bytes", pa.binary(), NULLABLE),
)
VALUE_KINDS: Final = ("null", "bool", "int", "float", "text", "bytes", "tuple", "dict", "deleted")
"""Types of a stored value. `deleted` marks an initial register that was deleted."""

COMMITTED: Final = _table(
    ("index", pa.int64()),  # position in the committed order, from 0
    ("origin", pa.int32()),  # identifier, together with `event`
    ("event", pa.int64()),
    ("timestamp_us", pa.int64()),  # by the clock of the replica that issued it
    ("strong", pa.bool_()),
    ("operation", pa.string()),  # name of the operation
    ("arguments", pa.string()),  # as a JSON array
    ("client", pa.string(), NULLABLE),  # null: a client without retries, or the cluster itself
    ("number", pa.int64(), NULLABLE),  # call number of the client
)
