from msgspec.structs import replace

from creekdb.checkers.real_time import check
from creekdb.history import Dot, Outcome, ResponseKind
from tests.unit.checkers.history_builder import (
    STABLE_ONLY,
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    typical_run,
    with_operation,
)


def _reversed_operations() -> tuple[HistoryBuilder, Dot, Dot]:
    """Invoke `late` after the stable response to `early`, but commit it first."""
    builder = HistoryBuilder()
    early = builder.invoke_strong(0, "append", 1)
    builder.respond(early, ResponseKind.STABLE, Outcome(1))
    late = builder.invoke_strong(1, "append", 2, session=1)
    for dot in (early, late):
        builder.rb_deliver(dot)
    builder.decide(late)
    builder.decide(early)
    builder.cab_deliver()
    return builder, early, late


def test_an_order_that_respects_real_time_is_legal() -> None:
    assert_ok(check, typical_run().history())


def test_an_operation_committed_before_one_with_an_earlier_response_is_illegal() -> None:
    builder, early, late = _reversed_operations()
    verdict = assert_illegal(
        check, builder.history(), f"{early} got its stable response before {late}"
    )
    assert [each.id for each in verdict.counterexample] == [early, early, late]


def test_a_later_stable_response_does_not_make_the_order_legal() -> None:
    builder, _, late = _reversed_operations()
    builder.respond(late, ResponseKind.STABLE)
    assert_illegal(check, builder.history(), "is committed after it (at 1, after 0)")


def test_an_operation_follows_all_with_a_response_not_only_the_latest() -> None:
    """The furthest position has the earlier of two responses."""
    builder = HistoryBuilder()
    far, near = builder.invoke_strong(0, "append", 1), builder.invoke_strong(1, "append", 2)
    builder.respond(far, ResponseKind.STABLE, Outcome(3))
    builder.respond(near, ResponseKind.STABLE, Outcome(1))
    late = builder.invoke_strong(2, "append", 3)
    for dot in (far, near, late):
        builder.rb_deliver(dot)
    builder.decide(near, late, far)
    builder.cab_deliver()
    assert_illegal(
        check, builder.history(), f"{far} got its stable response before {late} was invoked"
    )


def test_concurrent_operations_may_be_committed_in_any_order() -> None:
    builder = HistoryBuilder()
    one, two = builder.invoke_strong(0, "append", 1), builder.invoke_strong(1, "append", 2)
    for dot in (one, two):
        builder.rb_deliver(dot)
    builder.decide(two, one)
    builder.cab_deliver()
    for dot in (one, two):
        builder.respond(dot, ResponseKind.STABLE)
    assert_ok(check, builder.history())


def test_a_response_at_the_time_of_the_invocation_does_not_precede_it() -> None:
    builder, early, late = _reversed_operations()
    history = builder.history()
    response_us = next(each.responses[0].at_us for each in history.operations if each.id == early)
    history = with_operation(history, late, lambda each: replace(each, invoked_us=response_us))
    assert_ok(check, history)


def test_weak_operations_need_not_respect_real_time() -> None:
    builder, early, _ = _reversed_operations()
    history = with_operation(builder.history(), early, lambda each: replace(each, strong=False))
    assert_ok(check, history)


def test_a_stable_response_to_an_uncommitted_operation_is_illegal() -> None:
    builder = HistoryBuilder()
    lost = builder.invoke_strong(0, "append", 1)
    builder.respond(lost, ResponseKind.STABLE, Outcome(1))
    assert_illegal(
        check, builder.history(), f"{lost} got a stable response, but is not on committed"
    )


def test_weak_operations_of_a_stable_only_scheme_respect_real_time() -> None:
    builder, early, late = _reversed_operations()
    history = builder.history()
    for dot in (early, late):
        history = with_operation(history, dot, lambda each: replace(each, strong=False))
    assert_ok(check, history)
    assert_illegal(
        check,
        replace(history, guarantees=STABLE_ONLY),
        f"{early} got its stable response before {late} was invoked",
    )
