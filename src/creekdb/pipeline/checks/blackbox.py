"""Linearizability of observed calls on Spark: one search per object, on any number of executors.

The calls are JSON lines (`creekdb.checkers.blackbox.history_files.json_lines`). The keys of the
calls determine their objects. Only if a call uses several keys, the driver collects the distinct
keys to find out which objects are connected.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.checkers.blackbox import KeyRange, Model
from creekdb.checkers.blackbox.history_files.json_lines import decode_call
from creekdb.checkers.blackbox.linearizability.checker import (
    intervals,
    judge,
    object_number,
    object_numbers,
)
from creekdb.checkers.blackbox.linearizability.models import Keys, require_call
from creekdb.checkers.blackbox.linearizability.picture import counterexample_svg
from creekdb.checkers.verdict import Illegal, Inconclusive, Ok
from creekdb.errors import BadValue, UsageError
from creekdb.pipeline.checks.verdict_names import ILLEGAL, OK, UNKNOWN
from creekdb.pipeline.spark.frames import spark_schema

_KEYED_LINES: Final = pa.schema(
    [("keys", pa.string()), ("line", pa.string()), ("error", pa.string())]
)
OBJECT_VERDICTS: Final = pa.schema(
    [
        ("object", pa.string()),
        ("calls", pa.int64()),
        ("verdict", pa.string()),
        ("detail", pa.string()),
        ("picture", pa.string()),
    ]
)
"""Keys of an object as JSON, the number of its calls, the verdict, and the counterexample."""


def object_verdicts(lines: DataFrame, model: Model, steps_max: int) -> DataFrame:
    """Return OBJECT_VERDICTS on the calls in the column `value`, one row per object.

    The frame of lines is read twice. Raise `UsageError` if a line is not a call.
    """
    keyed = lines.mapInArrow(partial(_add_keys, model), spark_schema(_KEYED_LINES))
    has_single_keys = F.bool_and(F.col("keys").rlike(_SINGLE_KEY))
    found = keyed.agg(F.max("error").alias("error"), has_single_keys.alias("single")).first()
    assert found is not None, "an aggregate has one row"
    if found.error is not None:
        raise UsageError(found.error)
    named = keyed.withColumn("object", F.col("keys"))
    if found.single is False:
        named = keyed.join(F.broadcast(_joined_objects(keyed)), "keys")
    grouped = named.select("object", "line").groupBy("object")
    return grouped.applyInArrow(_judge_object(model, steps_max), spark_schema(OBJECT_VERDICTS))


def _add_keys(model: Model, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the calls that have a position in the order, with their keys."""
    for batch in batches:
        lines = [line for line in batch.column("value").to_pylist() if line.strip()]
        rows = [row for line in lines for row in _keyed_rows(line, model)]
        yield pa.RecordBatch.from_pylist(rows, schema=_KEYED_LINES)


def _keyed_rows(line: str, model: Model) -> list[dict[str, str]]:
    try:
        call = decode_call(line)
        require_call(model, call)
        calls = intervals([call], model)
    except BadValue as error:
        return [{"error": f"{error}; in the line {line[:100]!r}"}]
    return [
        {"keys": _encode_keys(model.keys(call.operation, call.arguments)), "line": line}
        for call in calls
    ]


def _joined_objects(keyed: DataFrame) -> DataFrame:
    """Return the object of each set of keys."""
    texts = [row.keys_ for row in keyed.select(F.col("keys").alias("keys_")).distinct().collect()]
    key_sets = {text: _decode_keys(text) for text in texts}
    numbers = object_numbers(key_sets.values())
    names = {number: str(key) for key, number in numbers.items()} | {0: "all keys"}
    rows = [(text, names[object_number(keys, numbers)]) for text, keys in key_sets.items()]
    return keyed.sparkSession.createDataFrame(rows, "keys string, object string")


_SINGLE_KEY: Final = r'^\["[^"\\]*"\]$'


def _encode_keys(keys: Keys) -> str:
    values = None if keys is None else sorted(keys, key=repr)
    return msgspec.json.encode(values).decode()


def _decode_keys(text: str) -> Keys:
    values: list[Any] | None = msgspec.json.decode(text)
    if values is None:
        return None
    return frozenset(KeyRange(*each) if isinstance(each, list) else each for each in values)


def _judge_object(model: Model, steps_max: int) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    def judge_calls(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        calls = intervals(map(decode_call, table.column("line").to_pylist()), model)
        verdict, found = judge(calls, model, steps_max)
        match verdict:
            case Ok():
                name, detail = OK, ""
            case Inconclusive(reason=reason):
                name, detail = UNKNOWN, reason
            case Illegal():
                name, detail = ILLEGAL, verdict.describe()
        row = {
            "object": key[0].as_py(),
            "calls": len(calls),
            "verdict": name,
            "detail": detail,
            "picture": "" if found is None else counterexample_svg(found),
        }
        return pa.Table.from_pylist([row], schema=OBJECT_VERDICTS)

    return judge_calls
