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
    LIVE,
    Committed,
    Dot,
    History,
    LoggedEvent,
    OperationRecord,
    Speculated,
    load,
)
from creekdb.pipeline.schemas import COUNTED, OPERATIONS, ORDERS, RUNS, SAMPLES
from creekdb.simulation.faults.language import fault_text
from creekdb.simulation.kernel.cluster import Run
from creekdb.simulation.kernel.scenario import Scenario, scenario_from_config
from creekdb.simulation.observation.recorder import Speculation
from creekdb.simulation.observation.samples import ReplicaSample
from creekdb.wire.deduplication import called

Order: TypeAlias = Sequence[tuple[int, Dot]]
"""What a replica committed, and at which place."""

FILES: Final = {
    "runs": "run.parquet",
    "operations": "operations/part-0.parquet",
    "orders": "replicas/orders.parquet",
    "samples": "replicas/samples.parquet",
}
SCHEMAS: Final = {"runs": RUNS, "operations": OPERATIONS, "orders": ORDERS, "samples": SAMPLES}

_MODELS: Final = {"clients", "cpu", "network"}
"""What the configuration of a simulation has, and that of a live cluster has not."""

SIMULATED: Final = "simulated"


class Tables(NamedTuple):
    runs: pa.Table
    operations: pa.Table
    orders: pa.Table
    samples: pa.Table


def of_run(
    name: str, scenario: Scenario, run: Run, violated: Iterable[str] = (), command: str = ""
) -> Tables:
    """Of a simulation that just ended. `violated`: TPC-C's conditions that do not hold."""
    window, finals = run.window, run.history.finals
    seconds = window.length_us / 1_000_000
    row = {
        "run": name,
        **_described(scenario),
        "begin_us": window.begin_us,
        "end_us": window.end_us,
        "executions": sum(run.cpu.executions),
        "to_execute": sum(final.first + len(final.committed) for final in finals)
        + sum(each.local for each in run.history.operations),
        "busy_us": window.busy_us,
        "core_us": scenario.replicas * scenario.cpu.cores * window.length_us,
        "bytes": sum(window.bytes.values()),
        "capacity_bytes": round(scenario.replicas * scenario.network.bandwidth_bps / 8 * seconds),
        "messages": sum(window.messages.values()),
        "trace_hash": run.trace_hash,
        "unsettled": run.unsettled,
        "violated": "\n".join(violated),
        "command": command,
    }
    return _tables(row, run.history, run.speculated, run.orders, run.samples)


def of_history(name: str, history: History) -> Tables:
    """Of a run that was kept, simulated or live."""
    row = {
        "run": name,
        **dict.fromkeys(COUNTED),
        **_of_config(history),
        "trace_hash": "",
        "unsettled": None if history.quiescent else "it was not at rest when it ended",
        "violated": "",
        "command": history.config.get("command", ""),
    }
    return _tables(row, history, _speculated(history), _orders(history), _samples(history))


def write(tables: Tables, folder: Path) -> None:
    """Into a run folder, which has none yet; that of RUNS last, so that it vouches for the rest."""
    for name in reversed(Tables._fields):
        file = folder / FILES[name]
        file.parent.mkdir(exist_ok=True)
        aside = file.with_name(f".{file.name}.partial")
        pq.write_table(getattr(tables, name), aside, compression="zstd")
        aside.replace(file)


def add(folder: Path) -> None:
    """To a run folder that somebody else wrote, from its history."""
    write(of_history(folder.resolve().name, load(folder)), folder)


# --- the rows ---------------------------------------------------------------------------------


def _tables(
    row: Mapping[str, Any],
    history: History,
    speculated: Mapping[Dot, Speculation],
    orders: Sequence[Order],
    samples: Sequence[ReplicaSample],
) -> Tables:
    name = row["run"]
    return Tables(
        runs=pa.Table.from_pylist([dict(row)], schema=RUNS),
        operations=_operation_table(name, history, speculated, orders),
        orders=_order_table(name, orders),
        samples=_columns(
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
    orders: Sequence[Order],
) -> pa.Table:
    places = {id: index for order in reversed(orders) for index, id in order}
    # A request that a crash lost may share its identifier with a later one: the later one counts.
    last = {each.id: each.incarnation for each in history.operations}
    layout, _ = measures.tpcc_of(history.datatype)
    compared = tpcc.without_numbers if layout else measures.whole

    def row(each: OperationRecord) -> tuple[Any, ...]:
        early, lost = speculated.get(each.id), each.incarnation != last[each.id]
        return (
            name,
            each.replica,
            each.incarnation,
            each.id.event,
            each.session,
            called(each.operation).name,
            each.strong,
            each.invoked_us,
            each.tentative.at_us if each.tentative else None,
            each.stable.at_us if each.stable else None,
            each.final.at_us if each.final else None,
            early.at_us if early and not lost else None,
            each.answers[-1].outcome.error is not None if each.answers else None,
            measures.right(each, speculated, compared),
            measures.right(each, speculated, measures.whole),
            None if lost else places.get(each.id),
        )

    return _columns(OPERATIONS, [row(each) for each in history.operations])


def _order_table(name: str, orders: Sequence[Order]) -> pa.Table:
    """A place that a replica named twice, after a restart for instance, is there once, unless it
    gave it to two requests."""
    return _columns(
        ORDERS,
        [
            (name, replica, index, id.replica, id.event)
            for replica, order in enumerate(orders)
            for index, id in sorted(set(order))
        ],
    )


def _columns(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(values, type) for values, type in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


# --- what a scenario or a history tells ---------------------------------------------------------


def _described(scenario: Scenario) -> dict[str, Any]:
    layout, warehouses = measures.tpcc_of(scenario.datatype)
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
        "faults": "; ".join(map(fault_text, scenario.faults)),
        "duration_us": scenario.duration_us,
        "seed": scenario.seed,
    }


def _of_config(history: History) -> dict[str, Any]:
    """Who wrote it says what it was: a scenario, or the columns that it knows, by name."""
    if not history.config.keys() >= _MODELS:
        return _live(history)
    scenario = scenario_from_config(history.config)
    begin_us, end_us = scenario.warm_up_us, scenario.duration_us
    return {**_described(scenario), "begin_us": begin_us, "end_us": end_us}


def _live(history: History) -> dict[str, Any]:
    layout, warehouses = measures.tpcc_of(history.datatype)
    last_us = max((each.invoked_us for each in history.operations), default=0)
    known: dict[str, Any] = {
        "source": LIVE,
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
    return {**known, **_counted(history, known)}


def _counted(history: History, known: Mapping[str, Any]) -> dict[str, int]:
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
        "to_execute": sum(each.first + len(each.committed) for each in history.finals)
        + sum(each.local for each in history.operations),
        "busy_us": busy_us,
        "core_us": known["cores"] * (end_us - begin_us),
        "bytes": sent_bytes,
        "messages": messages,
    }


def _samples(history: History) -> list[ReplicaSample]:
    """Of a live run; a scenario says only how many there were to be."""
    if history.config.get("source") != LIVE:
        return []
    names = ReplicaSample.__struct_fields__
    rows: Sequence[Mapping[str, int]] = history.config.get("samples", ())
    return [ReplicaSample(**{name: each[name] for name in names}) for each in rows]


def _speculated(history: History) -> dict[Dot, Speculation]:
    found: dict[Dot, Speculation] = {}
    for log in history.logs:
        for each in log.events:
            event = each.event
            if isinstance(event, Speculated) and event.id.replica == log.replica:
                found.setdefault(event.id, Speculation(each.at_us, event.outcome))
    return found


def _orders(history: History) -> list[list[tuple[int, Dot]]]:
    """What the logs tell, and the finals; of a measured run the logs are empty. What was done in
    vain fills holes only: it may have come back inside a checkpoint. By the numbers of replicas,
    also of those that joined later."""
    numbers = {log.replica for log in history.logs} | {each.replica for each in history.finals}
    orders: list[list[tuple[int, Dot]]] = [[] for _ in range(max({*history.members, *numbers}) + 1)]
    for log in history.logs:
        orders[log.replica] += _commits(log.known_events)
    for final in history.finals:
        orders[final.replica] += enumerate(final.committed, final.first)
    known = {index for order in orders for index, _ in order}
    for log in history.logs:
        orders[log.replica] += [each for each in _commits(log.vain_events) if each[0] not in known]
    return orders


def _commits(events: Iterable[LoggedEvent]) -> list[tuple[int, Dot]]:
    found = (each.event for each in events)
    return [(event.index, event.id) for event in found if isinstance(event, Committed)]
