"""The tables between the stages, with the types of their columns.

Times are integer microseconds of the run's own clock: integers are exact, and their percentiles are
cheap. A column may be null only where it says so.

`run` names a run in every table; it is the name of the run's folder.
"""

from typing import Final

import pyarrow as pa


def _table(*columns: tuple[str, pa.DataType], nullable: tuple[str, ...] = ()) -> pa.Schema:
    return pa.schema([pa.field(name, kind, name in nullable) for name, kind in columns])


_EXPERIMENT_FIELDS: Final = (
    ("source", pa.string()),  # simulated, or live
    ("scheme", pa.string()),
    ("layout", pa.string()),
    ("warehouses", pa.int32()),
    ("load_tps", pa.float64()),
    ("strong_share", pa.float64()),  # null: every Payment
    ("exec_scale", pa.float64()),
    ("replicas", pa.int32()),
    ("cores", pa.int32()),
    ("local_reads", pa.bool_()),
    ("faults", pa.string()),  # as text, separated by semicolons; empty without any
    ("duration_us", pa.int64()),
)
EXPERIMENT_COLUMNS: Final = tuple(name for name, _ in _EXPERIMENT_FIELDS)
"""What runs have in common that differ only in their seed."""
_NULL_IN_EXPERIMENT: Final = ("strong_share", "load_tps", "warehouses", "layout")

COUNTER_COLUMNS: Final = (
    "executions",
    "to_execute",
    "busy_us",
    "core_us",
    "bytes",
    "capacity_bytes",
    "messages",
)
"""The columns of RUNS that come from counters."""

RUNS: Final = _table(
    ("run", pa.string()),
    *_EXPERIMENT_FIELDS,
    ("seed", pa.int64()),
    ("begin_us", pa.int64()),  # of measuring
    ("end_us", pa.int64()),
    # From here to `messages` COUNTED: null where nobody counted, as in a history alone.
    ("executions", pa.int64()),  # of all replicas
    ("to_execute", pa.int64()),  # how many there would be without any repetition
    ("busy_us", pa.int64()),  # of all cores, while measuring
    ("core_us", pa.int64()),  # what all cores could have done
    ("bytes", pa.int64()),  # sent by all, while measuring
    ("capacity_bytes", pa.int64()),
    ("messages", pa.int64()),  # sent by all, while measuring
    ("trace_hash", pa.string()),  # empty for a live run
    ("unsettled", pa.string()),  # null: it came to rest
    ("violated", pa.string()),  # TPC-C's conditions, a line each; empty when all hold
    ("command", pa.string()),  # what to type for the same run
    nullable=(*_NULL_IN_EXPERIMENT, *COUNTER_COLUMNS, "unsettled"),
)

OPERATIONS: Final = _table(
    ("run", pa.string()),
    ("replica", pa.int32()),
    ("incarnation", pa.int32()),
    ("event", pa.int64()),  # with `replica`, the identifier; negative: only that replica knows it
    ("session", pa.int64()),
    ("kind", pa.string()),
    ("strong", pa.bool_()),
    ("invoked_us", pa.int64()),
    ("tentative_us", pa.int64()),  # the first tentative answer
    ("stable_us", pa.int64()),
    ("final_us", pa.int64()),
    ("speculated_us", pa.int64()),  # of schemes that withhold answers: when there could be one
    ("failed", pa.bool_()),  # the last answer was an error; null without an answer
    ("accurate", pa.bool_()),  # the first answer was the last one, but for the numbers of orders
    ("exact", pa.bool_()),  # the first answer was the last one, to the letter
    ("commit_index", pa.int64()),  # its place in the order that was agreed on
    nullable=(
        "tentative_us",
        "stable_us",
        "final_us",
        "speculated_us",
        "failed",
        "accurate",
        "exact",
        "commit_index",
    ),
)

ORDERS: Final = _table(
    ("run", pa.string()),
    ("replica", pa.int32()),  # whose order it is
    ("index", pa.int64()),
    ("origin", pa.int32()),  # with `event`, the identifier of what it committed there
    ("event", pa.int64()),
)

SAMPLES: Final = _table(
    ("run", pa.string()),
    ("replica", pa.int32()),
    ("at_us", pa.int64()),
    ("committed", pa.int64()),
    ("tentative", pa.int64()),
    ("executions", pa.int64()),  # since the beginning, like those below
    ("busy_us", pa.int64()),
    ("bytes", pa.int64()),
)

MEASURES: Final = _table(
    ("run", pa.string()),
    *_EXPERIMENT_FIELDS,
    ("seed", pa.int64()),
    ("asked", pa.int64()),
    ("throughput_tps", pa.float64()),
    ("saturated", pa.bool_()),  # null in a closed loop
    ("backlog", pa.int64()),
    ("accuracy", pa.float64()),
    ("exact_accuracy", pa.float64()),
    ("execution_ratio", pa.float64()),
    ("cpu_utilisation", pa.float64()),
    ("network_utilisation", pa.float64()),
    ("messages_per_operation", pa.float64()),
    nullable=(
        *_NULL_IN_EXPERIMENT,
        "throughput_tps",
        "saturated",
        "accuracy",
        "exact_accuracy",
        "execution_ratio",
        "cpu_utilisation",
        "network_utilisation",
        "messages_per_operation",
    ),
)

LATENCIES: Final = _table(
    ("run", pa.string()),
    ("answer", pa.string()),  # one of ANSWERS
    ("kind", pa.string()),  # of operation; ALL_KINDS for all together
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
"""`weak_tentative` is the first answer to a weak operation, whatever kind of answer a scheme gives;
`all_done` is when a client has what it asked for, weak or strong."""

OVER_TIME: Final = _table(
    ("run", pa.string()),
    ("replica", pa.int32()),
    ("answer", pa.string()),  # weak_tentative or strong_stable: what its client waits for
    ("at_us", pa.int64()),  # when the step begins, from when measuring does
    ("length_us", pa.int64()),  # of the step
    ("done", pa.int64()),  # answers that were given in it
    ("asked", pa.int64()),  # operations that were asked for in it and answered, whenever
    ("p50_us", pa.int64()),  # how long those waited; null without any
    ("max_us", pa.int64()),
    nullable=("p50_us", "max_us"),
)
"""Of runs to which something happened, and of live ones."""

SUMMARY: Final = _table(
    *_EXPERIMENT_FIELDS,
    ("measure", pa.string()),  # a column of MEASURES, or an answer of LATENCIES and its statistic
    ("seeds", pa.int64()),
    ("mean", pa.float64()),
    ("low", pa.float64()),  # of the interval that holds the true mean with a confidence of 95 %
    ("high", pa.float64()),
    nullable=(*_NULL_IN_EXPERIMENT, "low", "high"),
)

PEAKS: Final = _table(
    *(column for column in _EXPERIMENT_FIELDS if column[0] not in ("load_tps", "duration_us")),
    ("seed", pa.int64()),
    ("peak_tps", pa.float64()),  # done at the highest load that did not saturate it
    ("load_tps", pa.float64()),
    ("saturating_tps", pa.float64()),  # the lowest load that did; null: none of those tried
    nullable=("strong_share", "warehouses", "layout", "saturating_tps"),
)

VERDICTS: Final = _table(
    ("run", pa.string()),
    ("checker", pa.string()),
    ("verdict", pa.string()),  # ok, illegal or unknown
    ("detail", pa.string()),  # the counterexample, or why it is not known; empty when ok
    ("command", pa.string()),
)

# --- what 'creek export' leaves: of a cluster, not of a run -----------------------------------

REGISTERS: Final = _table(
    ("key", pa.string()),  # as JSON: "lamp", 3 or ["stock", "lamp"]
    ("key_text", pa.string()),  # of a key that is a string
    ("key_int", pa.int64()),  # of one that is an integer
    ("key_parts", pa.list_(pa.string())),  # of a tuple, each as a text: ["stock", "lamp"]
    ("kind", pa.string()),  # of value, one of VALUE_KINDS
    ("value", pa.string()),  # as JSON, like everywhere in HTTP; null: deleted
    ("value_bool", pa.bool_()),  # one of these, where the value is as simple
    ("value_int", pa.int64()),
    ("value_float", pa.float64()),
    ("value_text", pa.string()),
    ("value_bytes", pa.binary()),
    nullable=(
        "key_text",
        "key_int",
        "key_parts",
        "value",
        "value_bool",
        "value_int",
        "value_float",
        "value_text",
        "value_bytes",
    ),
)
VALUE_KINDS: Final = ("null", "bool", "int", "float", "text", "bytes", "tuple", "dict", "deleted")
"""`deleted`: the data type begins with something there, and there is nothing any more."""

COMMITTED: Final = _table(
    ("index", pa.int64()),  # its place in the order that was agreed on, from 0
    ("origin", pa.int32()),  # with `event`, its identifier
    ("event", pa.int64()),
    ("timestamp_us", pa.int64()),  # by the clock of the replica that issued it
    ("strong", pa.bool_()),
    ("operation", pa.string()),  # its name
    ("arguments", pa.string()),  # as a JSON array
    ("client", pa.string()),  # null: no client that may ask again, or the cluster itself
    ("number", pa.int64()),  # of the client's calls
    nullable=("client", "number"),
)
