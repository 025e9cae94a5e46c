"""Consistency conditions on what replicas end with: a lost write is noticed, and on which."""

from msgspec.structs import replace

from creekdb.evaluation.experiment import datatype_named, simulation_of
from creekdb.evaluation.measures import violated
from creekdb.simulation.kernel.scenario import ClientModel, Scenario

SCENARIO = Scenario(
    scheme="creek",
    datatype="tpcc-rows-1-0",
    replicas=3,
    duration_us=50_000,
    clients=ClientModel(sessions=0, rate_per_second=500, strong_kinds=("payment",)),
)


def test_a_lost_write_is_noticed_on_the_replica_that_lost_it() -> None:
    datatype = datatype_named(SCENARIO.datatype)
    history = simulation_of(SCENARIO).run().history
    assert violated(history, datatype) == []

    lost = [(key, value) for key, value in history.finals[1].state if key != ("warehouse", 1)]
    finals = list(history.finals)
    finals[1] = replace(finals[1], state=tuple(lost))
    found = violated(replace(history, finals=tuple(finals)), datatype)

    assert found
    assert all(each.startswith("replica 1: condition 3.3.2.") for each in found)


def test_what_was_deleted_counts_as_deleted() -> None:
    datatype = datatype_named(SCENARIO.datatype)
    history = simulation_of(SCENARIO).run().history

    assert any(value is None for _, value in history.finals[0].state)
    assert violated(history, datatype) == []
