"""Tables of single runs, as the stages before measuring and verifying leave them."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from creek.evaluation import Experiment, simulation_of
from creek.history import Committed, Dot, History, OperationRecord
from creek.pipeline.declared import spark_schema
from creek.pipeline.schemas import OPERATIONS, ORDERS, RUNS
from creek.protocol.values import same
from creek.simulation.cluster import Run
from creek.simulation.recorder import Speculation
from creek.simulation.scenario import Scenario
from creek.tpcc import without_numbers

Row = dict[str, Any]


def simulated(experiment: Experiment) -> tuple[Scenario, Run]:
    return simulated_scenario(experiment.scenario())


def simulated_scenario(scenario: Scenario) -> tuple[Scenario, Run]:
    return scenario, simulation_of(scenario).run()


def run_row(name: str, scenario: Scenario, run: Run, **changes: Any) -> Row:
    history, window, clients = run.history, run.window, scenario.clients
    local = sum(each.local for each in history.operations)
    lengths = [final.first + len(final.committed) for final in history.finals]
    capacity_bps = scenario.replicas * scenario.network.bandwidth_bps
    is_open = clients.rate_per_second > 0
    row = {
        "run": name,
        "source": "simulated",
        "scheme": scenario.scheme,
        "layout": None,
        "warehouses": None,
        "load_tps": clients.rate_per_second * scenario.replicas if is_open else None,
        "strong_share": None if clients.strong_kinds else clients.strong_share,
        "exec_scale": scenario.cpu.scale,
        "replicas": scenario.replicas,
        "cores": scenario.cpu.cores,
        "local_reads": bool(scenario.settings.get("local_reads", 1)),
        "faults": "",
        "duration_us": scenario.duration_us,
        "seed": scenario.seed,
        "begin_us": window.begin_us,
        "end_us": window.end_us,
        "executions": sum(run.cpu.executions),
        "to_execute": sum(lengths) + local,
        "busy_us": window.busy_us,
        "core_us": scenario.replicas * scenario.cpu.cores * window.length_us,
        "bytes": sum(window.bytes.values()),
        "capacity_bytes": capacity_bps * window.length_us // 8_000_000,
        "messages": sum(window.messages.values()),
        "trace_hash": run.trace_hash,
        "unsettled": run.unsettled,
        "violated": "",
        "command": f"creek simulate --seed {scenario.seed}",
    }
    return {**row, **changes}


def operation_rows(
    name: str, history: History, speculated: Mapping[Dot, Speculation] | None = None
) -> list[Row]:
    places = {id: index for order in reversed(_orders(history)) for index, id in order}
    # A request that a crash lost may share its identifier with a later one: the later one counts.
    last = {each.id: each.incarnation for each in history.operations}
    return [
        _operation(
            name,
            each,
            (speculated or {}).get(each.id),
            places.get(each.id) if each.incarnation == last[each.id] else None,
        )
        for each in history.operations
    ]


def order_rows(name: str, history: History) -> list[Row]:
    return [
        {"run": name, "replica": replica, "index": index, "origin": id.replica, "event": id.event}
        for replica, order in enumerate(_orders(history))
        for index, id in sorted(set(order))
    ]


def _orders(history: History) -> list[list[tuple[int, Dot]]]:
    """By replica: what its logs and its final state tell."""
    orders: dict[int, list[tuple[int, Dot]]] = {member: [] for member in history.members}
    for log in history.logs:
        for logged in log.known_events:
            if isinstance(logged.event, Committed):
                orders[log.replica].append((logged.event.index, logged.event.id))
    for final in history.finals:
        orders[final.replica] += enumerate(final.committed, final.first)
    return [orders[member] for member in sorted(orders)]


def table(spark: SparkSession, rows: list[Row], schema: pa.Schema) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema), spark_schema(schema))


def runs_table(spark: SparkSession, *rows: Row) -> DataFrame:
    return table(spark, list(rows), RUNS)


def operations_table(spark: SparkSession, *rows: Row) -> DataFrame:
    return table(spark, list(rows), OPERATIONS)


def orders_table(spark: SparkSession, *rows: Row) -> DataFrame:
    return table(spark, list(rows), ORDERS)


def _operation(
    name: str, record: OperationRecord, speculation: Speculation | None, place: int | None
) -> Row:
    answers = record.answers
    kept = [getattr(record, kind) for kind in ("tentative", "stable", "final")]
    first, last = None, record.final or record.stable
    if record.final is not None:
        first = answers[0].outcome
    elif speculation is not None and record.stable is not None:
        first = speculation.outcome
    accurate = exact = None
    if first is not None and last is not None:
        kind, same_error = record.operation.name, first.error == last.outcome.error
        values = (first.value, last.outcome.value)
        exact = same_error and same(*values)
        accurate = same_error and same(*(without_numbers(kind, value) for value in values))
    tentative_us, stable_us, final_us = (each.at_us if each else None for each in kept)
    return {
        "run": name,
        "replica": record.replica,
        "incarnation": record.incarnation,
        "event": record.id.event,
        "session": record.session,
        "kind": record.operation.name,
        "strong": record.strong,
        "invoked_us": record.invoked_us,
        "tentative_us": tentative_us,
        "stable_us": stable_us,
        "final_us": final_us,
        "speculated_us": speculation.at_us if speculation else None,
        "failed": answers[-1].outcome.error is not None if answers else None,
        "accurate": accurate,
        "exact": exact,
        "commit_index": place,
    }
