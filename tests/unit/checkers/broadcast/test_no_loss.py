"""Section 5, no loss: a majority has received each delivered request and its causal context."""

import pytest

from creekdb.checkers.broadcast.no_loss import check
from creekdb.history import Dot, Voted
from tests.unit.checkers.history_builder import (
    BALLOT,
    PRIMARY,
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    extended_run,
    random_run,
    typical_run,
)


def test_typical_and_random_runs_are_legal() -> None:
    assert_ok(check, typical_run().history())
    for seed in range(20):
        assert_ok(check, random_run(seed).history())


def test_a_delivery_that_a_majority_received_is_legal() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", "a")
    strong = builder.invoke_strong(0, "append", "b")
    builder.rb_deliver(weak, 1)
    builder.rb_deliver(strong, 1)
    builder.decide(strong)
    builder.cab_deliver(0)

    assert_ok(check, builder.history(quiescent=False))


def test_a_request_on_the_disk_of_a_crashed_replica_counts() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", "a")
    builder.rb_deliver(strong, 1)
    builder.decide(strong)
    builder.crash(1)
    builder.cab_deliver(0)

    assert_ok(check, builder.history(quiescent=False))


def test_a_delivery_that_only_a_minority_received_is_illegal() -> None:
    builder = HistoryBuilder(members=5)
    strong = builder.invoke_strong(0, "append", "a")
    builder.rb_deliver(strong, 1)
    builder.decide(strong)
    builder.cab_deliver(0)

    assert_illegal(
        check,
        builder.history(quiescent=False),
        f"{strong} was CAB-delivered when 2 of 5 replicas had received it "
        "and its causal context: 0, 1",
    )


def test_a_delivery_whose_context_only_a_minority_received_is_illegal() -> None:
    builder = HistoryBuilder()
    builder.invoke_weak(0, "append", "a")
    strong = builder.invoke_strong(0, "append", "b")
    builder.rb_deliver(strong)
    builder.decide(strong)
    builder.cab_deliver(0)

    assert_illegal(check, builder.history(quiescent=False), "when 1 of 3 replicas had received it")


def test_a_request_received_after_the_delivery_does_not_count() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", "a")
    builder.decide(strong)
    builder.cab_deliver(0)
    builder.rb_deliver(strong)
    builder.cab_deliver()

    assert_illegal(
        check, builder.history(quiescent=False), f"{strong} was CAB-delivered when 1 of 3"
    )


def test_a_request_received_at_the_time_of_the_delivery_counts() -> None:
    """Events with the same time are unordered."""
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", "a")
    builder.decide(strong)
    builder.is_clock_stopped = True
    builder.cab_deliver(0)
    builder.rb_deliver(strong, 1)

    assert_ok(check, builder.history(quiescent=False))


def test_a_strong_request_of_the_context_must_be_committed_at_a_majority() -> None:
    builder = HistoryBuilder()
    first = builder.invoke_strong(0, "append", "a")
    builder.rb_deliver(first)
    builder.decide(first)
    builder.cab_deliver(0)
    second = builder.invoke_strong(0, "append", "b")
    builder.rb_deliver(second)
    builder.decide(second)
    builder.cab_deliver(0)

    assert_illegal(
        check, builder.history(quiescent=False), f"{second} was CAB-delivered when 1 of 3"
    )


@pytest.mark.parametrize("received", [False, True])
def test_a_vote_without_the_request_or_its_context_is_illegal(received: bool) -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", "a")
    strong = builder.invoke_strong(0, "append", "b")
    if received:
        builder.rb_deliver(strong, 1)
    builder.log(1, Voted(BALLOT, 0, (strong,)))

    missing = f"{weak} of its causal context" if received else "it"
    assert_illegal(
        check,
        builder.history(quiescent=False),
        f"replica 1 voted for {strong}, but had not received {missing}",
    )


def test_a_vote_for_a_request_that_was_never_cast_is_illegal() -> None:
    builder = HistoryBuilder()
    builder.log(1, Voted(BALLOT, 0, (Dot(2, 7),)))

    assert_illegal(
        check, builder.history(quiescent=False), "replica 1 voted for 2.7, but had not received it"
    )


def test_a_primary_may_deliver_a_request_that_it_alone_received() -> None:
    builder = HistoryBuilder(members=5, guarantees=PRIMARY)
    builder.decide(builder.invoke_weak(0, "append", "a"))
    builder.cab_deliver(0)

    assert_ok(check, builder.history(quiescent=False))


def test_a_delivery_that_the_primary_has_not_received_is_illegal() -> None:
    builder = HistoryBuilder(guarantees=PRIMARY)
    weak = builder.invoke_weak(1, "append", "a")
    builder.rb_deliver(weak, 2)
    builder.decide(weak)
    builder.cab_deliver(1)

    assert_illegal(
        check, builder.history(quiescent=False), f"{weak} was CAB-delivered when 0 of 1 replicas"
    )


def test_a_vote_for_a_received_cut_is_legal() -> None:
    assert_ok(check, extended_run(Dot(0, 2), Dot(1, 1))[0].history(quiescent=False))


def test_a_vote_for_a_cut_with_a_missing_request_is_illegal() -> None:
    builder = HistoryBuilder()
    first, last = (builder.invoke_weak(0, "append", each) for each in "ab")
    strong = builder.invoke_strong(1, "append", "c")
    builder.rb_deliver(strong)
    builder.rb_deliver(last, 1)
    builder.log(1, Voted(BALLOT, 0, (last, strong)))

    assert_illegal(
        check,
        builder.history(quiescent=False),
        f"replica 1 voted for {last}, but had not received {first} of its cut",
    )
