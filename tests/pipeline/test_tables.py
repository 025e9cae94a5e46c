"""The tables of a run tell what its history tells."""

from typing import Any

import pytest
from msgspec.structs import replace

from creekdb.evaluation import Experiment, build_simulation, measure
from creekdb.history import Dot
from creekdb.pipeline.schemas import COUNTER_COLUMNS, OPERATIONS, ORDERS, RUNS, SAMPLES
from creekdb.pipeline.stages import run_tables
from creekdb.simulation.kernel.cluster import SimulationRun
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from tests.checkers.story import everyday

USUAL = Experiment(load_tps=800, duration_us=100_000, warehouses=1)


def ran(scenario: Scenario) -> tuple[Scenario, SimulationRun]:
    return scenario, build_simulation(scenario).run()


def share(rows: list[dict[str, Any]], column: str) -> float:
    told: list[bool] = [row[column] for row in rows if row[column] is not None]
    return sum(told) / len(told)


@pytest.mark.parametrize("scheme", ["creek", "archie", "smr", "bayou"])
def test_tables_tell_what_is_measured(scheme: str) -> None:
    scenario, run = ran(replace(USUAL, scheme=scheme).to_scenario())
    measured = measure(scenario, run, [])
    made = run_tables.tables_of_simulation("one", scenario, run)
    (row,) = made.runs.to_pylist()
    assert row["trace_hash"] == run.trace_hash
    assert (row["load_tps"], row["strong_share"], row["layout"]) == (800.0, None, "rows")
    assert row["executions"] / row["to_execute"] == measured.execution_ratio
    assert row["busy_us"] / row["core_us"] == measured.cpu_utilisation
    assert row["bytes"] / row["capacity_bytes"] == pytest.approx(measured.network_utilisation)
    asked = [each for each in made.operations.to_pylist() if each["invoked_us"] >= row["begin_us"]]
    weak = [each for each in asked if not each["strong"]]
    assert (len(weak), len(asked) - len(weak)) == (measured.weak, measured.strong)
    if measured.accuracy is not None:
        assert share(weak, "accurate") == measured.accuracy
        assert share(weak, "exact") == measured.exact_accuracy
    if (late := measured.weak_speculated_ms) is not None:
        assert sum(each["speculated_us"] is not None for each in weak) == late.answers


def test_tables_have_the_declared_schemas_also_when_nothing_happened() -> None:
    scenario, run = ran(Scenario(clients=ClientModel(sessions=0), duration_us=1000))
    for made in (
        run_tables.tables_of_simulation("one", scenario, run),
        run_tables.tables_of_history("one", run.history),
    ):
        assert [table.schema for table in made] == [RUNS, OPERATIONS, ORDERS, SAMPLES]
        assert (made.runs.num_rows, made.operations.num_rows) == (1, 0)


def test_every_replica_s_order_is_whole_without_events() -> None:
    scenario, run = ran(USUAL.to_scenario())
    assert not any(log.events for log in run.history.logs)
    made = run_tables.tables_of_simulation("one", scenario, run)
    orders: dict[int, list[tuple[int, Dot]]] = {}
    for row in made.orders.to_pylist():
        order = orders.setdefault(row["replica"], [])
        order.append((row["index"], Dot(row["origin"], row["event"])))
    for final in run.history.final_states:
        places = orders[final.replica]
        assert [index for index, _ in places] == list(range(final.first + len(final.committed)))
        assert tuple(id for _, id in places[final.first :]) == final.committed
    by_id = {id: index for index, id in orders[0]}
    for row in made.operations.to_pylist():
        assert row["commit_index"] == by_id[Dot(row["replica"], row["event"])]


def test_a_kept_history_gives_the_same_orders_and_operations() -> None:
    scenario, run = ran(replace(USUAL, scheme="archie").to_scenario(kept=True))
    made, again = (
        run_tables.tables_of_simulation("one", scenario, run),
        run_tables.tables_of_history("one", run.history),
    )
    assert again.operations.equals(made.operations)
    assert again.orders.equals(made.orders)
    (row,) = again.runs.to_pylist()
    assert [row[name] for name in COUNTER_COLUMNS] == [None] * len(COUNTER_COLUMNS)
    (whole,) = made.runs.to_pylist()
    left_out = {*COUNTER_COLUMNS, "trace_hash"}
    assert {k: v for k, v in row.items() if k not in left_out} == {
        k: v for k, v in whole.items() if k not in left_out
    }


def test_what_is_committed_again_after_a_restart_is_one_row() -> None:
    faults = ("crash 1 at 30ms", "restart 1 at 50ms")
    scenario, run = ran(replace(USUAL, faults=faults).to_scenario())
    made = run_tables.tables_of_simulation("one", scenario, run)
    rows = [(row["replica"], row["index"]) for row in made.orders.to_pylist()]
    assert len(rows) == len(set(rows))
    assert {row["incarnation"] for row in made.operations.to_pylist()} == {0, 1}
    (row,) = made.runs.to_pylist()
    assert row["faults"] == "; ".join(faults)


def test_a_history_that_is_no_simulation_s_is_a_live_run() -> None:
    history = replace(everyday().history(), config={"scheme": "creek", "cores": 4, "seed": 7})
    (row,) = run_tables.tables_of_history("one", history).runs.to_pylist()
    assert row["source"] == "live"
    assert (row["scheme"], row["cores"], row["seed"]) == ("creek", 4, 7)
    assert row["replicas"] == len(history.members)
    assert row["load_tps"] is None


def test_samples_grow_and_end_with_the_totals() -> None:
    scenario, run = ran(USUAL.to_scenario())
    made = run_tables.tables_of_simulation("one", scenario, run)
    for replica in range(scenario.replicas):
        rows = [row for row in made.samples.to_pylist() if row["replica"] == replica]
        assert len(rows) == scenario.samples + 1
        for column in ("at_us", "committed", "executions", "busy_us", "bytes"):
            values = [row[column] for row in rows]
            assert values == sorted(values)
        assert rows[-1]["executions"] == run.cpu.executions[replica]
        assert rows[-1]["tentative"] == 0
    last = made.samples.to_pylist()[-scenario.replicas :]
    assert sum(row["bytes"] for row in last) == sum(run.network.bytes.values())


@pytest.mark.parametrize("samples", [0, 7])
def test_sampling_changes_nothing(samples: int) -> None:
    scenario, run = ran(USUAL.to_scenario())
    _, other = ran(replace(scenario, samples=samples))
    assert other.trace_hash == run.trace_hash
    assert len(other.samples) == (samples + 1 if samples else 0) * scenario.replicas


def test_replicas_that_end_alike_share_their_state() -> None:
    _, run = ran(USUAL.to_scenario())
    first, *others = run.history.final_states
    assert all(final.state is first.state for final in others)
