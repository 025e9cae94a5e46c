"""Linearizability of many observed calls: Spark, relative to one process that checks all objects.

Clients of a simulated store make calls on many keys, one after another, at random times. Each call
takes effect between its invocation and its response, so the history is linearizable. Spark reads
the JSON lines from files and judges each key in a task. The process reads the same files into
memory, as `creek check` does. The start of Spark is excluded.

    python -m benchmarks pipeline-check            10^6 calls
    python -m benchmarks pipeline-check --quick    10^5 calls
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Final

from pyspark.sql import SparkSession

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.checkers import Ok
from creekdb.checkers.blackbox import CallStatus, Model, ObservedCall, encode_calls, get_model
from creekdb.checkers.blackbox.history_files.json_lines import decode_call
from creekdb.checkers.blackbox.linearizability.checker import STEPS_MAX, check_linearizability
from creekdb.checkers.blackbox.observations import ObservedRun
from creekdb.pipeline.checks.blackbox import object_verdicts
from creekdb.pipeline.checks.verdict_names import OK
from creekdb.pipeline.spark.session import spark_session

ROWS_PER_CALL: Final = 5
"""Operations in the tables of the pipeline per call that is checked here."""
CALLS_PER_KEY: Final = 200
CLIENTS: Final = 50
CALL_US_MAX: Final = 1_000
FILES: Final = 8
SEED: Final = 24
CORES: Final = min(4, os.cpu_count() or 1)


def linearizable_calls(count: int) -> list[ObservedCall]:
    """Return calls of a store, in the order in which they take effect."""
    random = Random(SEED)
    keys = max(1, count // CALLS_PER_KEY)
    free_us = [0] * CLIENTS
    planned: list[tuple[int, int, int, int]] = []
    for number in range(count):
        client = number % CLIENTS
        invoked_us = free_us[client] + random.randrange(1, CALL_US_MAX)
        responded_us = invoked_us + random.randrange(2, CALL_US_MAX)
        free_us[client] = responded_us
        planned.append(
            (random.randrange(invoked_us, responded_us), client, invoked_us, responded_us)
        )
    state: dict[str, int] = {}
    calls = []
    for number, (_, client, invoked_us, responded_us) in enumerate(sorted(planned)):
        key = f"key{random.randrange(keys)}"
        is_put = random.random() < 0.5
        value = state.get(key)  # both operations return the value before them
        if is_put:
            state[key] = number
        calls.append(
            ObservedCall(
                client=f"client{client}",
                operation="put" if is_put else "get",
                arguments=(key, number) if is_put else (key,),
                strong=True,
                invoked_us=invoked_us,
                responded_us=responded_us,
                status=CallStatus.OK,
                value=value,
            )
        )
    return calls


def write_calls(directory: Path, calls: list[ObservedCall]) -> None:
    for number in range(FILES):
        (directory / f"{number}.jsonl").write_bytes(encode_calls(calls[number::FILES]))


def check_on_spark(spark: SparkSession, directory: Path, model: Model, count: int) -> float:
    """Return the time of the check in seconds."""
    start = perf_counter()
    rows = object_verdicts(spark.read.text(str(directory)), model, STEPS_MAX).collect()
    elapsed = perf_counter() - start
    assert Counter(row.verdict for row in rows).keys() == {OK}
    assert sum(row.calls for row in rows) == count
    return elapsed


def check_in_process(directory: Path, model: Model, count: int) -> float:
    """Return the time of the check in seconds."""
    start = perf_counter()
    calls = [
        decode_call(line) for file in directory.iterdir() for line in file.read_text().splitlines()
    ]
    result = check_linearizability(ObservedRun(datatype="kv", calls=tuple(calls)), model)
    elapsed = perf_counter() - start
    assert isinstance(result.verdict, Ok)
    assert len(calls) == count
    return elapsed


def measure(scale: Scale) -> Iterator[Result]:
    count, model = scale.rows // ROWS_PER_CALL, get_model("kv")
    with (
        tempfile.TemporaryDirectory(prefix="creek-check-") as name,
        spark_session(f"local[{CORES}]", "creek: benchmark") as spark,
    ):
        directory = Path(name)
        write_calls(directory, linearizable_calls(count))
        check_on_spark(spark, directory, model, count)
        rounds = [
            (
                check_on_spark(spark, directory, model, count),
                check_in_process(directory, model, count),
            )
            for _ in range(scale.live_rounds)
        ]
    on_spark, in_process = map(min, zip(*rounds, strict=True))
    yield Result(
        what="pipeline-check: linearizability on Spark",
        explanation=f"Time to check {count:,} calls in {CORES} tasks at a time, relative to one "
        f"process; {count / on_spark:,.0f} calls per second.",
        value=on_spark / in_process,
    )


BENCHMARK = Benchmark("pipeline-check", 1, measure)
