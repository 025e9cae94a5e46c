"""Sharing executions changes nothing but the time that a simulation takes."""

import pytest

from creekdb.datatypes import DATATYPES, SAMPLERS
from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import RequestEntry, local_position, tentative_position
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.schemes import registry
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from creekdb.simulation.kernel.shared_executions import (
    CACHED_REQUESTS_MAX,
    ExecutionSharingDataType,
)
from creekdb.tpcc import Terminals, populated_datatype, populated_datatype_name
from tests.unit.execution.mvcc.store_fixture import arrived

TROUBLE = parse_faults("partition 0,1|2,3,4 at 20ms; heal at 60ms; crash 2 at 70ms; loss 5% at 0s")


def ran(datatype: DataType, scheme: str = "creek") -> SimulationRun:
    scenario = Scenario(
        scheme=scheme,
        datatype=datatype.name,
        duration_us=120_000,
        clients=ClientModel(sessions=0, rate_per_second=200),
        faults=TROUBLE,
    )
    settings, make = scenario.protocol_settings(), registry.get_scheme(scheme)
    source = None
    sample = SAMPLERS.get(datatype.name)
    if sample is None:
        source = Terminals(datatype, datatype.base.population, 0, 5)  # type: ignore[attr-defined]
    return Simulation(
        scenario, lambda index: make(index, settings, datatype), sample, source=source
    ).run()


@pytest.mark.parametrize("layout", ["rows", "fine"])
@pytest.mark.parametrize("scheme", ["creek", "archie", "basic"])
def test_tpcc_is_the_same_run_with_and_without(layout: str, scheme: str) -> None:
    datatype = populated_datatype(populated_datatype_name(layout, 1, 0))
    shared = ExecutionSharingDataType(datatype)

    assert ran(shared, scheme) == ran(datatype, scheme)
    assert (shared.shared_count > 0) == (scheme != "basic")


@pytest.mark.parametrize("name", DATATYPES)
def test_every_data_type_is_the_same_run_with_and_without(name: str) -> None:
    shared = ExecutionSharingDataType(DATATYPES[name])

    assert ran(shared) == ran(DATATYPES[name])
    assert shared.shared_count > 0 or name == "list"


# --- what is the same, and what is not ------------------------------------------------------------

calls: list[str] = []
probe = DataType("probe")


@probe.operation
def look(tx: Transaction, *keys: str) -> list[object]:
    calls.append("look")
    return [tx.get(key) for key in keys]


@probe.operation
def follow(tx: Transaction, key: str) -> object:
    """Reads the register that the first one names."""
    calls.append("follow")
    return tx.get(tx.get(key))


@probe.operation
def walk(tx: Transaction) -> int:
    calls.append("walk")
    return sum(1 for _ in tx.scan())


@probe.operation
def add(tx: Transaction, key: str) -> None:
    calls.append("add")
    tx.add(key, 1)


class Bench:
    def __init__(self) -> None:
        calls.clear()
        self.shared = ExecutionSharingDataType(probe)
        self.position = local_position(1)

    def run(self, name: str, *arguments: str, on: dict[str, object], event: int = 1) -> object:
        """On a replica of its own that holds `on`; what it read is in `self.reads`."""
        store = VersionStore()
        store.load(arrived(*on.items()))
        snapshot = store.snapshot(self.position)
        request = Request(1, Dot(0, event), probe.call(name, *arguments), strong=False)
        execution = self.shared.run(request, snapshot)
        self.reads = list(snapshot.reads)
        self.adds = list(snapshot.blind_adds)
        entry = RequestEntry(request, tentative_position(request))
        assert store.install(entry, snapshot, execution)
        return execution.outcome.value


def test_who_reads_the_same_does_not_run() -> None:
    bench = Bench()
    for _ in range(3):
        assert bench.run("look", "a", "b", on={"a": 1, "b": (1, "x")}) == (1, (1, "x"))
        assert bench.reads == ["a", "b"]
    assert (calls, bench.shared.shared_count) == (["look"], 2)


@pytest.mark.parametrize("other", [2, True, 1.0, "1", None])
def test_who_reads_something_else_runs(other: object) -> None:
    bench = Bench()
    bench.run("look", "a", "b", on={"a": 0, "b": 1})
    state: dict[str, object] = {"a": 0}
    if other is not None:
        state["b"] = other
    value = bench.run("look", "a", "b", on=state)
    assert (value, type(value[1])) == ((0, other), type(other))  # type: ignore[index]
    assert calls == ["look", "look"]


def test_what_was_looked_at_in_vain_is_read_anyway() -> None:
    bench = Bench()
    bench.run("follow", "a", on={"a": "b", "b": 1, "c": 2})
    assert bench.reads == ["a", "b"]
    assert bench.run("follow", "a", on={"a": "c", "b": 1, "c": 2}) == 2
    assert bench.reads == ["a", "c"]
    assert bench.run("follow", "a", on={"a": "c", "b": 5, "c": 2}) == 2
    assert bench.reads == ["a", "c"]
    assert calls == ["follow", "follow"]


def test_another_request_with_the_same_identifier_runs() -> None:
    bench = Bench()
    bench.run("look", "a", on={"a": 1})
    assert bench.run("look", "b", on={"a": 1}) == (None,)
    assert calls == ["look", "look"]


def test_what_goes_through_a_range_always_runs() -> None:
    bench = Bench()
    assert bench.run("walk", on={"a": 1}) == 1
    assert bench.run("walk", on={"a": 1}) == 1
    assert calls == ["walk", "walk"]


def test_additions_are_shared_where_one_can_add_without_looking() -> None:
    bench = Bench()
    for _ in range(2):
        bench.run("add", "a", on={"a": 1})
        assert (bench.reads, bench.adds) == ([], ["a"])
    bench.run("add", "a", on={"a": "text"})
    assert (bench.reads, bench.adds) == (["a"], [])
    assert calls == ["add", "add"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CACHED_REQUESTS_MAX > 1000
    monkeypatch.setattr("creekdb.simulation.kernel.shared_executions.REMEMBERED_MAX", 2)
    bench = Bench()
    for event in (1, 2, 3, 1):
        bench.run("look", "a", on={"a": 1}, event=event)
    assert len(calls) == 4
    assert len(bench.shared._cached) == 2
