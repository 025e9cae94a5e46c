"""Reads of the state after a prefix of `committed`, while later requests are present."""

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
from tests.unit.schemes.single_replica import SingleReplica, dots


class TwoInitialRegisters(EmptyBase):
    def read(self, key: Key) -> Any:
        return {"a": 1, "c": 3}.get(str(key), ABSENT)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        return (key for key in ("a", "c") if start <= collation_key(key) < stop)


BASED_KV = DataType("shelf", base=TwoInitialRegisters())


@BASED_KV.operation
def put(tx: Transaction, key: Key, value: int) -> None:
    tx.put(key, value)


@BASED_KV.operation
def delete(tx: Transaction, key: Key) -> None:
    tx.delete(key)


def items(replica: Replica, length: int, prefix: str | None = None) -> dict[Key, object]:
    start, stop = (
        (FIRST_COLLATION_KEY, LAST_COLLATION_KEY) if prefix is None else prefix_range(prefix)
    )
    return dict(replica.view.committed_items(length, start, stop))


def execute_all(replica: Replica) -> None:
    tasks: list[Task] = []
    while True:
        tasks += replica.take_effects().tasks
        if not tasks:
            return
        task = tasks.pop(0)
        replica.completed(task, replica.run(task), 0)


@pytest.mark.parametrize("scheme", sorted(registry.SCHEMES))
def test_every_scheme_reads_the_committed_state_without_tentative_writes(scheme: str) -> None:
    replica = registry.get_scheme(scheme)(0, Settings(members=(0,)), BASED_KV)
    for tick in range(20):
        replica.tick(tick)
        execute_all(replica)
    for operation in (BASED_KV.call("put", "b", 2), BASED_KV.call("delete", "a")):
        replica.invoke(operation, True, 1, 100)
        execute_all(replica)
    committed = replica.view.committed_length()
    replica.invoke(BASED_KV.call("put", "bb", 9), False, 1, 200)
    execute_all(replica)
    assert replica.view.readable_lengths()[-1] >= committed
    if replica.view.committed_length() == committed:  # if the scheme has tentative requests
        assert items(replica, committed) == {"b": 2, "c": 3}
        assert items(replica, committed, "b") == {"b": 2}
    assert replica.view.stable_instances().keys() == {0}


def test_the_state_between_two_commits_is_readable_until_it_is_stable() -> None:
    single = SingleReplica(BASED_KV)
    first = single.receive_request(10, "put", "b", 1, context=dots())
    second = single.receive_request(20, "put", "b", 2, origin=2, context=dots())
    single.execute(first)
    single.decide(first, second)
    assert list(single.replica.view.readable_lengths()) == [0, 1]
    assert items(single.replica, 0, "b") == {}
    assert items(single.replica, 1, "b") == {"b": 1}
    single.execute_all()
    assert list(single.replica.view.readable_lengths()) == [2]
    assert items(single.replica, 2) == {"a": 1, "b": 2, "c": 3}
