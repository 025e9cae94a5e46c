from msgspec.structs import replace

from creekdb.checkers import Inconclusive, RunIndex
from creekdb.checkers.commit_order import check
from creekdb.history import CabDelivered, CheckpointInstalled, Committed, Dot, RbCast, Voted
from creekdb.protocol.ids.version_vector import DotSet
from tests.unit.checkers.history_builder import (
    BALLOT,
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    extended_run,
    typical_run,
    with_event,
)


def _cast_requests() -> tuple[HistoryBuilder, Dot, Dot, Dot]:
    """Cast two weak requests at different replicas, and a strong one with both in its context."""
    builder = HistoryBuilder()
    one, two = builder.invoke_weak(1, "append", 1), builder.invoke_weak(0, "append", 2)
    builder.rb_deliver(one)
    builder.rb_deliver(two)
    strong = builder.invoke_strong(0, "append", 3)
    builder.rb_deliver(strong)
    return builder, one, two, strong


def _commit(builder: HistoryBuilder, *order: Dot) -> HistoryBuilder:
    for replica in range(3):
        for index, dot in enumerate(order):
            builder.log(replica, Committed(dot, index))
    return builder


def test_an_order_built_by_commit_is_legal() -> None:
    assert_ok(check, typical_run().history())


def test_weak_requests_out_of_timestamp_order_are_illegal() -> None:
    builder, one, two, strong = _cast_requests()
    verdict = assert_illegal(
        check, _commit(builder, two, one, strong).history(), "against the order of their timestamps"
    )
    assert [each.id for each in verdict.counterexample] == [two, one, strong]


def test_weak_requests_with_equal_timestamps_are_ordered_by_their_origin() -> None:
    builder, one, two, strong = _cast_requests()
    first = builder.requests[two]
    second = replace(builder.requests[one], timestamp=first.timestamp)
    assert first.key < second.key

    for order in ((two, one, strong), (one, two, strong)):
        builder, *_ = _cast_requests()
        history = _commit(builder, *order).history()
        history = with_event(history, 1, RbCast(builder.requests[one]), RbCast(second))
        if order[0] == two:
            assert_ok(check, replace(history, quiescent=False))
        else:
            assert_illegal(check, history, "against the order of their timestamps")


def test_a_strong_request_without_a_weak_one_of_its_context_is_illegal() -> None:
    builder, one, two, strong = _cast_requests()
    history = _commit(builder, one, strong, two).history()
    assert_illegal(
        check, history, f"{strong} was committed at 1 without {two} of its causal context"
    )


def test_a_weak_request_outside_of_the_causal_context_is_illegal() -> None:
    builder, one, two, strong = _cast_requests()
    other = builder.invoke_weak(2, "append", 4)
    history = _commit(builder, one, two, other, strong).history()
    assert_illegal(
        check, history, f"{other} was committed with {strong}, whose causal context lacks it"
    )


def test_a_weak_request_that_no_strong_one_follows_is_illegal() -> None:
    builder, one, two, strong = _cast_requests()
    other = builder.invoke_weak(2, "append", 4)
    history = _commit(builder, one, two, strong, other).history()
    assert_illegal(check, history, f"{other} is committed, but no strong request follows it")


def test_strong_requests_out_of_delivery_order_are_illegal() -> None:
    builder = HistoryBuilder()
    one, two = builder.invoke_strong(0, "append", 1), builder.invoke_strong(1, "append", 2)
    builder.log(0, CabDelivered(one, 0))
    builder.log(0, CabDelivered(two, 1))
    history = _commit(builder, two, one).history()
    assert_illegal(check, history, f"the next strong request on committed is {two}")


def test_a_delivered_request_must_be_committed_in_a_quiescent_run() -> None:
    builder = HistoryBuilder()
    one = builder.invoke_strong(0, "append", 1)
    builder.log(0, CabDelivered(one, 0))
    assert_illegal(check, builder.history(), "0 are committed, 1 were CAB-delivered")


def test_a_delivered_request_may_be_uncommitted_before_quiescence() -> None:
    builder = HistoryBuilder()
    builder.log(0, CabDelivered(builder.invoke_strong(0, "append", 1), 0))
    assert_ok(check, builder.history(quiescent=False))


def test_a_strong_request_without_a_causal_context_is_illegal() -> None:
    builder = HistoryBuilder()
    one = builder.invoke_strong(0, "append", 1)
    cast = builder.requests[one]
    history = _commit(builder, one).history()
    history = with_event(history, 0, RbCast(cast), RbCast(replace(cast, context=None)))
    assert_illegal(check, history, f"{one} was committed without a causal context")


def test_a_committed_request_that_was_never_cast_is_illegal() -> None:
    assert_illegal(check, _commit(HistoryBuilder(), Dot(0, 1)).history(), "was never cast")


def test_unrecorded_indices_make_the_verdict_inconclusive() -> None:
    builder = HistoryBuilder(1)
    one = builder.invoke_strong(0, "append", 1)
    builder.log(0, CheckpointInstalled(1, 1, DotSet([one]).freeze()))
    assert isinstance(check(RunIndex(builder.history())), Inconclusive)


# --- cuts ---------------------------------------------------------------------------------------


def test_a_decided_cut_extends_the_causal_context() -> None:
    builder, strong = extended_run(Dot(0, 2), Dot(1, 1))
    history = builder.history(quiescent=False)
    committed = [Dot(0, 1), Dot(1, 1), Dot(0, 2), strong]
    assert RunIndex(history).committed == committed
    assert RunIndex(history).cuts == {strong: {0: 2, 1: 1}}
    assert_ok(check, history)


def test_a_cut_with_a_later_request_is_illegal() -> None:
    builder, strong = extended_run(Dot(0, 3))
    assert_illegal(
        check, builder.history(quiescent=False), f"0.3 was committed with {strong}, which precedes"
    )


def test_an_incomplete_cut_is_illegal() -> None:
    builder, strong = extended_run(Dot(0, 1))
    history = builder.history(quiescent=False)
    extended = tuple(Dot(0, event) for event in (1, 2))
    for replica in range(3):
        voted = Voted(BALLOT, 0, (extended[0], strong))
        history = with_event(history, replica, voted, Voted(BALLOT, 0, (extended[1], strong)))
    assert_illegal(check, history, f"{strong} was committed at 1 without 0.2 of its cut")


def test_only_the_decided_cut_counts() -> None:
    """A minority voted for the cut, and another batch was decided."""
    builder, strong = extended_run(Dot(0, 1))
    history = builder.history(quiescent=False)
    voted, other = Voted(BALLOT, 0, (Dot(0, 1), strong)), Voted(BALLOT, 0, (Dot(1, 1), strong))
    for replica in (0, 1):
        history = with_event(history, replica, voted, other)
    assert_illegal(
        check,
        history,
        f"0.1 was committed with {strong}, whose causal context and decided cut lack it",
    )


def test_the_cut_of_the_first_instance_counts() -> None:
    builder, strong = extended_run(Dot(0, 1))
    builder.decide(Dot(0, 2), strong)
    assert_ok(check, builder.history(quiescent=False))
