from random import Random
from typing import Any

import pytest

from creekdb.datatypes.kv import KV
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint, Snapshot
from creekdb.schemes.differential import DifferentialReplica, SchemeDivergence
from tests.unit.schemes.single_replica import Alone, dots


def with_both(datatype: DataType, **settings: int) -> Alone:
    alone = Alone(datatype, **settings)
    alone.replica = DifferentialReplica(0, alone.settings, datatype)
    return alone


def moody(*answers: Any) -> DataType:
    """Its operations do not do twice the same: each of them uses the next answer."""
    datatype = DataType("moody")
    left = list(answers)

    @datatype.operation
    def say(tx: Transaction) -> Any:
        return left.pop(0)

    @datatype.operation
    def keep(tx: Transaction) -> None:
        tx.put("kept", left.pop(0))

    return datatype


@pytest.mark.parametrize("strong", [True, False])
@pytest.mark.parametrize("answers", [(1, 2), (1, True), ("a", None)])
def test_another_answer_is_a_disagreement(answers: tuple[Any, ...], strong: bool) -> None:
    alone = with_both(moody(*answers))
    id = alone.invoke("say", strong=strong)
    alone.work()
    last = id if strong else alone.hear(alone.now + 10, "noop", origin=2, knows=dots(id))
    if not strong:
        alone.work()

    with pytest.raises(SchemeDivergence, match=f"the answer to {id} at replica 0: creek"):
        alone.decide(last)


@pytest.mark.parametrize("values", [(1, 2), (1, True), ((1,), (1.0,))])
def test_another_state_is_a_disagreement(values: tuple[Any, ...]) -> None:
    alone = with_both(moody(*values))
    alone.invoke("keep")

    with pytest.raises(SchemeDivergence, match="the state at replica 0"):
        alone.work()


def test_a_store_that_lost_something_is_found_out_when_there_is_nothing_left_to_do() -> None:
    alone = with_both(KV)
    alone.invoke("put", "a", 1)
    alone.work()
    alone.replica._store._table.chain("a").versions[-1].value = 2
    alone.invoke("put", "b", 1)
    assert alone.tasks, "not before it is done"

    with pytest.raises(SchemeDivergence, match="the state"):
        alone.work()


def test_an_operation_that_does_the_same_each_time_is_no_disagreement() -> None:
    alone = with_both(moody(1, 1, 2, 2))
    said = alone.invoke("say")
    alone.work()
    kept = alone.invoke("keep")
    alone.work()
    alone.commit(said, kept)
    alone.work()

    assert alone.replica.state() == {"kept": 2}


@pytest.mark.parametrize("seed", range(4))
def test_two_that_are_right_agree(seed: int) -> None:
    """Over late arrivals, commits that change the order, stretches, and what is summed up."""
    random = Random(seed)
    alone = with_both(KV, kept_apart=16, checkpoint_every=16)
    known: list[Dot] = []
    for _ in range(400):
        key = random.choice("abc")
        if random.random() < 0.3:
            at = max(1, alone.now - random.randrange(300))
            known.append(alone.hear(at * 10**6, "increment", key, 1))
        elif random.random() < 0.1:
            alone.commit(*known)
        else:
            known.append(alone.invoke(random.choice(("put", "increment")), key, 1))
        if random.random() < 0.6:
            alone.work()
    alone.commit(*known)
    alone.work()

    assert alone.replica.is_idle()
    assert alone.replica._order.first_position > 0


def test_two_that_are_right_agree_after_a_checkpoint() -> None:
    alone = with_both(KV)
    alone.invoke("increment", "a", 1)
    checkpoint = Checkpoint(1, 1, dots(Dot(2, 1)), 5, state=(("a", 7),), outcomes=())
    alone.replica.receive(Snapshot(checkpoint), 1, alone.now)
    alone.take()
    alone.work()

    assert alone.replica.state() == {"a": 8}
