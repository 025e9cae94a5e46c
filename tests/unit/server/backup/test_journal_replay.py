"""What a journal tells of the order is what the replica did."""

from random import Random

import pytest

from creekdb.protocol.effects import Committed
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Decided
from creekdb.server.backup.capture import replay_committed
from tests.unit.schemes.bench import Bench


def committed_by(bench: Bench, index: int) -> dict[int, Dot]:
    return {each.index: each.id for each in bench.events[index] if isinstance(each, Committed)}


@pytest.mark.parametrize("checkpoint_every", [7, 4096])
@pytest.mark.parametrize("seed", range(3))
def test_places_are_told_as_they_were_taken(seed: int, checkpoint_every: int) -> None:
    random = Random(seed)
    bench = Bench(3, checkpoint_every=checkpoint_every)
    bench.tick(60)
    for number in range(80):
        bench.cut.clear()
        if random.random() < 0.3:
            bench.isolate(random.randrange(3))
        key = f"key {random.randrange(4)}"
        bench.invoke(random.randrange(3), "put", key, number, strong=random.random() < 0.4)
        bench.tick(random.randrange(4))
        for index in bench.replicas if number % 10 == 0 else ():
            check(bench, index)
    bench.cut.clear()
    bench.tick(400)
    assert [check(bench, index) > 0 for index in bench.replicas] == [checkpoint_every == 7] * 3


def check(bench: Bench, index: int) -> int:
    """Answers from where on it is told."""
    first, requests = replay_committed(bench.records(index))
    places = committed_by(bench, index)
    length = bench[index].committed_length()
    assert first + len(requests) == length
    assert [each.id for each in requests] == [places[place] for place in range(first, length)]
    return first


def test_what_is_not_there_is_not_told() -> None:
    bench = Bench(1)
    bench.tick(60)
    ids = [bench.invoke(0, "put", "a", number, strong=True) for number in range(5)]
    bench.tick(60)
    records = bench.records(0)
    assert [each.id for each in replay_committed(records).requests] == ids
    lost = [each for each in records if not (isinstance(each, Decided) and ids[2] in each.batch)]
    assert [each.id for each in replay_committed(lost).requests] == ids[:2]
    assert replay_committed([]) == (0, ())
