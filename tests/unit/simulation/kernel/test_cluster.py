"""Whole runs: determinism, healing, coming to rest, and what a run leaves behind."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from creekdb.errors import BadValue, UnknownName
from creekdb.history.records import OperationRecord
from creekdb.protocol.request import Operation
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.kernel.cluster import Simulation
from creekdb.simulation.kernel.scenario import (
    ClientModel,
    Scenario,
    ScriptedInvocation,
    scenario_from_config,
)
from creekdb.simulation.models.parameters import CpuModel, DiskModel, NetworkModel
from tests.unit.simulation.toy_replica import ToyReplica, run, sample, simulation_of

TROUBLED = Scenario(
    seed=7,
    replicas=4,
    duration_us=300_000,
    clients=ClientModel(sessions=2, think_us=5_000),
    disk=DiskModel(fsync_us_min=50, fsync_us_max=500),
    faults=parse_faults(
        """loss 20% at 10ms; duplication 20% at 10ms; reordering 20% at 10ms
        garbage 20% for 1s at 0s
        partition 0,1|2,3 at 50ms; cut 0>1 at 60ms; heal at 150ms; spike x5 for 50ms at 160ms
        crash 2 at 80ms; restart 2 at 120ms; crash-writing 3 at 200ms; jump 1 by 1d at 90ms
        slow-disk 0 by 5ms for 50ms at 20ms; slow-cpu 1 x20 for 100ms at 20ms"""
    ),
)

PRINT_HASH = (
    "from tests.unit.simulation.kernel.test_cluster import *; print(run(TROUBLED).trace_hash)"
)


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = run(TROUBLED), run(TROUBLED)
    assert first == second
    assert first.events > 1_000


def test_another_seed_gives_another_run() -> None:
    other = msgspec.structs.replace(TROUBLED, seed=8)
    assert run(TROUBLED).trace_hash != run(other).trace_hash


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_the_trace_hash_does_not_depend_on_pythons_hash_seed(hash_seed: str) -> None:
    root = Path(__file__).parents[4]
    found = subprocess.run(
        [sys.executable, "-c", PRINT_HASH],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{root}/src:{root}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == run(TROUBLED).trace_hash


def test_sharing_objects_instead_of_decoding_changes_nothing() -> None:
    shared = msgspec.structs.replace(TROUBLED, network=NetworkModel(wire=False))
    assert run(shared).trace_hash == run(TROUBLED).trace_hash


def test_a_fault_does_not_change_what_clients_ask_for() -> None:
    calm = msgspec.structs.replace(TROUBLED, faults=())

    def asked(scenario: Scenario) -> list[Operation]:
        operations: list[OperationRecord] = list(run(scenario).history.operations)
        return [each.operation for each in operations if each.session == 1]

    shorter, longer = sorted((asked(calm), asked(TROUBLED)), key=len)
    assert len(shorter) > 5
    assert longer[: len(shorter)] == shorter


def test_after_the_faults_the_cluster_heals_and_comes_to_rest() -> None:
    found = run(TROUBLED)
    assert found.quiescence_failure is None
    assert found.history.quiescent
    assert len(found.history.final_states) == 4
    assert len({final.committed for final in found.history.final_states}) == 1
    assert found.simulated_us > TROUBLED.duration_us


def test_replicas_that_stayed_down_and_partitions_that_stayed_are_healed_at_the_end() -> None:
    faults = parse_faults("partition 0|1|2 at 0s; crash 1 at 50ms; loss 1 at 0s")
    found = run(Scenario(replicas=3, duration_us=100_000, faults=faults))
    assert found.history.quiescent
    assert found.crashes == 1
    assert [log.incarnation for log in found.history.logs if log.replica == 1] == [0, 1]


def test_faults_scheduled_behind_the_end_never_happen() -> None:
    faults = parse_faults("crash 0 at 200ms; partition 0|1 at 200ms")
    found = run(Scenario(replicas=2, duration_us=100_000, faults=faults))
    assert found.crashes == 0
    assert found.history.quiescent


def test_a_cluster_that_cannot_come_to_rest_is_told_so() -> None:
    class Busy(ToyReplica):
        def idle(self) -> bool:
            return False

    scenario = Scenario(replicas=2, duration_us=10_000, settle_us=100_000)
    found = Simulation(scenario, lambda index: Busy(index, 2), sample).run()
    assert not found.history.quiescent
    assert found.quiescence_failure == "replica 0 is executing"
    assert 110_000 <= found.simulated_us <= 120_000


def test_a_run_with_too_many_events_is_stopped() -> None:
    found = simulation_of(TROUBLED).run(events_max=100)
    assert found.quiescence_failure == "stopped after 100 events"
    assert found.events == 100


def test_forgeries_are_counted_where_they_are_refused() -> None:
    found = run(TROUBLED)
    assert found.malformed > 0
    assert found.rejected["stranger"] > 0
    assert found.malformed + found.rejected["stranger"] <= found.network.forged


def test_a_run_counts_what_crashes_cost() -> None:
    faults = parse_faults(
        ";".join(f"crash-writing 0 at {at}ms; restart 0 at {at + 9}ms" for at in range(0, 200, 10))
    )
    found = run(
        Scenario(
            replicas=2,
            duration_us=210_000,
            clients=ClientModel(sessions=3, think_us=1_000),
            disk=DiskModel(fsync_us_min=500, fsync_us_max=1_000),
            faults=faults,
        )
    )
    assert found.crashes > 5
    assert found.disk.lost > 0
    assert found.history.quiescent


def test_ticks_come_at_a_steady_beat_with_a_phase_for_each_replica() -> None:
    simulation = simulation_of(Scenario(replicas=3, duration_us=100_000, tick_us=1_000))
    found = simulation.run()
    for node in simulation.nodes:
        assert isinstance(node.replica, ToyReplica)
        assert abs(node.replica.ticks - found.simulated_us // 1_000) <= 1


def test_a_scripted_run_tells_what_its_clients_saw() -> None:
    script = (
        ScriptedInvocation(1_000, 0, Operation("increment"), strong=True),
        ScriptedInvocation(2_000, 1, Operation("increment")),
    )
    found = run(
        Scenario(
            replicas=2,
            duration_us=10_000,
            clients=ClientModel(sessions=0),
            cpu=CpuModel(execution_us=100, access_us=0),
            script=script,
        )
    )
    first, second = found.history.operations
    assert (first.replica, first.strong, first.invoked_us) == (0, True, 1_000)
    assert first.tentative is not None
    assert first.stable is not None
    assert first.stable.at_us == 1_100
    assert second.tentative is not None
    assert second.stable is None
    assert second.tentative.outcome.value == 2


def test_a_scenario_survives_a_journey_through_json() -> None:
    script = (ScriptedInvocation(1, 0, Operation("increment", (1, (2, "x")))),)
    scenario = msgspec.structs.replace(TROUBLED, script=script, settings={"window": 3})
    found = run(scenario).history.config
    assert scenario_from_config(msgspec.json.decode(msgspec.json.encode(found))) == scenario
    assert scenario.protocol_settings().window == 3
    assert scenario.protocol_settings().members == (0, 1, 2, 3)


def test_a_scenario_that_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(BadValue, match="at least 1"):
        Scenario(replicas=0)
    with pytest.raises(BadValue, match="negative"):
        Scenario(duration_us=-1)
    with pytest.raises(BadValue, match="tick_us"):
        Scenario(tick_us=0)
    with pytest.raises(BadValue, match="names replica 5, which does not exist"):
        Scenario(replicas=5, faults=parse_faults("crash 5 at 1s"))
    with pytest.raises(BadValue, match="replica 7, which does not exist"):
        Scenario(script=(ScriptedInvocation(0, 7, Operation("increment")),))
    with pytest.raises(UnknownName, match="unknown setting 'windows'"):
        Scenario(settings={"windows": 1})
    with pytest.raises(BadValue, match="not a scenario"):
        scenario_from_config({"replicas": "many"})


def test_a_run_that_only_measures_is_the_same_run() -> None:
    quiet = msgspec.structs.replace(TROUBLED, faults=())
    measuring = msgspec.structs.replace(
        quiet,
        record_events=False,
        warm_up_us=100_000,
        network=NetworkModel(wire=False),
        disk=DiskModel(kept=False),
    )
    recording = msgspec.structs.replace(quiet, disk=DiskModel())
    recorded, measured = run(recording), run(measuring)

    assert measured.trace_hash == recorded.trace_hash
    assert measured.history.operations == recorded.history.operations
    assert all(log.events == () for log in measured.history.logs)
    assert measured.disk.records == 0 < recorded.disk.records


def test_the_window_begins_after_the_warm_up_and_ends_with_the_load() -> None:
    whole = run(msgspec.structs.replace(TROUBLED, faults=()))
    part = run(msgspec.structs.replace(TROUBLED, faults=(), warm_up_us=100_000))

    assert (whole.window.begin_us, whole.window.end_us) == (0, 300_000)
    assert (part.window.begin_us, part.window.end_us) == (100_000, 300_000)
    assert 0 < part.window.busy_us < whole.window.busy_us <= sum(whole.cpu.busy_us)
    assert 0 < part.window.executions < whole.window.executions
    for kind, count in part.window.messages.items():
        assert 0 < count < whole.window.messages[kind] <= whole.network.messages[kind]


def test_a_replica_that_crashes_needs_a_disk() -> None:
    with pytest.raises(BadValue, match="needs a disk"):
        Scenario(disk=DiskModel(kept=False), faults=parse_faults("crash 1 at 1ms"))


def test_a_warm_up_that_does_not_fit_is_refused() -> None:
    with pytest.raises(BadValue, match="warm-up"):
        Scenario(duration_us=1_000, warm_up_us=1_001)


def test_a_source_tells_replicas_apart() -> None:
    scenario = Scenario(duration_us=20_000, replicas=2, clients=ClientModel(think_us=1_000))
    simulation = Simulation(
        scenario,
        lambda index: ToyReplica(index, 2),
        source=lambda replica, random: Operation(f"at {replica}"),
    )
    for record in simulation.run().history.operations:
        assert record.operation.name == f"at {record.replica}"


def test_operations_of_some_kinds_are_strong_whatever_the_share() -> None:
    clients = ClientModel(think_us=1_000, strong_share=0.0, strong_kinds=("increment",))
    found = run(Scenario(duration_us=20_000, clients=clients)).history.operations
    assert found
    assert all(record.strong for record in found)
