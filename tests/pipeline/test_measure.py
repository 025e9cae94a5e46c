"""What Spark measures of runs is what `evaluation` measures of them, field by field."""

from collections.abc import Mapping
from math import sqrt
from statistics import mean, stdev
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

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
    t_quantile,
)
from creekdb.pipeline.stages.run_tables import tables_of_simulation
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from tests.pipeline.tabled import Row, frames, operations_table, runs_table, table

SHORT = Experiment(warehouses=1, replicas=3, load_tps=3000.0, duration_us=100_000)
EXPERIMENTS = {
    "creek": SHORT,
    "archie": replace(SHORT, scheme="archie"),
    "smr": replace(SHORT, scheme="smr"),
    "bayou": replace(SHORT, scheme="bayou"),
    "overloaded": replace(SHORT, scheme="smr", load_tps=9000.0),
    "local": replace(SHORT, local_reads=True, strong_share=0.2),
    "crashed": replace(SHORT, faults=("crash 2 at 40ms", "restart 2 at 70ms")),
    "parted": replace(SHORT, faults=("partition 0 at 50ms", "heal at 90ms")),
}
OTHERS = {
    "closed": Scenario(scheme="creek", datatype="bank", replicas=3, duration_us=100_000),
    "silent": Scenario(
        clients=ClientModel(sessions=0, rate_per_second=1), duration_us=1, warm_up_us=1
    ),
}


class Measured:
    """Every run measured once, by Spark and by `evaluation`."""

    def __init__(self, spark: SparkSession) -> None:
        scenarios = {name: each.to_scenario() for name, each in EXPERIMENTS.items()} | OTHERS
        runs = {name: (each, build_simulation(each).run()) for name, each in scenarios.items()}
        self.expected = {name: measure(*each, []) for name, each in runs.items()}
        made = frames(spark, [tables_of_simulation(name, *each) for name, each in runs.items()])
        self.runs, self.operations, _ = made
        found = measures(self.runs, self.operations), latencies(self.runs, self.operations)
        self.measures = {row["run"]: row.asDict() for row in found[0].collect()}
        self.latencies = {
            (row["run"], row["answer"], row["kind"]): row.asDict() for row in found[1].collect()
        }


@pytest.fixture(scope="module")
def measured(spark: SparkSession) -> Measured:
    return Measured(spark)


RUN_NAMES = [*EXPERIMENTS, *OTHERS]


@pytest.mark.parametrize("name", RUN_NAMES)
def test_measures_are_those_of_the_evaluation(measured: Measured, name: str) -> None:
    found, expected = measured.measures[name], measured.expected[name]

    assert found["asked"] == expected.weak + expected.strong
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
        assert found[field] == getattr(expected, field), field
    # Of these the table holds whole numbers where the evaluation adds up fractions.
    assert found["network_utilisation"] == _nearly(expected.network_utilisation)
    by_kind = expected.messages_per_operation.values()
    assert found["messages_per_operation"] == _nearly(sum(by_kind) if by_kind else None)


def _nearly(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("name", RUN_NAMES)
def test_latencies_are_those_of_the_evaluation(measured: Measured, name: str) -> None:
    for answer in RESPONSE_KINDS:
        found = measured.latencies.get((name, answer, ALL_KINDS))
        if answer != "all_done":
            expected: SimulatedLatency | None = getattr(measured.expected[name], f"{answer}_ms")
            assert _milliseconds(found) == expected, answer
        else:
            assert (found["answers"] if found else 0) == measured.expected[name].answered


def _milliseconds(row: Mapping[str, Any] | None) -> SimulatedLatency | None:
    if row is None:
        return None
    times = {field: row[f"{field}_us"] / 1000 for field in ("mean", "p50", "p95", "p99")}
    return SimulatedLatency(answers=row["answers"], **times)


def test_the_experiments_show_what_is_worth_measuring(measured: Measured) -> None:
    found = measured.expected
    assert [name for name in RUN_NAMES if found[name].saturated] != []
    assert found["creek"].saturated is False
    assert found["archie"].weak_speculated_ms is not None
    assert found["crashed"].crashes == 1
    assert found["closed"].saturated is None
    assert found["silent"].throughput_tps is None
    assert 0 < (found["parted"].exact_accuracy or 0) < 1


def test_kinds_of_operations_add_up(measured: Measured) -> None:
    of_kinds: dict[tuple[str, str], int] = {}
    for (name, answer, kind), row in measured.latencies.items():
        if kind != ALL_KINDS:
            of_kinds[name, answer] = of_kinds.get((name, answer), 0) + row["answers"]

    all_kinds = {key[:2]: row for key, row in measured.latencies.items() if key[2] == ALL_KINDS}
    assert of_kinds == {key: row["answers"] for key, row in all_kinds.items()}
    assert {key[2] for key in measured.latencies if key[0] == "creek"} > {ALL_KINDS, "payment"}


def test_runs_are_the_same_however_their_rows_are_spread(measured: Measured) -> None:
    spread = measured.operations.repartition(7)

    assert {row["run"]: row.asDict() for row in measures(measured.runs, spread).collect()} == (
        measured.measures
    )


def test_tables_are_as_they_are_declared(measured: Measured) -> None:
    measured_runs = measures(measured.runs, measured.operations)
    timed = latencies(measured.runs, measured.operations)
    for frame, schema in (
        (measured_runs, MEASURES),
        (timed, LATENCIES),
        (summary(measured_runs, timed), SUMMARY),
        (peaks(measured_runs), PEAKS),
    ):
        expected = [(field.name, field.dataType) for field in spark_schema(schema)]
        assert [(field.name, field.dataType) for field in frame.schema] == expected


def test_a_null_that_must_not_be_is_named(measured: Measured) -> None:
    lacking = conform_to_schema(measured.runs.withColumn("scheme", F.lit(None)), RUNS)

    with pytest.raises(Exception, match="the column scheme must not be null"):
        lacking.collect()


# --- runs without much in them -----------------------------------------------------------------


def live(**changes: Any) -> Row:
    """A run of which no models counted anything."""
    counted = ("executions", "to_execute", "busy_us", "core_us", "bytes", "capacity_bytes")
    row: Row = dict.fromkeys(RUNS.names, "") | dict.fromkeys(counted, 0)
    row |= {"run": "live", "source": "live", "scheme": "creek", "layout": None, "unsettled": None}
    row |= {"load_tps": None, "strong_share": None, "exec_scale": 1.0, "replicas": 3, "cores": 1}
    row |= {"warehouses": None, "local_reads": False, "duration_us": 1000, "seed": 0}
    return row | {"begin_us": 0, "end_us": 1000, "messages": 0} | changes


def asked(event: int, **changes: Any) -> Row:
    row: Row = dict.fromkeys(OPERATIONS.names)
    row |= {"run": "live", "replica": 0, "incarnation": 0, "event": event, "session": 0}
    return row | {"kind": "payment", "strong": True, "invoked_us": event * 10} | changes


def test_a_run_without_operations_measures_nothing(spark: SparkSession) -> None:
    runs, operations = runs_table(spark, live()), operations_table(spark)

    (row,) = measures(runs, operations).collect()
    assert (row["asked"], row["backlog"], row["throughput_tps"]) == (0, 0, 0.0)
    assert {row[name] for name in SUMMARY_COLUMNS if name not in ("backlog", "throughput_tps")} == {
        None
    }
    assert latencies(runs, operations).collect() == []


def test_a_live_run_measures_what_clients_saw(spark: SparkSession) -> None:
    rows = [asked(event, tentative_us=event * 10 + event) for event in range(1, 5)]
    rows += [asked(event, stable_us=event * 10 + event) for event in range(5, 11)]
    runs, operations = runs_table(spark, live()), operations_table(spark, *rows)

    (row,) = measures(runs, operations).collect()
    assert (row["asked"], row["backlog"], row["throughput_tps"]) == (10, 4, 6000.0)
    assert row["saturated"] is row["accuracy"] is row["execution_ratio"] is None
    timed = {each["answer"]: each for each in latencies(runs, operations).collect()}
    assert timed.keys() == {"strong_tentative", "strong_stable", "all_done"}
    assert timed["strong_stable"]["p50_us"] == 7
    assert timed["strong_stable"]["p95_us"] == timed["strong_stable"]["p99_us"] == 10


# --- over seeds, and peaks ---------------------------------------------------------------------


def result(run: str, seed: int, load_tps: float | None, **changes: Any) -> Row:
    row: Row = dict.fromkeys(MEASURES.names)
    row |= {name: live()[name] for name in EXPERIMENT_COLUMNS} | {
        "scheme": "smr",
        "source": "simulated",
    }
    return (
        row | {"run": run, "seed": seed, "load_tps": load_tps, "asked": 1, "backlog": 0} | changes
    )


def timing(run: str, **changes: Any) -> Row:
    row: Row = {"run": run, "answer": "strong_stable", "kind": ALL_KINDS, "answers": 1}
    return row | {"mean_us": 1.0, "p50_us": 1, "p95_us": 1, "p99_us": 1} | changes


def test_seeds_are_summed_up_with_their_confidence(spark: SparkSession) -> None:
    accuracies = [0.5, 0.75, 1.0, 0.25]
    rows = [result(f"r{seed}", seed, 100.0, accuracy=each) for seed, each in enumerate(accuracies)]
    rows.append(result("alone", 0, 200.0, accuracy=0.5))
    timings = [timing(f"r{seed}", p99_us=seed * 10) for seed in range(4)]
    timings.append(timing("r0", kind="payment", p99_us=1_000_000))

    found = {
        (row["load_tps"], row["measure"]): row
        for row in summary(table(spark, rows, MEASURES), table(spark, timings, LATENCIES)).collect()
    }

    row = found[100.0, "accuracy"]
    margin = t_quantile(3) * stdev(accuracies) / sqrt(4)
    assert (row["seeds"], row["mean"]) == (4, mean(accuracies))
    assert (row["low"], row["high"]) == pytest.approx((row["mean"] - margin, row["mean"] + margin))
    assert found[100.0, "strong_stable_p99_us"]["mean"] == 15.0
    alone = found[200.0, "accuracy"]
    assert (alone["seeds"], alone["mean"], alone["low"], alone["high"]) == (1, 0.5, None, None)
    assert (100.0, "execution_ratio") not in found


def test_a_peak_is_what_was_done_at_the_highest_load_that_it_kept_up_with(
    spark: SparkSession,
) -> None:
    def tried(load_tps: float | None, saturated: bool | None, **changes: Any) -> Row:
        done = None if load_tps is None else load_tps - 1
        name = f"{load_tps}-{changes}"
        return (
            result(name, changes.pop("seed", 0), load_tps, throughput_tps=done, saturated=saturated)
            | changes
        )

    rows = [
        *(tried(load, load > 30) for load in (10.0, 20.0, 30.0, 40.0, 50.0)),
        tried(30.0, False, duration_us=5000, throughput_tps=28.5),
        tried(20.0, False, seed=1),
        tried(20.0, True, scheme="bayou"),
        tried(None, None, scheme="creek"),
    ]
    found = {
        (row["scheme"], row["seed"]): (row["peak_tps"], row["load_tps"], row["saturating_tps"])
        for row in peaks(table(spark, rows, MEASURES)).collect()
    }

    assert found == {("smr", 0): (28.5, 30.0, 40.0), ("smr", 1): (19.0, 20.0, None)}
