from random import Random
from typing import Any

import pytest

from creekdb.datatypes.kv import KV
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint, Snapshot
from creekdb.schemes import differential
from creekdb.schemes.differential import SchemeDivergence
from tests.unit.schemes.single_replica import SingleReplica, dots


def differential_replica(datatype: DataType, **settings: int) -> SingleReplica:
    single = SingleReplica(datatype, **settings)
    single.replica = differential.create_replica(0, single.settings, datatype)
    return single


def nondeterministic(*results: Any) -> DataType:
    """Return a data type whose executions each use the next one of the given values."""
    datatype = DataType("nondeterministic")
    remaining = list(results)

    @datatype.operation
    def respond(tx: Transaction) -> Any:
        return remaining.pop(0)

    @datatype.operation
    def store(tx: Transaction) -> None:
        tx.put("stored", remaining.pop(0))

    return datatype


@pytest.mark.parametrize("strong", [True, False])
@pytest.mark.parametrize("results", [(1, 2), (1, True), ("a", None)])
def test_a_different_response_raises_a_divergence(results: tuple[Any, ...], strong: bool) -> None:
    single = differential_replica(nondeterministic(*results))
    id = single.invoke("respond", strong=strong)
    single.execute_all()
    last = (
        id
        if strong
        else single.receive_request(single.now + 10, "noop", origin=2, context=dots(id))
    )
    if not strong:
        single.execute_all()

    with pytest.raises(SchemeDivergence, match=f"the response to {id} at replica 0: creek"):
        single.decide(last)


@pytest.mark.parametrize("values", [(1, 2), (1, True), ((1,), (1.0,))])
def test_a_different_state_raises_a_divergence(values: tuple[Any, ...]) -> None:
    single = differential_replica(nondeterministic(*values))
    single.invoke("store")

    with pytest.raises(SchemeDivergence, match="the state at replica 0"):
        single.execute_all()


def test_a_corrupted_store_is_detected_once_the_replica_is_idle() -> None:
    single = differential_replica(KV)
    single.invoke("put", "a", 1)
    single.execute_all()
    single.replica._execution.store.table.chain("a").versions[-1].value = 2
    single.invoke("put", "b", 1)
    assert single.tasks, "the states are compared once the replica is idle"

    with pytest.raises(SchemeDivergence, match="the state"):
        single.execute_all()


def test_a_deterministic_operation_raises_no_divergence() -> None:
    single = differential_replica(nondeterministic(1, 1, 2, 2))
    returned = single.invoke("respond")
    single.execute_all()
    stored = single.invoke("store")
    single.execute_all()
    single.stabilise(returned, stored)
    single.execute_all()

    assert single.replica.view.state() == {"stored": 2}


@pytest.mark.parametrize("seed", range(4))
def test_correct_schemes_agree(seed: int) -> None:
    """Covers late arrivals, commits that change the order, merged runs and truncated prefixes."""
    random = Random(seed)
    single = differential_replica(KV, kept_apart=16, checkpoint_every=16)
    known: list[Dot] = []
    for _ in range(400):
        key = random.choice("abc")
        if random.random() < 0.3:
            at = max(1, single.now - random.randrange(300))
            known.append(single.receive_request(at * 10**6, "increment", key, 1))
        elif random.random() < 0.1:
            single.stabilise(*known)
        else:
            known.append(single.invoke(random.choice(("put", "increment")), key, 1))
        if random.random() < 0.6:
            single.execute_all()
    single.stabilise(*known)
    single.execute_all()

    assert single.replica.view.is_idle()
    assert single.replica._order.first_position > 0


def test_correct_schemes_agree_after_a_checkpoint() -> None:
    single = differential_replica(KV)
    single.invoke("increment", "a", 1)
    checkpoint = Checkpoint(1, 1, dots(Dot(2, 1)), 5, state=(("a", 7),), outcomes=())
    single.replica.receive(Snapshot(checkpoint), 1, single.now)
    single.take_effects()
    single.execute_all()

    assert single.replica.view.state() == {"a": 8}
