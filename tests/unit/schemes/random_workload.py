"""Harness in the middle of a random workload, with losses, delays, held tasks and crashes."""

from random import Random

from creekdb.protocol.messages import decode_message, encode
from tests.unit.schemes.replica_harness import ReplicaHarness


def busy_harness(seed: int, steps: int = 300, crashes: bool = True) -> ReplicaHarness:
    random = Random(seed)
    harness = ReplicaHarness(
        3, window=4, batch_limit=2, pull_limit=4, catch_up_limit=2, checkpoint_every=12
    )
    harness.tick(10)
    for _ in range(steps):
        step = random.random()
        index = random.randrange(3)
        if step < 0.2:
            key = random.choice("abc")
            harness.invoke(index, "put", key, random.randrange(100), strong=random.random() < 0.4)
        elif step < 0.8:
            _deliver_some(harness, random)
        elif step < 0.9:
            harness.tick_without_delivery()
        elif step < 0.98:
            _toggle_held(harness, index)
        elif crashes:
            harness.crash(index)
            harness.restart(index)
    return harness


def _deliver_some(harness: ReplicaHarness, random: Random) -> None:
    """Deliver messages from near the front of the queue. 10 % are delayed and 10 % duplicated."""
    for _ in range(random.randrange(6)):
        if not harness.network:
            return
        at = random.randrange(min(4, len(harness.network)))
        sender, receiver, message = harness.network[at]
        del harness.network[at]
        fate = random.random()
        if fate < 0.9:
            harness.receive(receiver, sender, decode_message(encode(message)))
        if fate > 0.8:
            harness.network.append((sender, receiver, message))


def _toggle_held(harness: ReplicaHarness, index: int) -> None:
    if index in harness.held_tasks:
        harness.run_held_tasks(index)
    else:
        harness.held_tasks[index] = []
