"""TPC-C consistency conditions on the final states of replicas."""

from msgspec.structs import replace

from creekdb.evaluation.experiment import build_simulation
from creekdb.evaluation.measures import violated_conditions
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.kernel.scenario import ClientModel, Scenario

SCENARIO = Scenario(
    scheme="creek",
    datatype="tpcc-rows-1-0",
    replicas=3,
    duration_us=50_000,
    clients=ClientModel(sessions=0, rate_per_second=500, strong_kinds=("payment",)),
)


def test_a_lost_write_is_detected_on_the_replica_that_lost_it() -> None:
    datatype = load_datatype(SCENARIO.datatype)
    history = build_simulation(SCENARIO).run().history
    assert violated_conditions(history, datatype) == []

    lost = [(key, value) for key, value in history.final_states[1].state if key != ("warehouse", 1)]
    finals = list(history.final_states)
    finals[1] = replace(finals[1], state=tuple(lost))
    violations = violated_conditions(replace(history, final_states=tuple(finals)), datatype)

    assert violations
    assert all(each.startswith("replica 1: condition 3.3.2.") for each in violations)


def test_deleted_registers_count_as_deleted() -> None:
    datatype = load_datatype(SCENARIO.datatype)
    history = build_simulation(SCENARIO).run().history

    assert any(value is None for _, value in history.final_states[0].state)
    assert violated_conditions(history, datatype) == []
