"""Replicas in the middle of real work: losses, delays, executions held up and a few crashes."""

from random import Random

from creekdb.protocol.messages import decode_message, encode
from tests.unit.schemes.bench import Bench


def busy_bench(seed: int, steps: int = 300, crashes: bool = True) -> Bench:
    random = Random(seed)
    bench = Bench(3, window=4, batch_limit=2, pull_limit=4, catch_up_limit=2, checkpoint_every=12)
    bench.tick(10)
    for _ in range(steps):
        step = random.random()
        index = random.randrange(3)
        if step < 0.2:
            key = random.choice("abc")
            bench.invoke(index, "put", key, random.randrange(100), strong=random.random() < 0.4)
        elif step < 0.8:
            _deliver_some(bench, random)
        elif step < 0.9:
            bench.beat()
        elif step < 0.98:
            _hold_or_run(bench, index)
        elif crashes:
            bench.crash(index)
            bench.restart(index)
    return bench


def _deliver_some(bench: Bench, random: Random) -> None:
    """Messages from near the front of the line; one in ten is lost, one in ten comes again."""
    for _ in range(random.randrange(6)):
        if not bench.network:
            return
        at = random.randrange(min(4, len(bench.network)))
        sender, receiver, message = bench.network[at]
        del bench.network[at]
        fate = random.random()
        if fate < 0.9:
            bench.receive(receiver, sender, decode_message(encode(message)))
        if fate > 0.8:
            bench.network.append((sender, receiver, message))


def _hold_or_run(bench: Bench, index: int) -> None:
    if index in bench.holding:
        bench.run_held(index)
    else:
        bench.holding[index] = []
