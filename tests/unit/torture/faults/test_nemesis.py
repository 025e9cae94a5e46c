"""Faults that the nemesis injects into processes and links, and heals after their duration."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from creekdb.torture.faults import disk_faults
from creekdb.torture.faults.nemesis import InjectedFault, Nemesis
from creekdb.torture.faults.plan import DECK, FaultKind, PlannedFault, RoundPlan
from creekdb.torture.faults.replica_control import ReplicaControl
from creekdb.torture.processes import UnexpectedExit

LEADER = 2


class StubProcesses:
    """Processes that log every action on them, in order."""

    def __init__(self, log: list[tuple[Any, ...]]) -> None:
        self.all = [0, 1, 2]
        self.running = [0, 1, 2]
        self.exit_code = 0
        self._log = log

    def kill(self, *replicas: int) -> None:
        self._log.append(("kill", *replicas))
        self.running = [each for each in self.running if each not in replicas]

    def start(self, *replicas: int) -> None:
        self._log.append(("start", *replicas))
        self.running = sorted({*self.running, *replicas})

    def stop(self, replica: int) -> int:
        self._log.append(("stop", replica))
        self.running.remove(replica)
        return self.exit_code

    def freeze(self, replica: int) -> None:
        self._log.append(("freeze", replica))

    def thaw(self, replica: int) -> None:
        self._log.append(("thaw", replica))

    def collect_removed(self, unable: object = ()) -> set[int]:
        return set()

    def process_id(self, replica: int) -> int:
        return 1000 + replica

    def output(self, replica: int) -> str:
        return "Traceback"

    async def status_unless_exited(self, replica: int) -> dict[str, Any]:
        return {"leader": LEADER}


class StubLinks:
    def __init__(self, log: list[tuple[Any, ...]]) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self._log.append((name, *arguments))


class World:
    """Nemesis of three replicas, whose actions are logged."""

    def __init__(self, *faults: PlannedFault, duration_s: float = 1.0) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.processes = StubProcesses(self.log)
        self.reported: list[InjectedFault] = []
        plan = RoundPlan(0, 3, 20, (), duration_s, faults, None)
        self.nemesis = Nemesis(
            plan,
            self.processes,  # type: ignore[arg-type]
            StubLinks(self.log),  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            asyncio.get_running_loop().time,
            self.reported.append,
            Path(),
        )

    @property
    def actions(self) -> list[str]:
        return [each[0] for each in self.log]


def fault(kind: FaultKind, seed: str = "seed", duration_s: float = 0.0) -> PlannedFault:
    return PlannedFault(kind, 0.0, duration_s, seed)


def test_every_fault_of_the_deck_has_an_injection() -> None:
    assert set(Nemesis._injections) == set(DECK)


async def test_a_killed_replica_starts_again() -> None:
    world = World(fault(FaultKind.KILL))
    await world.nemesis.run()

    (_, victim), (_, started) = world.log
    assert (world.actions, started) == (["kill", "start"], victim)
    assert [(each.kind, each.detail) for each in world.reported] == [(FaultKind.KILL, str(victim))]


async def test_the_leader_is_killed() -> None:
    world = World(fault(FaultKind.KILL_LEADER))
    await world.nemesis.run()

    assert world.log == [("kill", LEADER), ("start", LEADER)]


async def test_all_replicas_are_killed_at_once() -> None:
    world = World(fault(FaultKind.KILL_ALL))
    await world.nemesis.run()

    assert world.log == [("kill", 0, 1, 2), ("start", 0, 1, 2)]


async def test_a_paused_replica_continues() -> None:
    world = World(fault(FaultKind.PAUSE))
    await world.nemesis.run()

    assert world.actions == ["freeze", "thaw"]
    assert world.log[0][1] == world.log[1][1]


@pytest.mark.parametrize("seed", range(5))
async def test_faults_of_one_kind_have_different_targets(seed: int) -> None:
    faults = [fault(FaultKind.PAUSE, f"{seed} {each}", duration_s=0.02) for each in range(3)]
    world = World(*faults)
    await world.nemesis.run()

    assert sorted(world.log[:3]) == [("freeze", 0), ("freeze", 1), ("freeze", 2)]


async def test_a_fault_waits_until_a_replica_is_healthy() -> None:
    faults = [fault(FaultKind.PAUSE, f"{each}", duration_s=0.01) for each in range(4)]
    world = World(*faults)
    await world.nemesis.run()

    assert len(world.reported) == 4


async def test_a_fault_without_a_target_is_skipped_at_the_end_of_the_round() -> None:
    world = World(fault(FaultKind.PAUSE), duration_s=0.0)
    world.processes.running = []
    await world.nemesis.run()

    assert (world.log, world.reported) == ([], [])


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        (FaultKind.PARTITION, "partition"),
        (FaultKind.ONE_WAY_CUT, "cut"),
        (FaultKind.FLAPPING_LINKS, "partition"),
        (FaultKind.SLOW_LINKS, "slow_down"),
        (FaultKind.RESET_LINKS, "reset_connections"),
    ],
)
async def test_links_fail_and_heal(kind: FaultKind, action: str) -> None:
    world = World(fault(kind, duration_s=0.01))
    await world.nemesis.run()

    assert (world.actions[0], world.actions[-1]) == (action, "heal")


async def test_the_report_names_the_cut_direction() -> None:
    world = World(fault(FaultKind.ONE_WAY_CUT))
    await world.nemesis.run()

    _, sender, receiver, silently = world.log[0]
    assert sender != receiver
    expected = f"{sender} to {receiver}{', silently' if silently else ''}"
    assert world.reported[0].detail == expected


async def test_faults_of_links_do_not_overlap() -> None:
    faults = [fault(FaultKind.SLOW_LINKS, f"{each}", duration_s=0.01) for each in range(3)]
    world = World(*faults)
    await world.nemesis.run()

    assert world.actions == ["slow_down", "heal"] * 3


async def test_writes_to_a_failing_disk_succeed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(fault(FaultKind.FAILING_DISK))
    for name in ("fail_writes", "allow_writes"):
        record = lambda process, name=name: world.log.append((name, process - 1000))  # noqa: E731
        monkeypatch.setattr(disk_faults, name, record)
    await world.nemesis.run()

    assert world.actions == ["fail_writes", "allow_writes"]
    assert world.reported[0].detail == str(world.log[0][1]) == str(world.log[1][1])


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (FaultKind.FULL_DISK, "is_disk_full"),
        (FaultKind.SLOW_DISK, "disk_delay_us"),
        (FaultKind.CLOCK_STEP, "clock_offset_us"),
    ],
)
async def test_a_simulated_fault_ends(
    kind: FaultKind, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, controls = World(fault(kind)), []
    monkeypatch.setattr(
        world.nemesis, "_control", lambda victim, control: controls.append((victim, control))
    )
    await world.nemesis.run()

    (victim, begun), ended = controls
    assert getattr(begun, field) not in (False, 0)
    assert ended == (victim, ReplicaControl())


async def test_every_replica_restarts_in_turn() -> None:
    world = World(fault(FaultKind.ROLLING_RESTART))
    await world.nemesis.run()

    assert world.log == [(action, each) for each in (0, 1, 2) for action in ("stop", "start")]


async def test_a_replica_that_does_not_stop_cleanly_fails_the_round() -> None:
    world = World(fault(FaultKind.ROLLING_RESTART))
    world.processes.exit_code = 3

    with pytest.raises(ExceptionGroup) as raised:
        await world.nemesis.run()
    assert raised.group_contains(UnexpectedExit, match="exited with 3: Traceback")


def test_the_side_of_a_partition_is_a_minority_of_three_or_its_complement() -> None:
    async def sides() -> set[tuple[int, ...]]:
        world = World()
        return {tuple(world.nemesis._draw_side(Random(seed))) for seed in range(60)}

    assert asyncio.run(sides()) == {(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)}
