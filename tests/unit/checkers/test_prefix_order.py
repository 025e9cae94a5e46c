from msgspec.structs import replace

from creekdb.checkers import Inconclusive, RunIndex
from creekdb.checkers.prefix_order import check
from creekdb.history import CheckpointInstalled, Committed, Dot
from creekdb.protocol.ids.version_vector import DotSet
from tests.unit.checkers.history_builder import (
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    two_delivered_requests,
    typical_run,
    with_event,
    with_final_state,
)


def test_equal_orders_are_legal() -> None:
    assert_ok(check, typical_run().history())


def test_a_prefix_is_legal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_strong(0, "append", 1)
    builder.rb_deliver(dot)
    builder.decide(dot)
    builder.cab_deliver(0)
    assert_ok(check, builder.history(quiescent=False))


def test_different_orders_of_replicas_are_illegal() -> None:
    builder, one, two = two_delivered_requests()
    history = builder.history()
    history = with_event(history, 2, Committed(one, 0), Committed(two, 0))
    history = with_event(history, 2, Committed(two, 1), Committed(one, 1))
    verdict = assert_illegal(check, history, "two requests are committed at index 0")
    assert [each.id for each in verdict.counterexample] == [one, two]
    assert "replica 2 (incarnation 0)" in verdict.describe()


def test_different_orders_of_incarnations_are_illegal() -> None:
    builder, one, _ = two_delivered_requests()
    builder.crash(0)
    builder.restart(0)
    history = with_event(
        builder.history(), 0, Committed(one, 0), Committed(Dot(2, 7), 0), incarnation=1
    )
    assert_illegal(check, history, "two requests are committed at index 0")


def test_an_incarnation_that_recovers_a_prefix_is_legal() -> None:
    builder, _, two = two_delivered_requests()
    builder.crash(0)
    builder.restart(0)
    history = with_event(builder.history(), 0, Committed(two, 1), None, incarnation=1)
    assert_ok(check, history)


def test_a_skipped_index_is_illegal() -> None:
    builder, one, _ = two_delivered_requests()
    assert_illegal(
        check,
        with_event(builder.history(), 1, Committed(one, 0), None),
        "the request after 0 committed ones has index 1",
    )


def test_a_request_committed_twice_is_illegal() -> None:
    builder, one, _ = two_delivered_requests()
    builder.log(0, Committed(one, 2))
    assert_illegal(check, builder.history(), f"{one} is committed twice")


def test_a_checkpoint_of_other_requests_is_illegal() -> None:
    builder, one, two = two_delivered_requests()
    builder.log(2, CheckpointInstalled(1, 1, DotSet([two]).freeze()))
    assert_illegal(check, builder.history(), f"lacks {one}")


def test_a_checkpoint_with_a_wrong_length_is_illegal() -> None:
    builder, one, _ = two_delivered_requests()
    builder.log(2, CheckpointInstalled(1, 2, DotSet([one]).freeze()))
    assert_illegal(check, builder.history(), "a checkpoint of 2 requests contains 1 identifiers")


def test_commits_continue_at_the_end_of_a_checkpoint() -> None:
    builder, _, two = two_delivered_requests()
    builder.crash(0)
    builder.restart(0, checkpoint_instances=1)
    assert_ok(check, builder.history())
    history = with_event(builder.history(), 0, Committed(two, 1), Committed(two, 2), incarnation=1)
    assert_illegal(check, history, "the request after 1 committed ones has index 2")


def test_a_checkpoint_with_a_later_request_and_unrecorded_indices_is_illegal() -> None:
    builder = HistoryBuilder(1)
    one, two = builder.invoke_strong(0, "append", 1), builder.invoke_strong(0, "append", 2)
    builder.log(0, CheckpointInstalled(1, 1, DotSet([two]).freeze()))
    builder.log(0, Committed(two, 1))
    assert_illegal(check, builder.history(), f"contains {two}, which is committed later")
    assert one != two


def test_unrecorded_indices_make_the_verdict_inconclusive() -> None:
    builder = HistoryBuilder(1)
    one = builder.invoke_strong(0, "append", 1)
    builder.log(0, CheckpointInstalled(1, 1, DotSet([one]).freeze()))
    assert isinstance(check(RunIndex(builder.history())), Inconclusive)


def test_a_final_order_longer_than_the_logs_is_not_judged() -> None:
    builder, one, two = two_delivered_requests()
    longer = (one, two, Dot(2, 1))
    assert_ok(
        check, with_final_state(builder.history(), 1, lambda each: replace(each, committed=longer))
    )


def test_a_final_order_other_than_that_of_the_logs_is_illegal() -> None:
    builder, one, two = two_delivered_requests()
    history = with_final_state(
        builder.history(), 1, lambda each: replace(each, committed=(two, one))
    )
    assert_illegal(check, history, "two requests are committed at index 0")
