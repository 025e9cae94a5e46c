"""What is here, and executed after what comes behind it, is not seen by that."""

from typing import Any

import creekdb
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Checkpoint, Snapshot
from tests.unit.schemes.single_replica import Alone

NOTES = creekdb.DataType("notes")


@NOTES.operation
def put(tx: creekdb.Transaction, key: str, value: int) -> None:
    tx.put(key, value)


@NOTES.operation
def copy(tx: creekdb.Transaction, source: str, to: str) -> None:
    tx.put(to, ("copied", tx.get(source)))


@NOTES.operation(readonly=True)
def get(tx: creekdb.Transaction, key: str) -> Any:
    return tx.get(key)


@NOTES.operation
def note(tx: creekdb.Transaction, key: str, to: str) -> Any:
    tx.put(to, 1)
    return tx.get(key)


def test_where_several_are_executed_at_once_it_is_seen_when_all_before_it_are_executed() -> None:
    alone = Alone(parallelism=2)
    replica = alone.replica
    first, second = alone.hear(5, "increment", "a", 1), alone.hear(6, "increment", "a", 1)
    assert replica.has_request(first)
    assert not replica.is_visible(first)
    alone.step(second)
    assert not replica.is_visible(second), "it will be executed again"
    alone.step(first)
    assert replica.is_visible(first)
    alone.work()
    assert replica.is_visible(second)
    late = alone.hear(4, "increment", "a", 1)
    assert not replica.is_visible(second)
    alone.work()
    alone.commit(late, first, second)
    alone.work()
    assert replica.is_visible(second), "it is settled"
    assert not replica.is_visible(Dot(1, 9))


def test_where_they_are_executed_one_by_one_it_is_seen_at_once() -> None:
    alone = Alone(parallelism=1)
    alone.hear(5, "increment", "a", 1)
    last = alone.hear(6, "increment", "a", 1)
    assert alone.replica.is_visible(last)
    mine = alone.invoke("increment", "a", 1)
    alone.work()
    assert alone.answers_to(mine) == [(ResponseKind.TENTATIVE, 3)]


def test_the_last_that_was_issued_is_known_in_the_next_life() -> None:
    alone = Alone()
    assert alone.replica.last_issued() == Dot(0, 0)
    alone.invoke("increment", "a", 1)
    last = alone.invoke("increment", "a", 1)
    again = Alone()
    again.replica.recover(alone.journal)
    assert again.replica.last_issued() == last


def after_another(alone: Alone) -> tuple[Dot, Dot, Dot]:
    """A request of another replica, which is executed; and what comes after it and is not: an
    operation that only reads, and another one."""
    alone.hear(5, "put", "y", 7, origin=2)
    known = alone.hear(10, "copy", "y", "x", origin=1)
    alone.work()
    reading = alone.invoke("get", "x", session=5, after=(known,))
    writing = alone.invoke("note", "x", "z", session=6, after=(known,))
    return known, reading, writing


def test_what_comes_after_a_request_is_answered_when_that_is_executed_again() -> None:
    alone = Alone(NOTES, parallelism=4)
    known, reading, writing = after_another(alone)
    alone.commit(known)  # before what it has read
    alone.step(reading)
    alone.step(writing)
    assert alone.answers_to(reading) == alone.answers_to(writing) == []
    alone.work()
    copied = [(ResponseKind.TENTATIVE, ("copied", None))]
    assert alone.answers_to(reading) == alone.answers_to(writing) == copied


def test_what_comes_after_a_request_does_so_also_when_all_is_executed_anew() -> None:
    alone = Alone(NOTES, parallelism=8)
    _, reading, writing = after_another(alone)
    alone.tasks.clear()
    checkpoint = Checkpoint(1, 1, Dots({2: (1, 2)}), 5, state=(("y", 8),), outcomes=())
    alone.replica.receive(Snapshot(checkpoint), 1, alone.now)
    alone.take()
    alone.step(reading)
    alone.step(writing)
    assert alone.answers_to(reading) == alone.answers_to(writing) == []
    alone.work()
    copied = [(ResponseKind.TENTATIVE, ("copied", 8))]
    assert alone.answers_to(reading) == alone.answers_to(writing) == copied


def test_what_comes_after_a_request_also_comes_after_what_its_client_did_before_that() -> None:
    """Story 29 of `make chaos ARGS="--seed 51711"`: a client left a replica, and its next answer,
    elsewhere, was without some of what it had done."""
    alone = Alone(NOTES, parallelism=4)
    earlier = alone.hear(5, "put", "x", 1, origin=1)
    last = alone.hear(6, "put", "y", 2, origin=1)
    reading = alone.invoke("get", "x", session=5, after=(last,))
    writing = alone.invoke("note", "x", "z", session=6, after=(last,))
    for each in (last, reading, writing):
        alone.step(each)
    assert alone.answers_to(reading) == alone.answers_to(writing) == []
    alone.step(earlier)
    alone.work()
    assert alone.answers_to(reading) == alone.answers_to(writing) == [(ResponseKind.TENTATIVE, 1)]


def test_what_is_executed_later_and_stands_behind_a_request_is_not_waited_for() -> None:
    alone = Alone(NOTES, parallelism=4)
    last = alone.hear(5, "put", "x", 1, origin=1)
    other = alone.hear(6, "put", "y", 2, origin=2)
    reading = alone.invoke("get", "x", after=(last,))
    alone.step(last)
    alone.step(reading)
    assert alone.answers_to(reading) == [(ResponseKind.TENTATIVE, 1)]
    alone.step(other)
    alone.work()


def test_what_was_settled_before_is_not_waited_for() -> None:
    alone = Alone(NOTES, parallelism=4)
    known = alone.hear(10, "put", "x", 1)
    alone.commit(known)
    alone.work()
    reading = alone.invoke("get", "x", after=(known,))
    alone.work()
    assert alone.answers_to(reading) == [(ResponseKind.TENTATIVE, 1)]
