"""The tables of one run, as `schemas` declares them, and where they stand in its run folder.

    run.parquet                  RUNS, one row
    operations/part-0.parquet    OPERATIONS, in the order in which they were asked for
    replicas/orders.parquet      ORDERS, by replica and place
    replicas/samples.parquet     SAMPLES, by time and replica

They hold what measuring and relational checks need; the history beside them, which is not ours
(`creekdb.history.run_directory`), holds all that was seen. A simulation that just ended gives both.
A history alone, of a live run for instance, gives them too (`of_history`), but for what only the
counters of a simulator know: there it has nulls.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from creekdb import tpcc
from creekdb.evaluation import measures
from creekdb.history import (
    LIVE_SOURCE,
    Committed,
    Dot,
    History,
    LoggedEvent,
    OperationRecord,
    SpeculativelyExecuted,
    load_run,
)
from creekdb.pipeline.schemas import COUNTER_COLUMNS, OPERATIONS, ORDERS, RUNS, SAMPLES
from creekdb.simulation.faults.language import format_fault
from creekdb.simulation.kernel.cluster import SimulationRun
from creekdb.simulation.kernel.scenario import Scenario, scenario_from_config
from creekdb.simulation.observation.recorder import Speculation
from creekdb.simulation.observation.samples import ReplicaSample
from creekdb.wire.deduplication import unwrap_call

CommitOrder: TypeAlias = Sequence[tuple[int, Dot]]
"""What a replica committed, and at which place."""

TABLE_FILES: Final = {
    "runs": "run.parquet",
    "operations": "operations/part-0.parquet",
    "orders": "replicas/orders.parquet",
    "samples": "replicas/samples.parquet",
}
RUN_TABLE_SCHEMAS: Final = {
    "runs": RUNS,
    "operations": OPERATIONS,
    "orders": ORDERS,
    "samples": SAMPLES,
}

_SIMULATION_KEYS: Final = {"clients", "cpu", "network"}
"""What the configuration of a simulation has, and that of a live cluster has not."""

SIMULATED: Final = "simulated"


class RunArrowTables(NamedTuple):
    runs: pa.Table
    operations: pa.Table
    orders: pa.Table
    samples: pa.Table


def tables_of_simulation(
    name: str,
    scenario: Scenario,
    run: SimulationRun,
    violated: Iterable[str] = (),
    command: str = "",
) -> RunArrowTables:
    """Of a simulation that just ended. `violated`: TPC-C's conditions that do not hold."""
    window, finals = run.window, run.history.final_states
    seconds = window.duration_us / 1_000_000
    row = {
        "run": name,
        **_scenario_columns(scenario),
        "begin_us": window.begin_us,
        "end_us": window.end_us,
        "executions": sum(run.cpu.executions),
        "to_execute": sum(final.first + len(final.committed) for final in finals)
        + sum(each.is_local for each in run.history.operations),
        "busy_us": window.busy_us,
        "core_us": scenario.replicas * scenario.cpu.cores * window.duration_us,
        "bytes": sum(window.bytes.values()),
        "capacity_bytes": round(scenario.replicas * scenario.network.bandwidth_bps / 8 * seconds),
        "messages": sum(window.messages.values()),
        "trace_hash": run.trace_hash,
        "unsettled": run.quiescence_failure,
        "violated": "\n".join(violated),
        "command": command,
    }
    return _build_tables(row, run.history, run.speculations, run.commit_orders, run.samples)


def tables_of_history(name: str, history: History) -> RunArrowTables:
    """Of a run that was kept, simulated or live."""
    row = {
        "run": name,
        **dict.fromkeys(COUNTER_COLUMNS),
        **_config_columns(history),
        "trace_hash": "",
        "unsettled": None if history.quiescent else "it was not at rest when it ended",
        "violated": "",
        "command": history.config.get("command", ""),
    }
    return _build_tables(
        row, history, _speculations(history), _commit_orders(history), _live_samples(history)
    )


def write_run_tables(tables: RunArrowTables, folder: Path) -> None:
    """Into a run folder, which has none yet; that of RUNS last, so that it vouches for the rest."""
    for name in reversed(RunArrowTables._fields):
        file = folder / TABLE_FILES[name]
        file.parent.mkdir(exist_ok=True)
        aside = file.with_name(f".{file.name}.partial")
        pq.write_table(getattr(tables, name), aside, compression="zstd")
        aside.replace(file)


def add_run_tables(folder: Path) -> None:
    """To a run folder that somebody else wrote, from its history."""
    write_run_tables(tables_of_history(folder.resolve().name, load_run(folder)), folder)


# --- the rows ---------------------------------------------------------------------------------


def _build_tables(
    row: Mapping[str, Any],
    history: History,
    speculated: Mapping[Dot, Speculation],
    orders: Sequence[CommitOrder],
    samples: Sequence[ReplicaSample],
) -> RunArrowTables:
    name = row["run"]
    return RunArrowTables(
        runs=pa.Table.from_pylist([dict(row)], schema=RUNS),
        operations=_operation_table(name, history, speculated, orders),
        orders=_order_table(name, orders),
        samples=_arrow_table(
            SAMPLES,
            [
                (
                    name,
                    each.replica,
                    each.at_us,
                    each.committed,
                    each.tentative,
                    each.executions,
                    each.busy_us,
                    each.bytes,
                )
                for each in samples
            ],
        ),
    )


def _operation_table(
    name: str,
    history: History,
    speculated: Mapping[Dot, Speculation],
    orders: Sequence[CommitOrder],
) -> pa.Table:
    places = {id: index for order in reversed(orders) for index, id in order}
    # A request that a crash lost may share its identifier with a later one: the later one counts.
    last = {each.id: each.incarnation for each in history.operations}
    layout, _ = measures.parse_tpcc_name(history.datatype)
    compared = tpcc.without_order_numbers if layout else measures.full_response

    def row(each: OperationRecord) -> tuple[Any, ...]:
        early, lost = speculated.get(each.id), each.incarnation != last[each.id]
        return (
            name,
            each.replica,
            each.incarnation,
            each.id.event,
            each.session,
            unwrap_call(each.operation).name,
            each.strong,
            each.invoked_us,
            each.tentative.at_us if each.tentative else None,
            each.stable.at_us if each.stable else None,
            each.final.at_us if each.final else None,
            early.at_us if early and not lost else None,
            each.answers[-1].outcome.error is not None if each.answers else None,
            measures.is_accurate(each, speculated, compared),
            measures.is_accurate(each, speculated, measures.full_response),
            None if lost else places.get(each.id),
        )

    return _arrow_table(OPERATIONS, [row(each) for each in history.operations])


def _order_table(name: str, orders: Sequence[CommitOrder]) -> pa.Table:
    """A place that a replica named twice, after a restart for instance, is there once, unless it
    gave it to two requests."""
    return _arrow_table(
        ORDERS,
        [
            (name, replica, index, id.replica, id.event)
            for replica, order in enumerate(orders)
            for index, id in sorted(set(order))
        ],
    )


def _arrow_table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(values, type) for values, type in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


# --- what a scenario or a history tells ---------------------------------------------------------


def _scenario_columns(scenario: Scenario) -> dict[str, Any]:
    layout, warehouses = measures.parse_tpcc_name(scenario.datatype)
    clients = scenario.clients
    every_payment = not clients.strong_share and set(clients.strong_kinds) == tpcc.STRONG_KINDS
    # A load was divided among the replicas; summed up, it may be off by a rounding.
    load_tps = round(clients.rate_per_second * scenario.replicas, 6)
    return {
        "source": SIMULATED,
        "scheme": scenario.scheme,
        "layout": layout,
        "warehouses": warehouses,
        "load_tps": load_tps or None,
        "strong_share": None if every_payment else clients.strong_share,
        "exec_scale": scenario.cpu.scale,
        "replicas": scenario.replicas,
        "cores": scenario.cpu.cores,
        "local_reads": bool(scenario.protocol_settings().local_reads),
        "faults": "; ".join(map(format_fault, scenario.faults)),
        "duration_us": scenario.duration_us,
        "seed": scenario.seed,
    }


def _config_columns(history: History) -> dict[str, Any]:
    """Who wrote it says what it was: a scenario, or the columns that it knows, by name."""
    if not history.config.keys() >= _SIMULATION_KEYS:
        return _live_columns(history)
    scenario = scenario_from_config(history.config)
    begin_us, end_us = scenario.warm_up_us, scenario.duration_us
    return {**_scenario_columns(scenario), "begin_us": begin_us, "end_us": end_us}


def _live_columns(history: History) -> dict[str, Any]:
    layout, warehouses = measures.parse_tpcc_name(history.datatype)
    last_us = max((each.invoked_us for each in history.operations), default=0)
    known: dict[str, Any] = {
        "source": LIVE_SOURCE,
        "scheme": "",
        "layout": layout,
        "warehouses": warehouses,
        "load_tps": None,
        "strong_share": None,
        "exec_scale": 1.0,
        "replicas": len(history.members),
        "cores": 0,
        "local_reads": False,
        "faults": "",
        "duration_us": last_us,
        "seed": 0,
        "begin_us": 0,
        "end_us": last_us,
    }
    known = {name: history.config.get(name, usual) for name, usual in known.items()}
    return {**known, **_counter_columns(history, known)}


def _counter_columns(history: History, known: Mapping[str, Any]) -> dict[str, int]:
    """What live replicas counted of themselves, if they recorded that. What the network could
    carry, nobody knows."""
    begin_us, end_us = known["begin_us"], known["end_us"]
    executions = busy_us = sent_bytes = messages = 0
    samples: Sequence[Mapping[str, int]] = history.config.get("samples", ())
    if not samples:
        return {}
    for replica in sorted({each["replica"] for each in samples}):
        mine = [each for each in samples if each["replica"] == replica]
        executions += mine[-1]["executions"]
        first = next((each for each in reversed(mine) if each["at_us"] <= begin_us), mine[0])
        last = next((each for each in mine if each["at_us"] >= end_us), mine[-1])
        busy_us += last["busy_us"] - first["busy_us"]
        sent_bytes += last["bytes"] - first["bytes"]
        messages += last["messages"] - first["messages"]
    return {
        "executions": executions,
        "to_execute": sum(each.first + len(each.committed) for each in history.final_states)
        + sum(each.is_local for each in history.operations),
        "busy_us": busy_us,
        "core_us": known["cores"] * (end_us - begin_us),
        "bytes": sent_bytes,
        "messages": messages,
    }


def _live_samples(history: History) -> list[ReplicaSample]:
    """Of a live run; a scenario says only how many there were to be."""
    if history.config.get("source") != LIVE_SOURCE:
        return []
    names = ReplicaSample.__struct_fields__
    rows: Sequence[Mapping[str, int]] = history.config.get("samples", ())
    return [ReplicaSample(**{name: each[name] for name in names}) for each in rows]


def _speculations(history: History) -> dict[Dot, Speculation]:
    found: dict[Dot, Speculation] = {}
    for log in history.logs:
        for each in log.events:
            event = each.event
            if isinstance(event, SpeculativelyExecuted) and event.id.replica == log.replica:
                found.setdefault(event.id, Speculation(each.at_us, event.outcome))
    return found


def _commit_orders(history: History) -> list[list[tuple[int, Dot]]]:
    """What the logs tell, and the finals; of a measured run the logs are empty. What was done in
    vain fills holes only: it may have come back inside a checkpoint. By the numbers of replicas,
    also of those that joined later."""
    numbers = {log.replica for log in history.logs} | {
        each.replica for each in history.final_states
    }
    orders: list[list[tuple[int, Dot]]] = [[] for _ in range(max({*history.members, *numbers}) + 1)]
    for log in history.logs:
        orders[log.replica] += _commit_positions(log.visible_events)
    for final in history.final_states:
        orders[final.replica] += enumerate(final.committed, final.first)
    known = {index for order in orders for index, _ in order}
    for log in history.logs:
        orders[log.replica] += [
            each for each in _commit_positions(log.lost_events) if each[0] not in known
        ]
    return orders


def _commit_positions(events: Iterable[LoggedEvent]) -> list[tuple[int, Dot]]:
    found = (each.event for each in events)
    return [(event.index, event.id) for event in found if isinstance(event, Committed)]
