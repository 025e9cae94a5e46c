"""Sharing executions only changes the real time that a simulation takes."""

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
from tests.unit.execution.mvcc.store_fixture import loaded_state

FAULTS = parse_faults("partition 0,1|2,3,4 at 20ms; heal at 60ms; crash 2 at 70ms; loss 5% at 0s")


def run_simulation(datatype: DataType, scheme: str = "creek") -> SimulationRun:
    scenario = Scenario(
        scheme=scheme,
        datatype=datatype.name,
        duration_us=120_000,
        clients=ClientModel(sessions=0, rate_per_second=200),
        faults=FAULTS,
    )
    settings, scheme_class = scenario.protocol_settings(), registry.get_scheme(scheme)
    source = None
    sample = SAMPLERS.get(datatype.name)
    if sample is None:
        source = Terminals(datatype, datatype.base.population, 0, 5)  # type: ignore[attr-defined]
    return Simulation(
        scenario, lambda index: scheme_class(index, settings, datatype), sample, source=source
    ).run()


@pytest.mark.parametrize("layout", ["rows", "fine"])
@pytest.mark.parametrize("scheme", ["creek", "archie", "basic"])
def test_sharing_does_not_change_a_tpcc_run(layout: str, scheme: str) -> None:
    datatype = populated_datatype(populated_datatype_name(layout, 1, 0))
    shared = ExecutionSharingDataType(datatype)

    assert run_simulation(shared, scheme) == run_simulation(datatype, scheme)
    assert (shared.shared_count > 0) == (scheme != "basic")


@pytest.mark.parametrize("name", DATATYPES)
def test_sharing_does_not_change_a_run_of_any_data_type(name: str) -> None:
    shared = ExecutionSharingDataType(DATATYPES[name])

    assert run_simulation(shared) == run_simulation(DATATYPES[name])
    assert shared.shared_count > 0 or name == "list"


# --- cache hits and misses ------------------------------------------------------------------------

calls: list[str] = []
probe = DataType("probe")


@probe.operation
def read(tx: Transaction, *keys: str) -> list[object]:
    calls.append("read")
    return [tx.get(key) for key in keys]


@probe.operation
def read_indirect(tx: Transaction, key: str) -> object:
    """Read the register that the register `key` names."""
    calls.append("read_indirect")
    return tx.get(tx.get(key))


@probe.operation
def count(tx: Transaction) -> int:
    calls.append("count")
    return sum(1 for _ in tx.scan())


@probe.operation
def add(tx: Transaction, key: str) -> None:
    calls.append("add")
    tx.add(key, 1)


class SharingHarness:
    def __init__(self, requests_max: int = CACHED_REQUESTS_MAX) -> None:
        calls.clear()
        self.shared = ExecutionSharingDataType(probe, requests_max)
        self.position = local_position(1)

    def run(self, name: str, *arguments: str, on: dict[str, object], event: int = 1) -> object:
        """Execute on a new replica with state `on`; the registers read are in `self.reads`."""
        store = VersionStore()
        store.load(loaded_state(*on.items()))
        snapshot = store.snapshot(self.position)
        request = Request(1, Dot(0, event), probe.call(name, *arguments), strong=False)
        execution = self.shared.run(request, snapshot)
        self.reads = list(snapshot.reads)
        self.adds = list(snapshot.blind_adds)
        entry = RequestEntry(request, tentative_position(request))
        assert store.install(entry, snapshot, execution)
        return execution.outcome.value


def test_an_execution_on_equal_reads_is_shared() -> None:
    harness = SharingHarness()
    for _ in range(3):
        assert harness.run("read", "a", "b", on={"a": 1, "b": (1, "x")}) == (1, (1, "x"))
        assert harness.reads == ["a", "b"]
    assert (calls, harness.shared.shared_count) == (["read"], 2)


@pytest.mark.parametrize("other_value", [2, True, 1.0, "1", None])
def test_an_execution_on_different_reads_runs(other_value: object) -> None:
    harness = SharingHarness()
    harness.run("read", "a", "b", on={"a": 0, "b": 1})
    state: dict[str, object] = {"a": 0}
    if other_value is not None:
        state["b"] = other_value
    value = harness.run("read", "a", "b", on=state)
    assert (value, type(value[1])) == ((0, other_value), type(other_value))  # type: ignore[index]
    assert calls == ["read", "read"]


def test_a_failed_comparison_leaves_no_reads() -> None:
    harness = SharingHarness()
    harness.run("read_indirect", "a", on={"a": "b", "b": 1, "c": 2})
    assert harness.reads == ["a", "b"]
    assert harness.run("read_indirect", "a", on={"a": "c", "b": 1, "c": 2}) == 2
    assert harness.reads == ["a", "c"]
    assert harness.run("read_indirect", "a", on={"a": "c", "b": 5, "c": 2}) == 2
    assert harness.reads == ["a", "c"]
    assert calls == ["read_indirect", "read_indirect"]


def test_a_different_request_with_the_same_identifier_runs() -> None:
    harness = SharingHarness()
    harness.run("read", "a", on={"a": 1})
    assert harness.run("read", "b", on={"a": 1}) == (None,)
    assert calls == ["read", "read"]


def test_scans_are_never_shared() -> None:
    harness = SharingHarness()
    assert harness.run("count", on={"a": 1}) == 1
    assert harness.run("count", on={"a": 1}) == 1
    assert calls == ["count", "count"]


def test_blind_additions_are_shared_where_they_are_possible() -> None:
    harness = SharingHarness()
    for _ in range(2):
        harness.run("add", "a", on={"a": 1})
        assert (harness.reads, harness.adds) == ([], ["a"])
    harness.run("add", "a", on={"a": "text"})
    assert (harness.reads, harness.adds) == (["a"], [])
    assert calls == ["add", "add"]


def test_the_cache_is_bounded() -> None:
    assert CACHED_REQUESTS_MAX > 1000
    harness = SharingHarness(requests_max=2)
    for event in (1, 2, 3, 1):
        harness.run("read", "a", on={"a": 1}, event=event)
    assert len(calls) == 4
    assert len(harness.shared._cached) == 2
