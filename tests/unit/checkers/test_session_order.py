from msgspec.structs import replace

from creekdb.checkers.session_order import check
from creekdb.history import Committed, Dot, Outcome, ResponseKind
from tests.unit.checkers.history_builder import (
    PRIMARY,
    STABLE_ONLY,
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    typical_run,
)


def _commit(builder: HistoryBuilder, *order: Dot) -> HistoryBuilder:
    """Commit in this order at all replicas, regardless of Algorithm 1."""
    for replica in range(3):
        for index, dot in enumerate(order):
            builder.log(replica, Committed(dot, index))
    return builder


def test_an_order_that_respects_sessions_is_legal() -> None:
    assert_ok(check, typical_run().history())


def test_reversed_weak_operations_of_a_session_are_illegal() -> None:
    builder = HistoryBuilder()
    one, two = builder.invoke_weak(0, "append", 1), builder.invoke_weak(0, "append", 2)
    history = _commit(builder, two, one).history()
    verdict = assert_illegal(
        check, history, f"{two} is committed at 0 without the weak {one} before it"
    )
    assert [each.id for each in verdict.counterexample] == [one, two]


def test_a_strong_operation_before_an_earlier_weak_one_is_illegal() -> None:
    builder = HistoryBuilder()
    weak, strong = builder.invoke_weak(0, "append", 1), builder.invoke_strong(0, "append", 2)
    assert_illegal(check, _commit(builder, strong, weak).history(), f"without the weak {weak}")


def test_reversed_weak_operations_of_a_replica_are_illegal() -> None:
    builder = HistoryBuilder()
    one, two = (
        builder.invoke_weak(0, "append", 1, session=1),
        builder.invoke_weak(0, "append", 2, session=2),
    )
    assert_illegal(check, _commit(builder, two, one).history(), f"without the weak {one}")


def test_a_missing_weak_operation_before_a_later_one_is_illegal() -> None:
    builder = HistoryBuilder()
    one, two = builder.invoke_weak(0, "append", 1), builder.invoke_strong(0, "append", 2)
    assert_illegal(check, _commit(builder, two).history(), f"without the weak {one}")


def test_weak_operations_of_different_replicas_may_be_committed_in_any_order() -> None:
    builder = HistoryBuilder()
    one, two = builder.invoke_weak(0, "append", 1), builder.invoke_weak(1, "append", 2)
    assert_ok(check, _commit(builder, two, one).history())


def test_a_strong_operation_is_unordered_until_its_stable_response() -> None:
    builder = HistoryBuilder()
    strong, weak = builder.invoke_strong(0, "append", 1), builder.invoke_weak(0, "append", 2)
    assert_ok(check, _commit(builder, weak, strong).history())


def test_a_strong_operation_precedes_invocations_after_its_stable_response() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.respond(strong, ResponseKind.STABLE, Outcome(1))
    weak = builder.invoke_weak(0, "append", 2)
    history = _commit(builder, weak, strong).history()
    assert_illegal(check, history, "whose stable response its session had received earlier")


def test_a_stable_response_of_another_session_imposes_no_order() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1, session=1)
    builder.respond(strong, ResponseKind.STABLE, Outcome(1))
    weak = builder.invoke_weak(0, "append", 2, session=2)
    assert_ok(check, _commit(builder, weak, strong).history())


def test_identifiers_out_of_session_order_are_illegal() -> None:
    builder = HistoryBuilder()
    one, two = builder.invoke_weak(0, "append", 1), builder.invoke_weak(0, "append", 2)
    history = _commit(builder, one, two).history()
    first, second = history.operations
    late = replace(first, invoked_us=second.invoked_us + 5)
    history = replace(history, operations=(late, second))
    assert_illegal(check, history, f"before the weak {two} at 1, which its session invoked earlier")


def test_uncommitted_requests_follow_all_others() -> None:
    builder = HistoryBuilder()
    one = builder.invoke_weak(0, "append", 1)
    builder.invoke_strong(0, "append", 2)
    builder.invoke_weak(0, "append", 3)
    assert_ok(check, _commit(builder, one).history(quiescent=False))


def test_a_request_lost_in_a_crash_imposes_no_order() -> None:
    builder = HistoryBuilder()
    builder.invoke_weak(0, "append", "lost")
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.invoke_weak(0, "append", "kept")
    builder.quiesce()
    assert_ok(check, builder.history())


def test_individually_ordered_weak_operations_respect_the_replica_order() -> None:
    builder = HistoryBuilder(guarantees=PRIMARY)
    one, two = (
        builder.invoke_weak(0, "append", 1, session=1),
        builder.invoke_weak(0, "append", 2, session=2),
    )
    assert_ok(check, _commit(builder, one, two).history())

    builder = HistoryBuilder(guarantees=PRIMARY)
    one, two = (
        builder.invoke_weak(0, "append", 1, session=1),
        builder.invoke_weak(0, "append", 2, session=2),
    )
    assert_illegal(check, _commit(builder, two, one).history(), f"without the weak {one}")


def test_a_weak_operation_of_a_stable_only_scheme_is_unordered_until_its_response() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    one, two = builder.invoke_weak(0, "append", 1), builder.invoke_weak(0, "append", 2)
    assert_ok(check, _commit(builder, two, one).history())


def test_a_weak_operation_of_a_stable_only_scheme_precedes_invocations_after_its_response() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    one = builder.invoke_weak(0, "append", 1)
    builder.respond(one, ResponseKind.STABLE, Outcome(1))
    two = builder.invoke_weak(0, "append", 2)
    history = _commit(builder, two, one).history()
    assert_illegal(check, history, "whose stable response its session had received earlier")
