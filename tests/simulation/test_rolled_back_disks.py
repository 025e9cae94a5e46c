"""Disks that return to an earlier state: the replica that lost data stops, and no other one."""

from random import Random

import msgspec
import pytest

from creekdb.checkers import Illegal, check_all
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.request import Operation
from creekdb.simulation.faults.fault_types import Garbage
from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.fuzz.scenario_generator import (
    DISK_LOSS_EVERY,
    DISK_LOSS_OFFSET,
    scenario_from_seed,
)
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun
from creekdb.simulation.kernel.hello_exchange import HelloExchange
from creekdb.simulation.kernel.scenario import ClientModel, Scenario, ScriptedInvocation
from tests.simulation.checked_run import run_checked
from tests.simulation.idle_watch import build_watched_simulation


def run_script(
    faults: list[str], calls: list[tuple[int, int, bool]], replicas: int = 3
) -> tuple[Simulation, SimulationRun]:
    """Run the faults with calls, each with its time in milliseconds, its replica and its level."""
    simulation = build_watched_simulation(
        Scenario(
            seed=3,
            scheme="creek",
            datatype="counter",
            replicas=replicas,
            duration_us=1_000_000,
            settle_us=1_000_000,
            clients=ClientModel(sessions=0),
            faults=parse_faults("; ".join(faults)),
            script=tuple(
                ScriptedInvocation(at_ms * 1_000, replica, Operation("increment"), strong)
                for at_ms, replica, strong in calls
            ),
        )
    )
    return simulation, simulation.run()


@pytest.mark.parametrize("replica", [0, 2])
def test_a_rolled_back_replica_stops_before_it_does_harm(replica: int) -> None:
    """The replica is the leader, or another one. Without its last start, all checks pass."""
    scenario = Scenario(
        seed=5,
        scheme="differential",
        datatype="bank",
        duration_us=800_000,
        clients=ClientModel(sessions=2, think_us=15_000, strong_share=0.2),
        record_orders=True,
        faults=parse_faults(f"rollback-disk {replica} by 200ms for 50ms at 500ms"),
    )
    run = build_watched_simulation(scenario).run()

    assert run.quiescence_failure is None
    assert list(run.data_losses) == [replica]
    assert run.conflicts == ()
    last = max(each.incarnation for each in run.history.logs if each.replica == replica)
    logs = [
        each for each in run.history.logs if (each.replica, each.incarnation) != (replica, last)
    ]
    history = msgspec.structs.replace(run.history, logs=tuple(logs))
    assert history.operations == run.history.operations
    assert not [each.describe() for each in check_all(history) if isinstance(each, Illegal)]


def test_a_voter_without_calls_of_its_own_stops_after_a_rollback() -> None:
    _, run = run_script(
        ["rollback-disk 2 by 200ms for 10ms at 500ms"],
        [(at_ms, 0, True) for at_ms in range(100, 900, 20)],
    )

    assert "held 0 calls" in run.data_losses[2]
    assert run.quiescence_failure is None


def test_replicas_report_their_calls_deliveries_and_promises() -> None:
    simulation, run = run_script([], [(at_ms, at_ms % 3, True) for at_ms in range(100, 900, 20)])

    assert run.quiescence_failure is None
    views = [node.replica.view for node in simulation.nodes if node.replica is not None]
    leader = views[0].leader()
    assert leader is not None
    for view in views:
        reported = views[leader].reported_state(view.index)
        if view.index != leader:
            assert reported.promised == view.own_state().promised != NO_BALLOT
            assert reported.last_event > 10
            assert reported.delivered > 30
            assert view.own_state().covers(reported)


def test_a_restart_with_the_complete_disk_is_no_loss() -> None:
    _, run = run_checked("rollback-disk 2 by 0ms for 50ms at 500ms; crash 1 at 600ms")

    assert run.data_losses == {}
    assert all(each.replica != 2 or each.incarnation < 2 for each in run.history.operations)


def test_a_replica_that_decided_again_stops_and_the_conflict_is_reported() -> None:
    """While replica 0 is down, no other replica can detect the rollback: 1 was down before."""
    simulation, run = run_script(
        [
            "crash 2 at 200ms; crash 1 at 210ms; restart 2 at 220ms",
            "crash 0 at 400ms; rollback-disk 2 by 195ms for 10ms at 402ms; restart 1 at 410ms",
            "restart 0 at 600ms",
        ],
        [(at_ms, 0, True) for at_ms in (*range(50, 150, 5), *range(300, 400, 5))]
        + [(500, 1, True)],
    )

    assert run.data_losses == {2: "the data directory does not contain start 2 of the replica"}
    assert run.conflicts == ((0, 1),)
    assert [node.replica is None for node in simulation.nodes] == [False, False, True]


def test_a_replica_that_reused_event_numbers_stops() -> None:
    simulation, run = run_script(
        [
            "crash 2 at 200ms; restart 2 at 220ms",
            "crash 2 at 400ms; partition 0,1|2 at 401ms; rollback-disk 2 by 200ms for 5ms at 405ms",
            "heal at 600ms",
        ],
        [(at_ms, 2, False) for at_ms in (*range(300, 375, 5), *range(450, 525, 5))],
    )

    assert list(run.data_losses) == [2]
    assert run.quiescence_failure is None
    for node in simulation.nodes[:2]:
        assert node.replica is not None
        assert list(node.replica.view.state().values()) == [15]


def test_of_five_replicas_only_the_rolled_back_one_stops() -> None:
    """Replica 3 was down when replica 4 issued the lost calls, and receives the reused numbers."""
    simulation, run = run_script(
        [
            "crash 3 at 150ms; crash 4 at 200ms; restart 4 at 220ms",
            "crash 4 at 400ms; partition 0,1,2|3,4 at 401ms; restart 3 at 402ms",
            "rollback-disk 4 by 200ms for 5ms at 405ms; heal at 600ms",
        ],
        [(at_ms, 4, False) for at_ms in (*range(300, 375, 5), *range(450, 525, 5))],
        replicas=5,
    )

    assert list(run.data_losses) == [4]
    assert run.conflicts == ((0, 3), (1, 3), (2, 3))
    for node in simulation.nodes[:3]:
        assert node.replica is not None
        assert list(node.replica.view.state().values()) == [15]


def test_a_replica_learns_of_the_lost_calls_before_it_receives_the_reused_numbers() -> None:
    """Replica 3 was down when replica 4 issued the lost calls, but connects to the others first."""
    _, run = run_script(
        [
            "crash 3 at 150ms; crash 4 at 200ms; restart 4 at 220ms",
            "crash 4 at 400ms; partition 0,1,2,3|4 at 401ms; restart 3 at 402ms",
            "rollback-disk 4 by 200ms for 5ms at 405ms",
            "partition 0,1,2|3,4 at 600ms; heal at 700ms",
        ],
        [(at_ms, 4, False) for at_ms in (*range(300, 375, 5), *range(450, 525, 5))],
        replicas=5,
    )

    assert list(run.data_losses) == [4]
    assert run.conflicts == ()
    assert run.quiescence_failure is None


def test_replicas_with_their_disks_are_never_rejected() -> None:
    """Crashes, torn writes and lost disks are no rollbacks. Forged messages would be evidence."""
    crashes = 0
    for seed in range(DISK_LOSS_OFFSET, DISK_LOSS_OFFSET + 6 * DISK_LOSS_EVERY, 4):
        scenario = scenario_from_seed(seed, "creek")
        if any(isinstance(each, Garbage) for each in scenario.faults):
            continue
        simulation = build_watched_simulation(scenario)
        simulation._hellos = HelloExchange(simulation.nodes, simulation._stop_after_data_loss)
        run = simulation.run()
        crashes += run.crashes
        assert run.data_losses == {}, seed
        assert run.conflicts == (), seed
    assert crashes > 10


@pytest.mark.parametrize("seed", range(8))
def test_only_the_rolled_back_replica_stops_at_any_time(seed: int) -> None:
    random = Random(seed)
    replicas = random.choice((3, 5))
    victim, crashed = random.sample(range(replicas), 2)
    at_ms = random.randrange(300, 600)
    scenario = Scenario(
        seed=seed,
        scheme="creek",
        datatype="counter",
        replicas=replicas,
        duration_us=800_000,
        clients=ClientModel(sessions=2, think_us=15_000, strong_share=0.2),
        faults=parse_faults(
            f"crash {crashed} at {random.randrange(50, at_ms)}ms; "
            f"rollback-disk {victim} by {random.randrange(20, 250)}ms for 20ms at {at_ms}ms"
        ),
    )
    run = build_watched_simulation(scenario).run()

    assert list(run.data_losses) == [victim]
