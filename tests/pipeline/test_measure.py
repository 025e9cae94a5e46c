"""Spark measures, compared with those of `evaluation` field by field."""

from collections.abc import Mapping
from math import sqrt
from statistics import mean, stdev
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.evaluation import Experiment, SimulatedLatency, build_simulation, measure
from creekdb.pipeline.schemas import (
    ALL_KINDS,
    EXPERIMENT_COLUMNS,
    LATENCIES,
    MEASURES,
    OPERATIONS,
    PEAKS,
    RESPONSE_KINDS,
    RUNS,
    SUMMARY,
)
from creekdb.pipeline.spark.frames import conform_to_schema, spark_schema
from creekdb.pipeline.stages.measure import (
    SUMMARY_COLUMNS,
    latencies,
    measures,
    peaks,
    summary,
)
from creekdb.pipeline.stages.run_tables import tables_of_simulation
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from tests.pipeline.spark_tables import Row, frames, operations_table, runs_table, table

SHORT = Experiment(warehouses=1, replicas=3, load_tps=3000.0, duration_us=100_000)
EXPERIMENTS = {
    "creek": SHORT,
    "archie": replace(SHORT, scheme="archie"),
    "smr": replace(SHORT, scheme="smr"),
    "bayou": replace(SHORT, scheme="bayou"),
    "overloaded": replace(SHORT, scheme="smr", load_tps=9000.0),
    "local": replace(SHORT, local_reads=True, strong_share=0.2),
    "crashed": replace(SHORT, faults=("crash 2 at 40ms", "restart 2 at 70ms")),
    "partitioned": replace(SHORT, faults=("partition 0 at 50ms", "heal at 90ms")),
}
OTHERS = {
    "closed": Scenario(scheme="creek", datatype="bank", replicas=3, duration_us=100_000),
    "idle": Scenario(
        clients=ClientModel(sessions=0, rate_per_second=1), duration_us=1, warm_up_us=1
    ),
}


class MeasuredRuns:
    """All runs, measured by Spark and by `evaluation`."""

    def __init__(self, spark: SparkSession) -> None:
        scenarios = {name: each.to_scenario() for name, each in EXPERIMENTS.items()} | OTHERS
        runs = {name: (each, build_simulation(each).run()) for name, each in scenarios.items()}
        self.expected = {name: measure(*each, []) for name, each in runs.items()}
        arrow_tables = [tables_of_simulation(name, *each) for name, each in runs.items()]
        self.runs, self.operations, _ = frames(spark, arrow_tables)
        measure_rows = measures(self.runs, self.operations).collect()
        latency_rows = latencies(self.runs, self.operations).collect()
        self.measures = {row["run"]: row.asDict() for row in measure_rows}
        self.latencies = {
            (row["run"], row["answer"], row["kind"]): row.asDict() for row in latency_rows
        }


@pytest.fixture(scope="module")
def measured(spark: SparkSession) -> MeasuredRuns:
    return MeasuredRuns(spark)


RUN_NAMES = [*EXPERIMENTS, *OTHERS]


@pytest.mark.parametrize("name", RUN_NAMES)
def test_measures_equal_those_of_the_evaluation(measured: MeasuredRuns, name: str) -> None:
    actual, expected = measured.measures[name], measured.expected[name]

    assert actual["asked"] == expected.weak + expected.strong
    for field in (
        "scheme",
        "layout",
        "warehouses",
        "replicas",
        "cores",
        "exec_scale",
        "seed",
        "load_tps",
        "throughput_tps",
        "saturated",
        "backlog",
        "accuracy",
        "exact_accuracy",
        "execution_ratio",
        "cpu_utilisation",
    ):
        assert actual[field] == getattr(expected, field), field
    # The tables hold integers, and the evaluation sums fractions.
    assert actual["network_utilisation"] == _approximately(expected.network_utilisation)
    by_kind = expected.messages_per_operation.values()
    messages = sum(by_kind) if by_kind else None
    assert actual["messages_per_operation"] == _approximately(messages)


def _approximately(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("name", RUN_NAMES)
def test_latencies_equal_those_of_the_evaluation(measured: MeasuredRuns, name: str) -> None:
    for kind in RESPONSE_KINDS:
        actual = measured.latencies.get((name, kind, ALL_KINDS))
        if kind != "all_done":
            expected: SimulatedLatency | None = getattr(measured.expected[name], f"{kind}_ms")
            assert _milliseconds(actual) == expected, kind
        else:
            assert (actual["answers"] if actual else 0) == measured.expected[name].answered


def _milliseconds(row: Mapping[str, Any] | None) -> SimulatedLatency | None:
    if row is None:
        return None
    times = {field: row[f"{field}_us"] / 1000 for field in ("mean", "p50", "p95", "p99")}
    return SimulatedLatency(answers=row["answers"], **times)


def test_the_experiments_cover_all_measures(measured: MeasuredRuns) -> None:
    expected = measured.expected
    assert [name for name in RUN_NAMES if expected[name].saturated] != []
    assert expected["creek"].saturated is False
    assert expected["archie"].weak_speculated_ms is not None
    assert expected["crashed"].crashes == 1
    assert expected["closed"].saturated is None
    assert expected["idle"].throughput_tps is None
    assert 0 < (expected["partitioned"].exact_accuracy or 0) < 1


def test_responses_by_kind_of_operation_add_up(measured: MeasuredRuns) -> None:
    sums: dict[tuple[str, str], int] = {}
    for (name, answer, kind), row in measured.latencies.items():
        if kind != ALL_KINDS:
            sums[name, answer] = sums.get((name, answer), 0) + row["answers"]

    all_kinds = {key[:2]: row for key, row in measured.latencies.items() if key[2] == ALL_KINDS}
    assert sums == {key: row["answers"] for key, row in all_kinds.items()}
    assert {key[2] for key in measured.latencies if key[0] == "creek"} > {ALL_KINDS, "payment"}


def test_measures_do_not_depend_on_the_partitioning(measured: MeasuredRuns) -> None:
    spread = measured.operations.repartition(7)

    assert {row["run"]: row.asDict() for row in measures(measured.runs, spread).collect()} == (
        measured.measures
    )


def test_frames_conform_to_their_schemas(measured: MeasuredRuns) -> None:
    measure_frame = measures(measured.runs, measured.operations)
    latency_frame = latencies(measured.runs, measured.operations)
    for frame, schema in (
        (measure_frame, MEASURES),
        (latency_frame, LATENCIES),
        (summary(measure_frame, latency_frame), SUMMARY),
        (peaks(measure_frame), PEAKS),
    ):
        expected = [(field.name, field.dataType) for field in spark_schema(schema)]
        assert [(field.name, field.dataType) for field in frame.schema] == expected


def test_a_null_in_a_required_column_is_rejected(measured: MeasuredRuns) -> None:
    incomplete = conform_to_schema(measured.runs.withColumn("scheme", F.lit(None)), RUNS)

    with pytest.raises(Exception, match="the column scheme must not be null"):
        incomplete.collect()


# --- runs with few columns ---------------------------------------------------------------------


def live_run(**changes: Any) -> Row:
    """Return a row of RUNS without counters."""
    counters = ("executions", "to_execute", "busy_us", "core_us", "bytes", "capacity_bytes")
    row: Row = dict.fromkeys(RUNS.names, "") | dict.fromkeys(counters, 0)
    row |= {"run": "live", "source": "live", "scheme": "creek", "layout": None, "unsettled": None}
    row |= {"load_tps": None, "strong_share": None, "exec_scale": 1.0, "replicas": 3, "cores": 1}
    row |= {"warehouses": None, "local_reads": False, "duration_us": 1000, "seed": 0}
    row |= {"decided_only": False, "regions": 1, "clock_skew_us": 0}
    return row | {"begin_us": 0, "end_us": 1000, "messages": 0} | changes


def operation(event: int, **changes: Any) -> Row:
    row: Row = dict.fromkeys(OPERATIONS.names)
    row |= {"run": "live", "replica": 0, "incarnation": 0, "event": event, "session": 0}
    row |= {"kind": "payment", "strong": True, "arguments": "[]", "invoked_us": event * 10}
    return row | changes


def test_a_run_without_operations_has_null_measures(spark: SparkSession) -> None:
    runs, operations = runs_table(spark, live_run()), operations_table(spark)

    (row,) = measures(runs, operations).collect()
    assert (row["asked"], row["backlog"], row["throughput_tps"]) == (0, 0, 0.0)
    assert {row[name] for name in SUMMARY_COLUMNS if name not in ("backlog", "throughput_tps")} == {
        None
    }
    assert latencies(runs, operations).collect() == []


def test_a_live_run_is_measured_by_its_responses(spark: SparkSession) -> None:
    rows = [operation(event, tentative_us=event * 10 + event) for event in range(1, 5)]
    rows += [operation(event, stable_us=event * 10 + event) for event in range(5, 11)]
    runs, operations = runs_table(spark, live_run()), operations_table(spark, *rows)

    (row,) = measures(runs, operations).collect()
    assert (row["asked"], row["backlog"], row["throughput_tps"]) == (10, 4, 6000.0)
    assert row["saturated"] is row["accuracy"] is row["execution_ratio"] is None
    by_response = {each["answer"]: each for each in latencies(runs, operations).collect()}
    assert by_response.keys() == {"strong_tentative", "strong_stable", "all_done"}
    stable = by_response["strong_stable"]
    assert stable["p50_us"] == 7
    assert stable["p95_us"] == stable["p99_us"] == 10


# --- means over seeds, and peaks ---------------------------------------------------------------


def measure_row(run: str, seed: int, load_tps: float | None, **changes: Any) -> Row:
    row: Row = dict.fromkeys(MEASURES.names)
    row |= {name: live_run()[name] for name in EXPERIMENT_COLUMNS} | {
        "scheme": "smr",
        "source": "simulated",
    }
    return (
        row | {"run": run, "seed": seed, "load_tps": load_tps, "asked": 1, "backlog": 0} | changes
    )


def latency_row(run: str, **changes: Any) -> Row:
    row: Row = {"run": run, "answer": "strong_stable", "kind": ALL_KINDS, "answers": 1}
    return row | {"mean_us": 1.0, "p50_us": 1, "p95_us": 1, "p99_us": 1} | changes


def test_a_summary_has_means_and_confidence_intervals(spark: SparkSession) -> None:
    accuracies = [0.5, 0.75, 1.0, 0.25]
    rows = [
        measure_row(f"r{seed}", seed, 100.0, accuracy=each) for seed, each in enumerate(accuracies)
    ]
    rows.append(measure_row("alone", 0, 200.0, accuracy=0.5))
    latency_rows = [latency_row(f"r{seed}", p99_us=seed * 10) for seed in range(4)]
    latency_rows.append(latency_row("r0", kind="payment", p99_us=1_000_000))

    frame = summary(table(spark, rows, MEASURES), table(spark, latency_rows, LATENCIES))
    summaries = {(row["load_tps"], row["measure"]): row for row in frame.collect()}

    row = summaries[100.0, "accuracy"]
    margin = 3.182446 * stdev(accuracies) / sqrt(4)  # quantile for 95 % and 3 degrees of freedom
    assert (row["seeds"], row["mean"]) == (4, mean(accuracies))
    assert (row["low"], row["high"]) == pytest.approx((row["mean"] - margin, row["mean"] + margin))
    assert summaries[100.0, "strong_stable_p99_us"]["mean"] == 15.0
    alone = summaries[200.0, "accuracy"]
    assert (alone["seeds"], alone["mean"], alone["low"], alone["high"]) == (1, 0.5, None, None)
    assert (100.0, "execution_ratio") not in summaries


def test_a_peak_is_the_throughput_at_the_highest_unsaturated_load(spark: SparkSession) -> None:
    def row_at(load_tps: float | None, saturated: bool | None, **changes: Any) -> Row:
        throughput_tps = None if load_tps is None else load_tps - 1
        name, seed = f"{load_tps}-{changes}", changes.pop("seed", 0)
        row = measure_row(name, seed, load_tps, throughput_tps=throughput_tps, saturated=saturated)
        return row | changes

    rows = [
        *(row_at(load, load > 30) for load in (10.0, 20.0, 30.0, 40.0, 50.0)),
        row_at(30.0, False, duration_us=5000, throughput_tps=28.5),
        row_at(20.0, False, seed=1),
        row_at(20.0, True, scheme="bayou"),
        row_at(None, None, scheme="creek"),
    ]
    by_scheme = {
        (row["scheme"], row["seed"]): (row["peak_tps"], row["load_tps"], row["saturating_tps"])
        for row in peaks(table(spark, rows, MEASURES)).collect()
    }

    assert by_scheme == {("smr", 0): (28.5, 30.0, 40.0), ("smr", 1): (19.0, 20.0, None)}
