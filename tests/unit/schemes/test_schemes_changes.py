"""Reported changes: one per stable request, equal at all replicas, with the values it wrote."""

from collections import defaultdict
from typing import Any

import msgspec
import pytest

from creekdb import datatypes
from creekdb.datatypes import SAMPLERS
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.effects import (
    ChangesSkipped,
    Effects,
    ReportedChange,
    Response,
    ResponseKind,
    StableChange,
)
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes import registry
from creekdb.schemes.creek import CreekReplica
from creekdb.simulation import Scenario, Simulation, parse_faults

FAULTS = "partition 0|1,2 at 100ms; heal at 400ms; crash 1 at 500ms; restart 1 at 700ms"


class Recording:
    """Effects that the replicas of a simulation emitted."""

    def __init__(self) -> None:
        self.changes: dict[int, list[list[ReportedChange]]] = defaultdict(list)
        """Changes of each replica, one list per start."""
        self.responses: dict[Dot, list[Response]] = defaultdict(list)
        self.created: dict[int, Any] = {}

    def by_index(self) -> dict[int, list[StableChange]]:
        found: dict[int, list[StableChange]] = defaultdict(list)
        for starts in self.changes.values():
            for changes in starts:
                for change in changes:
                    if isinstance(change, StableChange):
                        found[change.commit_index].append(change)
        return found


def simulate(scheme: str, datatype: str, **settings: int) -> Recording:
    recording = Recording()
    scenario = Scenario(
        datatype=datatype, replicas=3, seed=5, duration_us=800_000, faults=parse_faults(FAULTS)
    )
    given = msgspec.structs.replace(
        scenario.protocol_settings(), report_changes=2, checkpoint_every=50, **settings
    )
    base: Any = registry.get_scheme(scheme)

    class Recorded(base):  # type: ignore[misc]
        def take_effects(self) -> Effects:
            effects: Effects = super().take_effects()
            recording.changes[self.index][-1].extend(effects.changes)
            for response in effects.respond:
                recording.responses[response.id].append(response)
            return effects

    def make(index: int) -> Any:
        recording.changes[index].append([])
        recording.created[index] = Recorded(index, given, datatypes.get_datatype(datatype))
        return recording.created[index]

    Simulation(scenario, make, SAMPLERS[datatype]).run()
    return recording


SCHEMES = [
    ("creek", "kv", 65_536),
    ("creek", "kv", 4),
    ("creek", "bank", 4),
    ("creek", "counter", 4),
    ("archie", "bank", 65_536),
    ("basic", "kv", 65_536),
    ("basic", "list", 65_536),
]


@pytest.mark.parametrize(("scheme", "datatype", "kept_apart"), SCHEMES)
def test_every_replica_reports_the_same_change_at_an_index(
    scheme: str, datatype: str, kept_apart: int
) -> None:
    recording = simulate(scheme, datatype, kept_apart=kept_apart)

    by_index = recording.by_index()
    assert sorted(by_index) == list(range(1, len(by_index) + 1))
    assert len(by_index) > 50
    for reported in by_index.values():
        assert len({(each.request.id, each.outcome.error) for each in reported}) == 1
        for each in reported:
            assert each.outcome.same_as(reported[0].outcome)
            assert each.writes == reported[0].writes
            assert each.before == reported[0].before


@pytest.mark.parametrize(("scheme", "datatype", "kept_apart"), SCHEMES)
def test_applying_the_changes_gives_the_stable_state(
    scheme: str, datatype: str, kept_apart: int
) -> None:
    recording = simulate(scheme, datatype, kept_apart=kept_apart)

    by_index = recording.by_index()
    state: dict[Key, Any] = {}
    base = datatypes.get_datatype(datatype).base
    states = {0: dict(state)}
    for index in sorted(by_index):
        change = by_index[index][0]
        before = {key: state.get(key, base.read(key)) for key in change.writes}
        assert change.before == before
        state |= change.writes
        states[index] = {key: value for key, value in state.items() if value is not base.read(key)}
    for replica in recording.created.values():
        expected = states[replica._stable_prefix.length]
        assert dict(replica._execution.stable_items()) == expected


def test_changes_of_one_start_follow_each_other() -> None:
    recording = simulate("creek", "kv")

    for starts in recording.changes.values():
        for changes in starts:
            length = 0
            for change in changes:
                if isinstance(change, ChangesSkipped):
                    assert change.length >= length
                    length = change.length
                else:
                    assert change.commit_index == length + 1
                    length = change.commit_index


def test_a_restarted_replica_reports_the_checkpoint_before_its_changes() -> None:
    recording = simulate("creek", "kv")

    restarted = recording.changes[1][1]
    assert isinstance(restarted[0], ChangesSkipped)
    assert restarted[0].length > 0
    assert any(isinstance(change, StableChange) for change in restarted)


@pytest.mark.parametrize("scheme", ["creek", "basic"])
def test_a_change_reports_whether_the_response_of_its_client_changed(scheme: str) -> None:
    recording = simulate(scheme, "kv")

    differed = 0
    for reported in recording.by_index().values():
        for change in reported:
            known = [response.kind for response in recording.responses[change.request.id]]
            if change.changed is None or not known:
                continue
            responses = recording.responses[change.request.id]
            tentative = [each for each in responses if each.kind is ResponseKind.TENTATIVE]
            expected = bool(tentative) and not tentative[-1].outcome.same_as(change.outcome)
            assert change.changed == expected
            differed += change.changed
    assert differed > 0


def test_only_the_issuing_replica_knows_whether_the_response_changed() -> None:
    recording = simulate("creek", "kv")

    for replica, starts in recording.changes.items():
        for change in starts[0]:
            if isinstance(change, StableChange) and change.request.id.replica != replica:
                assert change.changed is None


def run_alone(**settings: int) -> list[ReportedChange]:
    kv = datatypes.get_datatype("kv")
    replica = CreekReplica(0, Settings(members=(0,), **settings), kv)
    replica.tick(0)
    changes: list[ReportedChange] = []
    calls: list[tuple[Any, ...]] = [("put", "a", 1), ("increment", "a", 2), ("delete", "a")]
    for number, call in enumerate(calls):
        replica.invoke(kv.call(*call), True, 0, number)
        while (effects := replica.take_effects()) != Effects():
            changes += effects.changes
            for task in effects.tasks:
                replica.completed(task, replica.run(task), number)
    return changes


def test_a_change_holds_the_values_after_the_request() -> None:
    changes = run_alone(report_changes=1)

    assert [change.writes for change in changes if isinstance(change, StableChange)] == [
        {"a": 1},
        {"a": 3},
        {"a": ABSENT},
    ]
    assert all(change.before is None for change in changes if isinstance(change, StableChange))


def test_values_before_the_request_are_reported_on_demand() -> None:
    changes = run_alone(report_changes=2)

    assert [change.before for change in changes if isinstance(change, StableChange)] == [
        {"a": ABSENT},
        {"a": 1},
        {"a": 3},
    ]


def test_a_replica_reports_no_changes_by_default() -> None:
    assert run_alone() == []
