"""Tables of a run, compared with its history and its measures."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from creekdb.evaluation import Experiment, build_simulation, measure
from creekdb.history import Dot
from creekdb.pipeline.schemas import COUNTER_COLUMNS, RUN_SCHEMAS
from creekdb.pipeline.stages import run_tables
from creekdb.simulation.kernel.cluster import SimulationRun
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from creekdb.wire.json_values import from_json
from tests.unit.checkers.history_builder import typical_run

DEFAULT = Experiment(load_tps=800, duration_us=100_000, warehouses=1)


def simulate(scenario: Scenario) -> tuple[Scenario, SimulationRun]:
    return scenario, build_simulation(scenario).run()


def share(rows: list[dict[str, Any]], column: str) -> float:
    values: list[bool] = [row[column] for row in rows if row[column] is not None]
    return sum(values) / len(values)


@pytest.mark.parametrize("scheme", ["creek", "archie", "smr", "bayou"])
def test_tables_yield_the_measures(scheme: str) -> None:
    scenario, run = simulate(replace(DEFAULT, scheme=scheme).to_scenario())
    measured = measure(scenario, run, [])
    tables = run_tables.tables_of_simulation("one", scenario, run)
    (row,) = tables.runs.to_pylist()
    assert row["trace_hash"] == run.trace_hash
    assert (row["load_tps"], row["strong_share"], row["layout"]) == (800.0, None, "rows")
    assert row["executions"] / row["to_execute"] == measured.execution_ratio
    assert row["busy_us"] / row["core_us"] == measured.cpu_utilisation
    assert row["bytes"] / row["capacity_bytes"] == pytest.approx(measured.network_utilisation)
    operations = tables.operations.to_pylist()
    invoked = [each for each in operations if each["invoked_us"] >= row["begin_us"]]
    weak = [each for each in invoked if not each["strong"]]
    assert (len(weak), len(invoked) - len(weak)) == (measured.weak, measured.strong)
    if measured.accuracy is not None:
        assert share(weak, "accurate") == measured.accuracy
        assert share(weak, "exact") == measured.exact_accuracy
    if (speculated := measured.weak_speculated_ms) is not None:
        assert sum(each["speculated_us"] is not None for each in weak) == speculated.answers


def test_tables_of_an_idle_run_conform_to_their_schemas() -> None:
    scenario, run = simulate(Scenario(clients=ClientModel(sessions=0), duration_us=1000))
    for tables in (
        run_tables.tables_of_simulation("one", scenario, run),
        run_tables.tables_of_history("one", run.history),
    ):
        assert [table.schema for table in tables] == list(RUN_SCHEMAS.values())
        assert (tables.runs.num_rows, tables.operations.num_rows) == (1, 0)


def test_orders_are_complete_without_recorded_events() -> None:
    scenario, run = simulate(DEFAULT.to_scenario())
    assert not any(log.events for log in run.history.logs)
    tables = run_tables.tables_of_simulation("one", scenario, run)
    orders: dict[int, list[tuple[int, Dot]]] = {}
    for row in tables.orders.to_pylist():
        order = orders.setdefault(row["replica"], [])
        order.append((row["index"], Dot(row["origin"], row["event"])))
    for final in run.history.final_states:
        positions = orders[final.replica]
        assert [index for index, _ in positions] == list(range(final.first + len(final.committed)))
        assert tuple(id for _, id in positions[final.first :]) == final.committed
    by_id = {id: index for index, id in orders[0]}
    for row in tables.operations.to_pylist():
        assert row["commit_index"] == by_id[Dot(row["replica"], row["event"])]


def test_a_stored_history_yields_equal_orders_and_operations() -> None:
    scenario, run = simulate(replace(DEFAULT, scheme="archie").to_scenario(record_all=True))
    simulated, derived = (
        run_tables.tables_of_simulation("one", scenario, run),
        run_tables.tables_of_history("one", run.history),
    )
    assert derived.operations.equals(simulated.operations)
    assert derived.orders.equals(simulated.orders)
    (row,) = derived.runs.to_pylist()
    assert [row[name] for name in COUNTER_COLUMNS] == [None] * len(COUNTER_COLUMNS)
    (expected,) = simulated.runs.to_pylist()
    excluded = {*COUNTER_COLUMNS, "trace_hash"}
    assert {k: v for k, v in row.items() if k not in excluded} == {
        k: v for k, v in expected.items() if k not in excluded
    }


def test_a_commit_repeated_after_a_restart_has_one_row() -> None:
    faults = ("crash 1 at 30ms", "restart 1 at 50ms")
    scenario, run = simulate(replace(DEFAULT, faults=faults).to_scenario())
    tables = run_tables.tables_of_simulation("one", scenario, run)
    rows = [(row["replica"], row["index"]) for row in tables.orders.to_pylist()]
    assert len(rows) == len(set(rows))
    assert {row["incarnation"] for row in tables.operations.to_pylist()} == {0, 1}
    (row,) = tables.runs.to_pylist()
    assert row["faults"] == "; ".join(faults)


def test_a_history_without_a_scenario_is_a_live_run() -> None:
    history = replace(typical_run().history(), config={"scheme": "creek", "cores": 4, "seed": 7})
    (row,) = run_tables.tables_of_history("one", history).runs.to_pylist()
    assert row["source"] == "live"
    assert (row["scheme"], row["cores"], row["seed"]) == ("creek", 4, 7)
    assert row["replicas"] == len(history.members)
    assert row["load_tps"] is None


def test_samples_grow_and_end_with_the_totals() -> None:
    scenario, run = simulate(DEFAULT.to_scenario())
    tables = run_tables.tables_of_simulation("one", scenario, run)
    for replica in range(scenario.replicas):
        rows = [row for row in tables.samples.to_pylist() if row["replica"] == replica]
        assert len(rows) == scenario.samples + 1
        for column in ("at_us", "committed", "executions", "busy_us", "bytes"):
            values = [row[column] for row in rows]
            assert values == sorted(values)
        assert rows[-1]["executions"] == run.cpu.executions[replica]
        assert rows[-1]["tentative"] == 0
    last = tables.samples.to_pylist()[-scenario.replicas :]
    assert sum(row["bytes"] for row in last) == sum(run.network.bytes.values())


@pytest.mark.parametrize("samples", [0, 7])
def test_sampling_does_not_change_a_run(samples: int) -> None:
    scenario, run = simulate(DEFAULT.to_scenario())
    _, other = simulate(replace(scenario, samples=samples))
    assert other.trace_hash == run.trace_hash
    assert len(other.samples) == (samples + 1 if samples else 0) * scenario.replicas


def test_equal_final_states_share_one_object() -> None:
    _, run = simulate(DEFAULT.to_scenario())
    first, *others = run.history.final_states
    assert all(final.state is first.state for final in others)


def test_operations_carry_their_arguments_and_responses() -> None:
    scenario, run = simulate(DEFAULT.to_scenario())
    rows = run_tables.tables_of_simulation("one", scenario, run).operations.to_pylist()
    assert len(rows) == len(run.history.operations) > 0
    for row, each in zip(rows, run.history.operations, strict=True):
        assert from_json(json.loads(row["arguments"])) == each.operation.arguments
        for name, response in (("first_response", 0), ("last_response", -1)):
            outcome = each.responses[response].outcome
            expected = {"$error": outcome.error} if outcome.error else outcome.value
            assert from_json(json.loads(row[name])) == expected
    assert any("$error" in row["last_response"] for row in rows) == any(
        each.responses[-1].outcome.error for each in run.history.operations
    )


def test_final_states_have_equal_digests_exactly_if_they_are_equal() -> None:
    _, run = simulate(DEFAULT.to_scenario())
    first, second, *_ = run.history.final_states
    reordered = replace(second, state=second.state[::-1], committed=second.committed)
    key, value = first.state[0]
    changed = replace(second, state=((key, (value, 1)), *second.state[1:]))
    shortened = replace(second, committed=second.committed[:-1])
    finals = (first, reordered, changed, shortened)
    history = replace(run.history, final_states=finals)
    rows = run_tables.tables_of_history("one", history).final_states.to_pylist()
    states = [row["state_digest"] for row in rows]
    assert [each == states[0] for each in states] == [True, True, False, True]
    orders = [row["order_digest"] for row in rows]
    assert [each == orders[0] for each in orders] == [True, True, True, False]
    assert rows[0]["committed"] == rows[3]["committed"] + 1 == len(first.committed)


def test_verdicts_of_a_run_become_rows() -> None:
    scenario, run = simulate(DEFAULT.to_scenario())
    verdict = {"checker": "replay", "verdict": "ok", "detail": "", "command": "creek check one"}
    tables = run_tables.tables_of_simulation("one", scenario, run, verdicts=[verdict])
    assert tables.run_verdicts.to_pylist() == [{"run": "one", **verdict}]
