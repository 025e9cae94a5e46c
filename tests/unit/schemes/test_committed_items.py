"""The state that a prefix of `committed` left, read while later requests are there as well."""

from collections.abc import Iterator
from typing import Any

import pytest

from creekdb.execution.base_state import EmptyBase
from creekdb.execution.datatype import DataType
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    collation_key,
    prefix_range,
)
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.protocol.effects import Task
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes import registry
from creekdb.schemes.core.replica import Replica
from tests.unit.schemes.single_replica import Alone, dots


class TwoAtFirst(EmptyBase):
    def read(self, key: Key) -> Any:
        return {"a": 1, "c": 3}.get(str(key), ABSENT)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        return (key for key in ("a", "c") if start <= collation_key(key) < stop)


SHELF = DataType("shelf", base=TwoAtFirst())


@SHELF.operation
def put(tx: Transaction, key: Key, value: int) -> None:
    tx.put(key, value)


@SHELF.operation
def delete(tx: Transaction, key: Key) -> None:
    tx.delete(key)


def items(replica: Replica, length: int, prefix: str | None = None) -> dict[Key, object]:
    start, stop = (
        (FIRST_COLLATION_KEY, LAST_COLLATION_KEY) if prefix is None else prefix_range(prefix)
    )
    return dict(replica.committed_items(length, start, stop))


def work(replica: Replica) -> None:
    tasks: list[Task] = []
    while True:
        tasks += replica.take_effects().tasks
        if not tasks:
            return
        task = tasks.pop(0)
        replica.completed(task, replica.run(task), 0)


@pytest.mark.parametrize("scheme", sorted(registry.SCHEMES))
def test_every_scheme_tells_what_is_settled_and_nothing_tentative(scheme: str) -> None:
    replica = registry.get_scheme(scheme)(0, Settings(members=(0,)), SHELF)
    for tick in range(20):
        replica.tick(tick)
        work(replica)
    for operation in (SHELF.call("put", "b", 2), SHELF.call("delete", "a")):
        replica.invoke(operation, True, 1, 100)
        work(replica)
    committed = replica.committed_length()
    replica.invoke(SHELF.call("put", "bb", 9), False, 1, 200)
    work(replica)
    assert replica.readable_lengths()[-1] >= committed
    if replica.committed_length() == committed:  # where weak requests are tentative at first
        assert items(replica, committed) == {"b": 2, "c": 3}
        assert items(replica, committed, "b") == {"b": 2}
    assert replica.stable_instances().keys() == {0}


def test_a_state_between_two_commits_can_be_read_until_it_is_settled() -> None:
    alone = Alone(SHELF)
    first = alone.hear(10, "put", "b", 1, knows=dots())
    second = alone.hear(20, "put", "b", 2, origin=2, knows=dots())
    alone.step(first)
    alone.decide(first, second)
    assert list(alone.replica.readable_lengths()) == [0, 1]
    assert items(alone.replica, 0, "b") == {}
    assert items(alone.replica, 1, "b") == {"b": 1}
    alone.work()
    assert list(alone.replica.readable_lengths()) == [2]
    assert items(alone.replica, 2) == {"a": 1, "b": 2, "c": 3}
