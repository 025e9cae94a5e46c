"""Permanently cut links: a fully connected majority still commits strong operations.

The fuzzer heals every link before it requires liveness. Here no link is healed: as long as some
majority is fully connected, it must elect a leader, exchange requests and commit.
"""

from itertools import combinations
from random import Random

import pytest

from creekdb.simulation.faults.fault_types import Cut
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from tests.simulation.idle_watch import build_watched_simulation

REPLICAS = 5
SECOND_US = 1_000_000


def broken_links(seed: int) -> tuple[list[tuple[int, int]], list[tuple[int, ...]]]:
    """Draw one-way cuts; return them and the majorities that stay fully connected."""
    random = Random(seed)
    share = random.choice((0.15, 0.3, 0.4))
    pairs = [(a, b) for a in range(REPLICAS) for b in range(REPLICAS) if a != b]
    cuts = [pair for pair in pairs if random.random() < share]
    connected_pairs = {frozenset(pair) for pair in pairs} - {frozenset(pair) for pair in cuts}
    majorities = [
        each
        for each in combinations(range(REPLICAS), REPLICAS // 2 + 1)
        if all(frozenset(pair) in connected_pairs for pair in combinations(each, 2))
    ]
    return cuts, majorities


SEEDS = [seed for seed in range(60) if broken_links(seed)[1]][:24]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_connected_majority_commits_while_other_links_stay_cut(seed: int) -> None:
    cuts, majorities = broken_links(seed)
    scenario = Scenario(
        seed=seed,
        replicas=REPLICAS,
        duration_us=6 * SECOND_US,
        settle_us=0,
        tick_us=20_000,
        clients=ClientModel(
            sessions=1,
            think_us=300_000,
            strong_share=1.0,
            tentative_only_share=1.0,
            patience_us=300_000,
        ),
        faults=tuple(Cut(SECOND_US, sender, receiver) for sender, receiver in cuts),
    )
    simulation = build_watched_simulation(scenario)
    samples: list[list[int]] = []

    def sample_lengths() -> None:
        replicas = [node.replica for node in simulation.nodes]
        samples.append([each.view.committed_length() for each in replicas if each is not None])

    simulation.heap.schedule_at(4 * SECOND_US, sample_lengths)
    simulation.heap.schedule_at(6 * SECOND_US - 1, sample_lengths)
    simulation.run()

    before, after = samples
    assert any(all(after[each] > before[each] for each in majority) for majority in majorities)
