"""Tables with the rows of one run, by `schemas`.

    runs           one row
    operations     in the order of invocation
    orders         by replica and position
    samples        by time and replica
    final_states   by replica
    run_verdicts   by checker

`tables_of_simulation` uses everything that a simulation yields. `tables_of_history` derives the
tables from a history alone, for instance of a live run; columns that only counters of the simulator
provide are then null.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
from msgspec.structs import astuple

from creekdb import tpcc
from creekdb.evaluation import measures
from creekdb.history import (
    LIVE_SOURCE,
    Committed,
    Dot,
    History,
    LoggedEvent,
    OperationRecord,
    Outcome,
    SpeculativelyExecuted,
)
from creekdb.pipeline.schemas import (
    COUNTER_COLUMNS,
    FINAL_STATES,
    OPERATIONS,
    ORDERS,
    RUNS,
    SAMPLES,
    VERDICTS,
)
from creekdb.protocol.extensions import enabled_extensions, join_extensions
from creekdb.simulation.faults.language import format_fault
from creekdb.simulation.kernel.cluster import SimulationRun
from creekdb.simulation.kernel.scenario import Scenario, scenario_from_config
from creekdb.simulation.observation.recorder import Speculation
from creekdb.simulation.observation.samples import ReplicaSample
from creekdb.wire.deduplication import unwrap_call
from creekdb.wire.json_values import to_json

CommitOrder: TypeAlias = Sequence[tuple[int, Dot]]
"""Positions and requests that a replica committed."""
VerdictRow: TypeAlias = Mapping[str, str]
"""Row of VERDICTS without the name of the run."""

_SIMULATION_KEYS: Final = {"clients", "cpu", "network"}
"""Keys in the configuration of a simulation that a live cluster does not have."""

SIMULATED: Final = "simulated"


class RunArrowTables(NamedTuple):
    runs: pa.Table
    operations: pa.Table
    orders: pa.Table
    samples: pa.Table
    final_states: pa.Table
    run_verdicts: pa.Table


def tables_of_simulation(
    name: str,
    scenario: Scenario,
    run: SimulationRun,
    violated: Iterable[str] = (),
    verdicts: Iterable[VerdictRow] = (),
    command: str = "",
) -> RunArrowTables:
    """Return the tables of a completed simulation.

    `violated` lists violated TPC-C conditions, `verdicts` those of the history checkers.
    """
    window = run.window
    seconds = window.duration_us / 1_000_000
    row = {
        "run": name,
        **_scenario_columns(scenario),
        "begin_us": window.begin_us,
        "end_us": window.end_us,
        "executions": sum(run.cpu.executions),
        "to_execute": _executions_min(run.history),
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
    observed = _Observations(run.speculations, run.commit_orders, run.samples)
    return _build_tables(row, run.history, observed, verdicts)


def tables_of_history(
    name: str, history: History, verdicts: Iterable[VerdictRow] = ()
) -> RunArrowTables:
    """Return the tables of a stored run, simulated or live."""
    row = {
        "run": name,
        **dict.fromkeys(COUNTER_COLUMNS),
        **_config_columns(history),
        "trace_hash": "",
        "unsettled": None if history.quiescent else "not quiescent at the end",
        "violated": "",
        "command": history.config.get("command", ""),
    }
    observed = _Observations(
        _speculations(history), _commit_orders(history), _live_samples(history)
    )
    return _build_tables(row, history, observed, verdicts)


def concatenate(runs: Sequence[RunArrowTables]) -> RunArrowTables:
    """Return the rows of several runs as one set of tables."""
    return RunArrowTables(*map(pa.concat_tables, zip(*runs, strict=True)))


# --- rows -------------------------------------------------------------------------------------


class _Observations(NamedTuple):
    """Observations of a run, from a simulation or a history."""

    speculations: Mapping[Dot, Speculation]
    orders: Sequence[CommitOrder]
    samples: Sequence[ReplicaSample]


def _build_tables(
    row: Mapping[str, Any],
    history: History,
    observed: _Observations,
    verdicts: Iterable[VerdictRow],
) -> RunArrowTables:
    name = row["run"]
    return RunArrowTables(
        runs=pa.Table.from_pylist([dict(row)], schema=RUNS),
        operations=_operation_table(name, history, observed),
        orders=_order_table(name, observed.orders),
        samples=_arrow_table(SAMPLES, [(name, *astuple(each)) for each in observed.samples]),
        final_states=_final_state_table(name, history),
        run_verdicts=pa.Table.from_pylist([{"run": name, **each} for each in verdicts], VERDICTS),
    )


def _operation_table(name: str, history: History, observed: _Observations) -> pa.Table:
    speculations = observed.speculations
    positions = {id: index for order in reversed(observed.orders) for index, id in order}
    # After a crash, a later request may reuse the identifier of a lost one. The later one counts.
    last_incarnation = {each.id: each.incarnation for each in history.operations}
    layout, _ = measures.parse_tpcc_name(history.datatype)
    comparable = tpcc.without_order_numbers if layout else measures.full_response

    def row(each: OperationRecord) -> tuple[Any, ...]:
        speculation = speculations.get(each.id)
        is_lost = each.incarnation != last_incarnation[each.id]
        operation = unwrap_call(each.operation)
        return (
            name,
            each.replica,
            each.incarnation,
            each.id.event,
            each.session,
            operation.name,
            each.strong,
            json_text(operation.arguments),
            each.invoked_us,
            each.tentative.at_us if each.tentative else None,
            each.stable.at_us if each.stable else None,
            each.final.at_us if each.final else None,
            speculation.at_us if speculation and not is_lost else None,
            _response_text(each.responses[0].outcome) if each.responses else None,
            _response_text(each.responses[-1].outcome) if each.responses else None,
            each.responses[-1].outcome.error is not None if each.responses else None,
            measures.is_accurate(each, speculations, comparable),
            measures.is_accurate(each, speculations, measures.full_response),
            None if is_lost else positions.get(each.id),
        )

    return _arrow_table(OPERATIONS, [row(each) for each in history.operations])


def json_text(value: Any) -> str:
    """Return a stored value as JSON, encoded as over HTTP."""
    return json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"))


def _response_text(outcome: Outcome) -> str:
    return json_text({"$error": outcome.error} if outcome.error is not None else outcome.value)


def _final_state_table(name: str, history: History) -> pa.Table:
    digests: dict[int, str] = {}
    """Digests of states by identity: replicas with equal states share one object."""
    for final in history.final_states:
        if id(final.state) not in digests:
            digests[id(final.state)] = _digest(sorted(map(_encode, final.state)))
    return _arrow_table(
        FINAL_STATES,
        [
            (
                name,
                final.replica,
                final.first,
                len(final.committed),
                len(final.tentative),
                _digest(final.committed),
                digests[id(final.state)],
            )
            for final in history.final_states
        ],
    )


_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def _digest(value: Any) -> str:
    return blake2b(_encode(value), digest_size=16).hexdigest()


def _order_table(name: str, orders: Sequence[CommitOrder]) -> pa.Table:
    """Return ORDERS. A position that a replica recorded twice, as after a restart, has one row,
    unless the requests differ."""
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


# --- columns from a scenario or a history --------------------------------------------------------


def _scenario_columns(scenario: Scenario) -> dict[str, Any]:
    layout, warehouses = measures.parse_tpcc_name(scenario.datatype)
    clients, settings = scenario.clients, scenario.protocol_settings()
    every_payment = not clients.strong_share and set(clients.strong_kinds) == tpcc.STRONG_KINDS
    # The load was divided by the number of replicas, so the product may have a rounding error.
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
        "local_reads": bool(settings.local_reads),
        "decided_only": bool(settings.decided_only),
        "extensions": join_extensions(enabled_extensions(scenario.scheme, settings)),
        "regions": scenario.network.region_count,
        "clock_skew_us": scenario.clock.skew_us_max,
        "faults": "; ".join(map(format_fault, scenario.faults)),
        "duration_us": scenario.duration_us,
        "seed": scenario.seed,
    }


def _config_columns(history: History) -> dict[str, Any]:
    """Return the columns of RUNS from the configuration: that of a scenario, or of a live run."""
    if not history.config.keys() >= _SIMULATION_KEYS:
        return _live_columns(history)
    scenario = scenario_from_config(history.config)
    begin_us, end_us = scenario.warm_up_us, scenario.duration_us
    return {**_scenario_columns(scenario), "begin_us": begin_us, "end_us": end_us}


def _live_columns(history: History) -> dict[str, Any]:
    layout, warehouses = measures.parse_tpcc_name(history.datatype)
    last_us = max((each.invoked_us for each in history.operations), default=0)
    defaults: dict[str, Any] = {
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
        "decided_only": False,
        "extensions": "",
        "regions": 1,
        "clock_skew_us": 0,
        "faults": "",
        "duration_us": last_us,
        "seed": 0,
        "begin_us": 0,
        "end_us": last_us,
    }
    columns = {name: history.config.get(name, default) for name, default in defaults.items()}
    return {**columns, **_counter_columns(history, columns)}


def _counter_columns(history: History, columns: Mapping[str, Any]) -> dict[str, int]:
    """Return the counters that live replicas recorded, or nothing without samples.

    The capacity of a live network is unknown.
    """
    begin_us, end_us = columns["begin_us"], columns["end_us"]
    samples: Sequence[Mapping[str, int]] = history.config.get("samples", ())
    if not samples:
        return {}
    counters: Counter[str] = Counter()
    for replica in sorted({each["replica"] for each in samples}):
        own = [each for each in samples if each["replica"] == replica]
        counters["executions"] += own[-1]["executions"]
        first = next((each for each in reversed(own) if each["at_us"] <= begin_us), own[0])
        last = next((each for each in own if each["at_us"] >= end_us), own[-1])
        for name in ("busy_us", "bytes", "messages"):
            counters[name] += last[name] - first[name]
    core_us = columns["cores"] * (end_us - begin_us)
    return {**counters, "to_execute": _executions_min(history), "core_us": core_us}


def _executions_min(history: History) -> int:
    """Return the number of executions at all replicas, without re-executions."""
    committed = sum(each.first + len(each.committed) for each in history.final_states)
    return committed + sum(each.is_local for each in history.operations)


def _live_samples(history: History) -> list[ReplicaSample]:
    """Return the samples of a live run. The configuration of a scenario holds only their number."""
    if history.config.get("source") != LIVE_SOURCE:
        return []
    names = ReplicaSample.__struct_fields__
    rows: Sequence[Mapping[str, int]] = history.config.get("samples", ())
    return [ReplicaSample(**{name: each[name] for name in names}) for each in rows]


def _speculations(history: History) -> dict[Dot, Speculation]:
    speculations: dict[Dot, Speculation] = {}
    for log in history.logs:
        for each in log.events:
            event = each.event
            if isinstance(event, SpeculativelyExecuted) and event.id.replica == log.replica:
                speculations.setdefault(event.id, Speculation(each.at_us, event.outcome))
    return speculations


def _commit_orders(history: History) -> list[list[tuple[int, Dot]]]:
    """Return the committed orders by replica number, including replicas that joined later.

    Sources are the logs, which are empty in measured runs, and the final states. Lost events only
    fill gaps, since a checkpoint may have preserved them.
    """
    numbers = {*history.members, *(log.replica for log in history.logs)}
    numbers |= {each.replica for each in history.final_states}
    orders: list[list[tuple[int, Dot]]] = [[] for _ in range(max(numbers) + 1)]
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
    records = (each.event for each in events)
    return [(record.index, record.id) for record in records if isinstance(record, Committed)]
