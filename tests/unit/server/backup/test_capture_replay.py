"""Journal replay: it yields the committed order of the replica that wrote the journal."""

from random import Random

import pytest

from creekdb.protocol.effects import Committed
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Decided
from creekdb.server.backup.capture import replay_committed
from tests.unit.schemes.replica_harness import ReplicaHarness


def committed_by(harness: ReplicaHarness, index: int) -> dict[int, Dot]:
    return {
        event.index: event.id for event in harness.events[index] if isinstance(event, Committed)
    }


@pytest.mark.parametrize("checkpoint_every", [7, 4096])
@pytest.mark.parametrize("seed", range(3))
def test_replay_yields_the_committed_order(seed: int, checkpoint_every: int) -> None:
    random = Random(seed)
    harness = ReplicaHarness(3, checkpoint_every=checkpoint_every)
    harness.tick(60)
    for number in range(80):
        harness.cut_links.clear()
        if random.random() < 0.3:
            harness.isolate(random.randrange(3))
        key = f"key {random.randrange(4)}"
        harness.invoke(random.randrange(3), "put", key, number, strong=random.random() < 0.4)
        harness.tick(random.randrange(4))
        for index in harness.replicas if number % 10 == 0 else ():
            check(harness, index)
    harness.cut_links.clear()
    harness.tick(400)
    assert [check(harness, index) > 0 for index in harness.replicas] == [checkpoint_every == 7] * 3


def check(harness: ReplicaHarness, index: int) -> int:
    """Compare the replay with the replica. Return the position where the replay starts."""
    first, requests = replay_committed(harness.records(index))
    committed = committed_by(harness, index)
    length = harness[index].view.committed_length()
    assert first + len(requests) == length
    assert [request.id for request in requests] == [
        committed[position] for position in range(first, length)
    ]
    return first


def test_replay_ends_before_a_missing_decision() -> None:
    harness = ReplicaHarness(1)
    harness.tick(60)
    ids = [harness.invoke(0, "put", "a", number, strong=True) for number in range(5)]
    harness.tick(60)
    records = harness.records(0)
    assert [request.id for request in replay_committed(records).requests] == ids
    damaged = [
        record for record in records if not (isinstance(record, Decided) and ids[2] in record.batch)
    ]
    assert [request.id for request in replay_committed(damaged).requests] == ids[:2]
    assert replay_committed([]) == (0, ())
