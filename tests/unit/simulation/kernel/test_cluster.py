"""Whole simulated runs: determinism, healing, quiescence, and results."""

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
from tests.unit.simulation.toy_replica import ToyReplica, build_toy_simulation, run, sample

FAULTY = Scenario(
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
    "from tests.unit.simulation.kernel.test_cluster import *; print(run(FAULTY).trace_hash)"
)


def test_equal_scenarios_give_equal_runs() -> None:
    first, second = run(FAULTY), run(FAULTY)
    assert first == second
    assert first.events > 1_000


def test_different_seeds_give_different_runs() -> None:
    other = msgspec.structs.replace(FAULTY, seed=8)
    assert run(FAULTY).trace_hash != run(other).trace_hash


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_the_trace_hash_is_independent_of_pythonhashseed(hash_seed: str) -> None:
    root = Path(__file__).parents[4]
    result = subprocess.run(
        [sys.executable, "-c", PRINT_HASH],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{root}/src:{root}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == run(FAULTY).trace_hash


def test_sharing_message_objects_does_not_change_the_run() -> None:
    shared = msgspec.structs.replace(FAULTY, network=NetworkModel(wire=False))
    assert run(shared).trace_hash == run(FAULTY).trace_hash


def test_faults_do_not_change_the_operations_of_clients() -> None:
    fault_free = msgspec.structs.replace(FAULTY, faults=())

    def issued_operations(scenario: Scenario) -> list[Operation]:
        operations: list[OperationRecord] = list(run(scenario).history.operations)
        return [each.operation for each in operations if each.session == 1]

    shorter, longer = sorted((issued_operations(fault_free), issued_operations(FAULTY)), key=len)
    assert len(shorter) > 5
    assert longer[: len(shorter)] == shorter


def test_the_cluster_heals_and_quiesces_after_the_load_phase() -> None:
    result = run(FAULTY)
    assert result.quiescence_failure is None
    assert result.history.quiescent
    assert len(result.history.final_states) == 4
    assert len({final.committed for final in result.history.final_states}) == 1
    assert result.simulated_us > FAULTY.duration_us


def test_crashed_replicas_and_partitions_are_healed_at_the_end() -> None:
    faults = parse_faults("partition 0|1|2 at 0s; crash 1 at 50ms; loss 1 at 0s")
    result = run(Scenario(replicas=3, duration_us=100_000, faults=faults))
    assert result.history.quiescent
    assert result.crashes == 1
    assert [log.incarnation for log in result.history.logs if log.replica == 1] == [0, 1]


def test_faults_scheduled_after_the_load_phase_never_happen() -> None:
    faults = parse_faults("crash 0 at 200ms; partition 0|1 at 200ms")
    result = run(Scenario(replicas=2, duration_us=100_000, faults=faults))
    assert result.crashes == 0
    assert result.history.quiescent


def test_a_cluster_that_cannot_quiesce_is_reported() -> None:
    class NeverIdle(ToyReplica):
        def is_idle(self) -> bool:
            return False

    scenario = Scenario(replicas=2, duration_us=10_000, settle_us=100_000)
    result = Simulation(scenario, lambda index: NeverIdle(index, 2), sample).run()
    assert not result.history.quiescent
    assert result.quiescence_failure == "replica 0 is executing"
    assert 110_000 <= result.simulated_us <= 120_000


def test_a_run_that_exceeds_the_event_limit_is_stopped() -> None:
    result = build_toy_simulation(FAULTY).run(events_max=100)
    assert result.quiescence_failure == "stopped after 100 events"
    assert result.events == 100


def test_rejected_forgeries_are_counted() -> None:
    result = run(FAULTY)
    assert result.malformed > 0
    assert result.rejected["stranger"] > 0
    assert result.malformed + result.rejected["stranger"] <= result.network.forged


def test_records_lost_in_crashes_are_counted() -> None:
    faults = parse_faults(
        ";".join(f"crash-writing 0 at {at}ms; restart 0 at {at + 9}ms" for at in range(0, 200, 10))
    )
    simulation = build_toy_simulation(
        Scenario(
            replicas=2,
            duration_us=210_000,
            clients=ClientModel(sessions=3, think_us=1_000),
            disk=DiskModel(fsync_us_min=500, fsync_us_max=1_000),
            faults=faults,
        )
    )
    result = simulation.run()
    assert result.crashes > 5
    assert sum(node.disk.lost_records for node in simulation.nodes) > 0
    assert result.history.quiescent


def test_each_replica_ticks_at_a_constant_interval_with_its_own_phase() -> None:
    simulation = build_toy_simulation(Scenario(replicas=3, duration_us=100_000, tick_us=1_000))
    result = simulation.run()
    for node in simulation.nodes:
        assert isinstance(node.replica, ToyReplica)
        assert abs(node.replica.ticks - result.simulated_us // 1_000) <= 1


def test_the_history_of_a_scripted_run_contains_all_responses() -> None:
    script = (
        ScriptedInvocation(1_000, 0, Operation("increment"), strong=True),
        ScriptedInvocation(2_000, 1, Operation("increment")),
    )
    result = run(
        Scenario(
            replicas=2,
            duration_us=10_000,
            clients=ClientModel(sessions=0),
            cpu=CpuModel(execution_us=100, access_us=0),
            script=script,
        )
    )
    first, second = result.history.operations
    assert (first.replica, first.strong, first.invoked_us) == (0, True, 1_000)
    assert first.tentative is not None
    assert first.stable is not None
    assert first.stable.at_us == 1_100
    assert second.tentative is not None
    assert second.stable is None
    assert second.tentative.outcome.value == 2


def test_scenarios_round_trip_through_json() -> None:
    script = (ScriptedInvocation(1, 0, Operation("increment", (1, (2, "x")))),)
    scenario = msgspec.structs.replace(FAULTY, script=script, settings={"window": 3})
    result = run(scenario).history.config
    assert scenario_from_config(msgspec.json.decode(msgspec.json.encode(result))) == scenario
    assert scenario.protocol_settings().window == 3
    assert scenario.protocol_settings().members == (0, 1, 2, 3)


def test_invalid_scenarios_are_rejected() -> None:
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


def test_a_measurement_run_equals_the_recorded_run() -> None:
    fault_free = msgspec.structs.replace(FAULTY, faults=())
    measuring = msgspec.structs.replace(
        fault_free,
        record_events=False,
        warm_up_us=100_000,
        network=NetworkModel(wire=False),
        disk=DiskModel(kept=False),
    )
    recording = msgspec.structs.replace(fault_free, disk=DiskModel())
    simulations = build_toy_simulation(recording), build_toy_simulation(measuring)
    recorded, measured = (each.run() for each in simulations)

    assert measured.trace_hash == recorded.trace_hash
    assert measured.history.operations == recorded.history.operations
    assert all(log.events == () for log in measured.history.logs)
    kept, not_kept = ([node.disk.read() for node in each.nodes] for each in simulations)
    assert any(kept)
    assert not any(not_kept)


def test_the_measurement_window_excludes_the_warm_up_and_the_quiescence_phase() -> None:
    whole = run(msgspec.structs.replace(FAULTY, faults=()))
    part = run(msgspec.structs.replace(FAULTY, faults=(), warm_up_us=100_000))

    assert (whole.window.begin_us, whole.window.end_us) == (0, 300_000)
    assert (part.window.begin_us, part.window.end_us) == (100_000, 300_000)
    assert 0 < part.window.busy_us < whole.window.busy_us <= sum(whole.cpu.busy_us)
    assert 0 < part.window.executions < whole.window.executions
    for kind, count in part.window.messages.items():
        assert 0 < count < whole.window.messages[kind] <= whole.network.messages[kind]


def test_crashes_require_a_durable_disk() -> None:
    with pytest.raises(BadValue, match="needs a durable disk"):
        Scenario(disk=DiskModel(kept=False), faults=parse_faults("crash 1 at 1ms"))


def test_a_warm_up_longer_than_the_duration_is_rejected() -> None:
    with pytest.raises(BadValue, match="warm-up"):
        Scenario(duration_us=1_000, warm_up_us=1_001)


def test_an_operation_source_may_distinguish_replicas() -> None:
    scenario = Scenario(duration_us=20_000, replicas=2, clients=ClientModel(think_us=1_000))
    simulation = Simulation(
        scenario,
        lambda index: ToyReplica(index, 2),
        source=lambda replica, random: Operation(f"at {replica}"),
    )
    for record in simulation.run().history.operations:
        assert record.operation.name == f"at {record.replica}"


def test_operations_of_strong_kinds_are_strong_regardless_of_the_share() -> None:
    clients = ClientModel(think_us=1_000, strong_share=0.0, strong_kinds=("increment",))
    result = run(Scenario(duration_us=20_000, clients=clients)).history.operations
    assert result
    assert all(record.strong for record in result)
