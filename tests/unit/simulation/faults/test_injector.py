"""Effects of faults: each does what its help says, for as long as it says, and then ends."""

from collections.abc import Callable
from typing import Any

import pytest

from creekdb.simulation.faults.language import parse_faults
from creekdb.simulation.kernel.cluster import Simulation
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from creekdb.simulation.models.parameters import DiskModel
from tests.unit.simulation.toy_replica import build_toy_simulation

OBSERVED_MS = (5, 15, 25, 45)
"""Times of the observations. Faults begin after 10 ms and last 10 ms, or heal after 30 ms."""


def blocked(simulation: Simulation) -> set[tuple[int, int]]:
    """Return the links that lose all messages, each as sender and receiver."""
    flags = simulation.network.blocked
    return {divmod(link, 3) for link, is_blocked in enumerate(flags) if is_blocked}


def is_up(simulation: Simulation) -> tuple[bool, ...]:
    return tuple(node.replica is not None for node in simulation.nodes)


def noise(attribute: str) -> Callable[[Simulation], Any]:
    return lambda simulation: getattr(simulation.network.noise, attribute)


def disk(attribute: str) -> Callable[[Simulation], Any]:
    return lambda simulation: [getattr(node.disk, attribute) for node in simulation.nodes]


def observe(faults: str, read: Callable[[Simulation], Any]) -> list[Any]:
    """Return what `read` yields at the times of observation, and once more after the run."""
    scenario = Scenario(
        seed=1,
        replicas=3,
        duration_us=50_000,
        clients=ClientModel(sessions=1, think_us=1_000),
        disk=DiskModel(fsync_us_min=50, fsync_us_max=100),
        faults=parse_faults(faults),
    )
    simulation = build_toy_simulation(scenario)
    observed: list[Any] = []
    for at_ms in OBSERVED_MS:
        simulation.heap.schedule_at(at_ms * 1000, lambda: observed.append(read(simulation)))
    simulation.run()
    return [*observed, read(simulation)]


ALL_LINKS_OF_0 = {(0, 1), (0, 2), (1, 0), (2, 0)}
ALL_UP = (True, True, True)
WITHOUT_1 = (True, False, True)


@pytest.mark.parametrize(
    ("faults", "read", "expected"),
    [
        ("crash 1 at 10ms", is_up, [ALL_UP, WITHOUT_1, WITHOUT_1, WITHOUT_1, ALL_UP]),
        ("crash-writing 1 at 10ms", is_up, [ALL_UP, WITHOUT_1, WITHOUT_1, WITHOUT_1, ALL_UP]),
        (
            "crash 1 at 10ms; restart 1 at 20ms",
            is_up,
            [ALL_UP, WITHOUT_1, ALL_UP, ALL_UP, ALL_UP],
        ),
        ("die 1 at 10ms", is_up, [ALL_UP, WITHOUT_1, WITHOUT_1, WITHOUT_1, WITHOUT_1]),
        (
            "partition 0|1,2 at 10ms; heal at 30ms",
            blocked,
            [set(), ALL_LINKS_OF_0, ALL_LINKS_OF_0, set(), set()],
        ),
        ("cut 0>1 at 10ms", blocked, [set(), {(0, 1)}, {(0, 1)}, {(0, 1)}, set()]),
        (
            "sever 0>1 at 10ms; heal at 30ms",
            blocked,
            [set(), {(0, 1)}, {(0, 1)}, {(0, 1)}, {(0, 1)}],
        ),
        ("loss 10% at 10ms", noise("loss"), [0, 0.1, 0.1, 0.1, 0]),
        ("duplication 5% at 10ms", noise("duplication"), [0, 0.05, 0.05, 0.05, 0]),
        ("reordering 20% by 7ms at 10ms", noise("reordering"), [0, 0.2, 0.2, 0.2, 0]),
        ("reordering 20% by 7ms at 10ms", noise("reordering_us"), [0, 7_000, 7_000, 7_000, 7_000]),
        ("garbage 5% for 10ms at 10ms", noise("garbage"), [0, 0.05, 0, 0, 0]),
        ("garbage 5% for 10ms at 10ms", noise("can_flip_bits"), [False] * 5),
        ("flips 5% for 10ms at 10ms", noise("can_flip_bits"), [False, *[True] * 4]),
        (
            "spike x5 for 10ms at 10ms",
            lambda simulation: simulation.network.spike_factor,
            [1, 5, 1, 1, 1],
        ),
        (
            "spike x5 for 20ms at 10ms; spike x9 for 10ms at 10ms",
            lambda simulation: simulation.network.spike_factor,
            [1, 9, 5, 1, 1],
        ),
        (
            "slow-disk 1 by 20ms for 10ms at 10ms",
            disk("extra_fsync_us"),
            [[0, 0, 0], [0, 20_000, 0], *[[0, 0, 0]] * 3],
        ),
        (
            "fail-disk 1 for 10ms at 10ms",
            disk("failing"),
            [[0, 0, 0], [0, 1, 0], *[[0, 0, 0]] * 3],
        ),
        (
            "slow-cpu 1 x10 for 10ms at 10ms",
            lambda simulation: [node.cpu.slowdown_factor for node in simulation.nodes],
            [[1, 1, 1], [1, 10, 1], *[[1, 1, 1]] * 3],
        ),
        (
            "skew 1 by 1s at 10ms; skew 1 by 3s at 20ms",
            lambda simulation: simulation.nodes[1].clock.skew_us,
            [0, 1_000_000, 3_000_000, 3_000_000, 3_000_000],
        ),
        (
            "skew 1 by 1s at 10ms; jump 1 by -3s at 20ms",
            lambda simulation: simulation.nodes[1].clock.skew_us,
            [0, 1_000_000, -2_000_000, -2_000_000, -2_000_000],
        ),
    ],
)
def test_a_fault_has_its_effect_until_it_ends(
    faults: str, read: Callable[[Simulation], Any], expected: list[Any]
) -> None:
    assert observe(faults, read) == expected
