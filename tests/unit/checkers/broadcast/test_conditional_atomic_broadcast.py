from msgspec.structs import replace

from creekdb.checkers.broadcast.conditional_atomic_broadcast import check
from creekdb.history import (
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Dot,
    Dots,
    History,
    Operation,
    RbCast,
    RbDelivered,
)
from creekdb.history import Request as Req
from creekdb.protocol.ids.version_vector import DotSet
from tests.unit.checkers.history_builder import (
    STABLE_ONLY,
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    extended_run,
    random_run,
    two_delivered_requests,
    typical_run,
    with_event,
)


def _with_context(builder: HistoryBuilder, dot: Dot, context: Dots | None) -> History:
    """Return the history with another causal context of the strong request `dot`."""
    old = builder.requests[dot]
    new = replace(old, context=context)
    return with_event(builder.history(), dot.replica, RbCast(old), RbCast(new))


def test_deliveries_in_one_order_with_true_predicates_are_legal() -> None:
    assert_ok(check, typical_run().history())


def test_a_request_delivered_twice_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_strong(0, "append", 1)
    builder.quiesce()
    builder.log(0, CabDelivered(dot, 1))
    assert_illegal(check, builder.history(), f"{dot} was CAB-delivered twice")


def test_a_delivery_covered_by_a_checkpoint_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_strong(0, "append", 1)
    builder.quiesce()
    builder.crash(0)
    builder.restart(0, checkpoint_instances=1)
    builder.log(0, CabDelivered(dot, 1))
    assert_illegal(check, builder.history(), "after a checkpoint that covers it")


def test_a_cab_delivery_of_a_weak_request_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.log(0, CabDelivered(dot, 0))
    assert_illegal(check, builder.history(), f"{dot} was CAB-delivered, but had not been CAB-cast")


def test_a_cab_delivery_before_the_rb_delivery_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_strong(0, "append", 1)
    builder.log(1, CabDelivered(dot, 0))
    assert_illegal(check, builder.history(), f"{dot} was CAB-delivered before it was RB-delivered")


def test_a_delivery_before_the_causal_context_is_illegal() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", 1)
    builder.rb_deliver(weak, 2)
    strong = builder.invoke_strong(2, "append", 2)
    builder.rb_deliver(strong, 1)
    builder.log(1, CabDelivered(strong, 0))
    verdict = assert_illegal(
        check, builder.history(), f"CAB-delivered without {weak} of its causal context"
    )
    assert verdict.counterexample[0].id == weak


def test_a_checkpoint_delivers_a_causal_context() -> None:
    builder = HistoryBuilder()
    first = builder.invoke_strong(0, "append", 1)
    builder.rb_deliver(first, 1)
    builder.decide(first)
    builder.cab_deliver(0, 1)
    second = builder.invoke_strong(0, "append", 2)
    builder.install_checkpoint(2, 1)
    builder.rb_deliver(second)
    builder.decide(second)
    builder.cab_deliver()
    assert_ok(check, builder.history())


def test_a_strong_request_committed_without_a_delivery_is_illegal() -> None:
    builder, one, _ = two_delivered_requests()
    history = with_event(builder.history(), 2, CabDelivered(one, 0), None)
    assert_illegal(check, history, f"strong {one} was committed, but not CAB-delivered")


def test_a_strong_request_without_a_causal_context_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_strong(0, "append", 1)
    assert_illegal(check, _with_context(builder, dot, None), "cast without a causal context")


def test_an_uncommitted_strong_request_in_a_causal_context_is_illegal() -> None:
    builder = HistoryBuilder()
    first = builder.invoke_strong(0, "append", 1)
    second = builder.invoke_strong(0, "append", 2)
    history = _with_context(builder, second, DotSet([first]).freeze())
    assert_illegal(check, history, f"contains {first}, strong and not committed at its origin")


def test_an_undelivered_request_in_a_causal_context_is_illegal() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(1, "append", 1)
    strong = builder.invoke_strong(0, "append", 2)
    history = _with_context(builder, strong, DotSet([weak]).freeze())
    assert_illegal(check, history, f"contains {weak}, not delivered at its origin")


def test_a_causal_context_that_lacks_a_weak_request_is_illegal() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(1, "append", 1)
    builder.rb_deliver(weak)
    strong = builder.invoke_strong(0, "append", 2)
    assert_illegal(
        check, _with_context(builder, strong, Dots()), f"lacks {weak}, which precedes it"
    )


def test_a_causal_context_that_lacks_a_committed_request_is_illegal() -> None:
    builder = HistoryBuilder()
    first = builder.invoke_strong(0, "append", 1)
    builder.quiesce()
    second = builder.invoke_strong(0, "append", 2)
    assert_illegal(
        check, _with_context(builder, second, Dots()), f"lacks {first}, which precedes it"
    )


def _fast_clock(context: Dots) -> HistoryBuilder:
    """Cast a weak request with a fast clock, and later a strong one with an earlier timestamp."""
    builder = HistoryBuilder()
    weak = Req(10**9, Dot(1, 1), Operation("append", (1,)), False)
    strong = Req(100, Dot(0, 1), Operation("append", (2,)), True, context)
    builder.log(1, RbCast(weak))
    builder.log(0, RbDelivered(weak.id))
    builder.log(0, RbCast(strong))
    return builder


def test_a_causal_context_excludes_tentative_requests_with_a_later_timestamp() -> None:
    assert_ok(check, _fast_clock(Dots()).history(quiescent=False))


def test_a_causal_context_with_a_later_timestamp_is_illegal() -> None:
    builder = _fast_clock(DotSet([Dot(1, 1)]).freeze())
    assert_illegal(check, builder.history(quiescent=False), "contains 1.1, which follows it")


def test_deliveries_in_different_orders_are_illegal() -> None:
    builder, one, two = two_delivered_requests()
    history = with_event(builder.history(), 2, CabDelivered(one, 0), CabDelivered(two, 0))
    history = with_event(history, 2, CabDelivered(two, 1), CabDelivered(one, 1))
    history = with_event(history, 2, Committed(one, 0), Committed(two, 0))
    history = with_event(history, 2, Committed(two, 1), Committed(one, 1))
    assert_illegal(check, history, "CAB deliveries out of order: 0.1 of instance 0 is next")


def test_incarnations_with_different_delivery_orders_are_illegal() -> None:
    builder, one, two = two_delivered_requests()
    builder.crash(2)
    builder.restart(2)
    history = with_event(
        builder.history(False), 2, CabDelivered(one, 0), CabDelivered(two, 0), incarnation=1
    )
    history = with_event(history, 2, CabDelivered(two, 1), None, incarnation=1)
    history = with_event(history, 2, Committed(one, 0), None, incarnation=1)
    assert_illegal(check, history, "CAB deliveries out of order")


def test_a_skipped_delivery_is_illegal() -> None:
    builder, one, _ = two_delivered_requests()
    history = with_event(builder.history(), 2, CabDelivered(one, 0), None)
    history = with_event(history, 2, Committed(one, 0), None)
    verdict = assert_illegal(check, history, "CAB deliveries out of order: 0.1")
    assert verdict.counterexample[-1].actor == "replica 2 (incarnation 0)"


def test_a_request_delivered_in_two_instances_is_illegal() -> None:
    builder, _, two = two_delivered_requests()
    history = with_event(builder.history(), 2, CabDelivered(two, 1), CabDelivered(two, 5))
    assert_illegal(check, history, f"{two} was CAB-delivered in two instances, 1 and 5")


def test_a_crash_within_an_instance_is_legal() -> None:
    builder = HistoryBuilder()
    one, two = builder.invoke_strong(0, "append", 1), builder.invoke_strong(1, "append", 2)
    for dot in (one, two):
        builder.rb_deliver(dot)
    builder.decide(one, two)
    builder.cab_deliver(0, 1)
    builder.log(2, CabDelivered(one, 0))
    builder.crash(2)
    assert_ok(check, builder.history())


def test_a_strong_request_must_be_delivered_in_a_quiescent_run() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_strong(0, "append", 1)
    assert_ok(check, builder.history(quiescent=False))
    assert_illegal(check, builder.history(), f"strong {dot} was CAB-cast and never CAB-delivered")


def test_a_delivery_by_a_crashed_replica_alone_is_illegal_in_a_quiescent_run() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_strong(0, "append", 1)
    builder.rb_deliver(dot)
    builder.decide(dot)
    builder.cab_deliver(0)
    builder.crash(0)
    assert_ok(check, builder.history(quiescent=False))
    verdict = assert_illegal(check, builder.history(), f"replica 1 never CAB-delivered {dot}")
    assert verdict.counterexample[0].actor == "replica 0 (incarnation 0)"


def test_a_restart_that_loses_a_delivery_is_illegal() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", "a")
    builder.rb_deliver(strong)
    builder.decide(strong)
    builder.cab_deliver()
    builder.crash(2)
    builder.restart(2)
    without_delivery = with_event(
        builder.history(), 2, CabDelivered(strong, 0), None, incarnation=1
    )
    without_delivery = with_event(without_delivery, 2, Committed(strong, 0), None, incarnation=1)

    assert_ok(check, builder.history())
    assert_illegal(check, without_delivery, f"replica 2 restarted without {strong} of instance 0")
    lost = [replace(log, has_empty_disk=log.incarnation == 1) for log in without_delivery.logs]
    assert_ok(check, replace(without_delivery, logs=tuple(lost), quiescent=False))


def test_individually_ordered_requests_need_no_context() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    one = builder.invoke_weak(0, "append", 1)
    builder.rb_deliver(one, 1)
    two = builder.invoke_strong(1, "append", 2)
    for dot in (two, one):
        builder.rb_deliver(dot)
        builder.decide(dot)
    builder.cab_deliver()
    assert_ok(check, builder.history(quiescent=False))
    for seed in range(20):
        assert_ok(check, random_run(seed, STABLE_ONLY).history())


def test_an_individually_ordered_request_with_a_context_is_illegal() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    one, two = builder.invoke_weak(0, "append", 1), builder.invoke_strong(0, "append", 2)
    history = _with_context(builder, two, DotSet([one]).freeze())
    assert_illegal(
        check, history, f"{two} is ordered individually, but has {one} in its causal context"
    )


def test_a_request_that_is_not_cab_cast_is_illegal() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    one = builder.invoke_weak(0, "append", 1)
    history = _with_context(builder, one, None)
    assert_illegal(
        check, history, f"{one} was cast, but not CAB-cast; every request must be ordered"
    )


def test_order_and_predicate_are_checked_without_contexts() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    one, two = builder.invoke_weak(0, "append", 1), builder.invoke_weak(0, "append", 2)
    builder.rb_deliver(one, 1)
    builder.rb_deliver(two, 1)
    builder.decide(one)
    builder.decide(two)
    builder.cab_deliver(0)
    builder.log(1, CabDelivered(two, 1))
    assert_illegal(
        check, builder.history(quiescent=False), f"out of order: {one} of instance 0 is next"
    )
    builder.log(2, CabDelivered(one, 0))
    assert_illegal(
        check, builder.history(quiescent=False), f"{one} was CAB-delivered before it was RB-"
    )


def test_a_delivery_ahead_of_its_cut_is_illegal() -> None:
    builder, strong = extended_run(Dot(0, 2), Dot(1, 1))
    assert_ok(check, builder.history(quiescent=False))
    history = with_event(builder.history(quiescent=False), 2, RbDelivered(Dot(1, 1)), None)
    assert_illegal(check, history, f"{strong} was CAB-delivered without 1.1 of its cut")


def test_a_cut_omits_strong_requests_that_a_checkpoint_lacks() -> None:
    builder = HistoryBuilder()
    builder.invoke_strong(0, "append", "pending")
    weak = builder.invoke_weak(0, "append", "covered")
    strong = builder.invoke_strong(1, "get_all")
    builder.log(2, CheckpointInstalled(0, 1, DotSet([weak]).freeze()))
    for dot in (Dot(0, 1), weak):
        builder.rb_deliver(dot, 1)
    builder.rb_deliver(strong)
    builder.decide(weak, strong)
    builder.cab_deliver(2)

    assert_ok(check, builder.history(quiescent=False))
