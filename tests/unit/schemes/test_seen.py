"""What is here, and executed after what comes behind it, is not seen by that."""

from creek.protocol.dots import Dot
from creek.protocol.effects import Kind
from tests.unit.schemes.alone import Alone


def test_where_several_are_executed_at_once_it_is_seen_when_all_before_it_are_executed() -> None:
    alone = Alone(parallelism=2)
    replica = alone.replica
    first, second = alone.hear(5, "increment", "a", 1), alone.hear(6, "increment", "a", 1)
    assert replica.has(first)
    assert not replica.is_seen(first)
    alone.step(second)
    assert not replica.is_seen(second), "it will be executed again"
    alone.step(first)
    assert replica.is_seen(first)
    alone.work()
    assert replica.is_seen(second)
    late = alone.hear(4, "increment", "a", 1)
    assert not replica.is_seen(second)
    alone.work()
    alone.commit(late, first, second)
    alone.work()
    assert replica.is_seen(second), "it is settled"
    assert not replica.is_seen(Dot(1, 9))


def test_where_they_are_executed_one_by_one_it_is_seen_at_once() -> None:
    alone = Alone(parallelism=1)
    alone.hear(5, "increment", "a", 1)
    last = alone.hear(6, "increment", "a", 1)
    assert alone.replica.is_seen(last)
    mine = alone.invoke("increment", "a", 1)
    alone.work()
    assert alone.answers_to(mine) == [(Kind.TENTATIVE, 3)]


def test_the_last_that_was_issued_is_known_in_the_next_life() -> None:
    alone = Alone()
    assert alone.replica.last_issued() == Dot(0, 0)
    alone.invoke("increment", "a", 1)
    last = alone.invoke("increment", "a", 1)
    again = Alone()
    again.replica.recover(alone.journal)
    assert again.replica.last_issued() == last
