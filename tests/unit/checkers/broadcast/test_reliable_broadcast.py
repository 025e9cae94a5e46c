import pytest
from msgspec.structs import replace

from creekdb.checkers.broadcast.reliable_broadcast import check
from creekdb.history import (
    Ballot,
    BallotPromised,
    CheckpointInstalled,
    Committed,
    Dot,
    Operation,
    OperationRecord,
    Outcome,
    RbCast,
    RbDelivered,
    Request,
    ResponseKind,
)
from creekdb.protocol.ids.version_vector import DotSet
from tests.unit.checkers.history_builder import (
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    typical_run,
    with_event,
    with_memory_durability,
    with_operation,
)


def _lost_request() -> tuple[HistoryBuilder, Dot]:
    """Cast a request at replica 0, lose it in a crash, and restart the replica."""
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", "first")
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    return builder, dot


def test_deliveries_in_order_once_and_at_all_replicas_are_legal() -> None:
    assert_ok(check, typical_run().history())


def test_a_request_delivered_twice_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.rb_deliver(dot)
    builder.log(1, RbDelivered(dot))
    verdict = assert_illegal(check, builder.history(), f"{dot} was RB-delivered twice")
    assert len(verdict.counterexample) == 2


def test_a_delivery_after_the_own_cast_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.log(0, RbDelivered(dot))
    assert_illegal(check, builder.history(), f"{dot} was RB-delivered twice")


def test_a_delivery_covered_by_a_checkpoint_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.log(1, CheckpointInstalled(1, 1, DotSet([dot]).freeze()))
    builder.log(1, RbDelivered(dot))
    assert_illegal(check, builder.history(False), "after a checkpoint that covers it")


def test_a_delivery_without_a_cast_is_illegal() -> None:
    builder = HistoryBuilder()
    builder.log(1, RbDelivered(Dot(0, 1)))
    assert_illegal(check, builder.history(False), "had not been RB-cast")


def test_a_delivery_before_the_cast_is_illegal() -> None:
    builder = HistoryBuilder()
    builder.log(1, RbDelivered(Dot(0, 1)))
    builder.invoke_weak(0, "append", 1)
    assert_illegal(check, builder.history(False), "had not been RB-cast")


def test_a_cast_with_the_identifier_of_another_replica_is_illegal() -> None:
    builder = HistoryBuilder()
    builder.log(1, RbCast(Request(1, Dot(0, 1), Operation("append", (1,)), False)))
    assert_illegal(check, builder.history(False), "0.1 was cast by replica 1, not by its origin")


def test_a_gap_in_the_deliveries_from_an_origin_is_illegal() -> None:
    builder = HistoryBuilder()
    builder.invoke_weak(0, "append", 1)
    second = builder.invoke_weak(0, "append", 2)
    builder.rb_deliver(second, 1)
    assert_illegal(check, builder.history(False), "0.2 was delivered before 0.1")


def test_a_checkpoint_fills_the_gap() -> None:
    builder = HistoryBuilder()
    first = builder.invoke_weak(0, "append", 1)
    second = builder.invoke_weak(0, "append", 2)
    builder.log(1, CheckpointInstalled(1, 1, DotSet([first]).freeze()))
    builder.rb_deliver(second, 1)
    assert_ok(check, builder.history(False))


def test_a_skipped_event_number_is_illegal() -> None:
    builder = HistoryBuilder()
    builder.log(0, RbCast(Request(1, Dot(0, 2), Operation("append", (1,)), False)))
    assert_illegal(check, builder.history(False), "0.2 was delivered before 0.1")


def test_an_event_number_may_be_reused_if_its_request_was_not_observed() -> None:
    builder, _ = _lost_request()
    builder.invoke_weak(0, "append", "second")
    builder.quiesce()
    assert_ok(check, builder.history())


def test_an_event_number_reused_after_a_delivery_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", "first")
    builder.rb_deliver(dot, 1)
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.invoke_weak(0, "append", "second")
    verdict = assert_illegal(
        check, builder.history(), f"event number reused: {dot} denotes two requests"
    )
    assert "replica 1 (incarnation 0): RB-delivered 0.1" in verdict.describe()


def test_an_event_number_reused_after_a_response_is_illegal() -> None:
    builder = HistoryBuilder()
    builder.respond(builder.invoke_weak(0, "append", "first"))
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.invoke_weak(0, "append", "second")
    assert_illegal(check, builder.history(), "denotes two requests, and the first was observed")


def test_an_event_number_reused_after_a_commit_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_strong(0, "append", "first")
    builder.log(0, Committed(dot, 0))
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.invoke_strong(0, "append", "second")
    assert_illegal(check, builder.history(), "denotes two requests, and the first was observed")


def test_an_event_number_reused_after_a_checkpoint_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_strong(0, "append", "first")
    builder.log(1, CheckpointInstalled(1, 1, DotSet([dot]).freeze()))
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.invoke_strong(0, "append", "second")
    assert_illegal(check, builder.history(), "denotes two requests, and the first was observed")


def test_an_event_number_reused_after_its_recovery_is_illegal() -> None:
    builder, dot = _lost_request()
    builder.log(0, RbDelivered(dot))
    builder.log(0, RbCast(Request(99, dot, Operation("append", ("second",)), False)))
    assert_illegal(
        check, builder.history(), f"event number reused: {dot} was delivered before it was cast"
    )


def test_an_event_number_reused_a_crash_after_its_recovery_is_illegal() -> None:
    builder, dot = _lost_request()
    builder.log(0, RbDelivered(dot))
    builder.crash(0)
    builder.restart(0)
    builder.invoke_weak(0, "append", "second")
    assert_illegal(check, builder.history(), "denotes two requests, and the first was observed")


def test_responses_to_two_operations_with_one_identifier_are_illegal() -> None:
    builder, dot = _lost_request()
    builder.invoke_weak(0, "append", "first")
    builder.quiesce()
    history = builder.history()
    responses = next(each.responses for each in history.operations if each.responses)
    history = with_operation(history, dot, lambda each: replace(each, responses=responses))
    first, second = (log.events[0].event for log in history.logs if log.replica == 0)
    assert isinstance(first, RbCast)
    assert isinstance(second, RbCast)
    history = with_event(history, 0, first, second)
    assert_illegal(check, history, f"event number reused: two operations got responses as {dot}")


def test_a_response_without_a_cast_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.respond(dot)
    history = with_event(builder.history(False), 0, RbCast(builder.requests[dot]), None)
    assert_illegal(check, history, f"{dot} got a response, but was never RB-cast")


@pytest.mark.parametrize(
    ("operation", "strong", "legal"),
    [
        (Operation("get_all"), False, True),
        (Operation("get_all"), True, False),
        (Operation("append", (1,)), False, False),
    ],
)
def test_only_a_weak_read_may_be_local(operation: Operation, strong: bool, legal: bool) -> None:
    """Section 4.4, read-only operations."""
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.respond(dot)
    history = builder.history(False)
    responses = next(each.responses for each in history.operations if each.responses)
    local = OperationRecord(
        session=0,
        replica=0,
        incarnation=0,
        id=Dot(0, -1),
        operation=operation,
        strong=strong,
        invoked_us=responses[0].at_us,
        responses=responses,
    )
    history = replace(history, operations=(*history.operations, local))
    if legal:
        assert_ok(check, history)
    else:
        assert_illegal(check, history, "0.-1 got a response, but was never RB-cast")


def test_a_cast_of_another_operation_than_invoked_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.respond(dot)
    other = replace(builder.requests[dot], operation=Operation("append", (2,)))
    history = with_event(builder.history(False), 0, RbCast(builder.requests[dot]), RbCast(other))
    assert_illegal(check, history, f"{dot} got a response, but was never RB-cast")


def test_a_strong_operation_cast_as_weak_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.respond(dot)
    assert_ok(check, builder.history(False))
    strong = with_operation(builder.history(False), dot, lambda each: replace(each, strong=True))
    assert_illegal(check, strong, f"{dot} got a response, but was never RB-cast")


def test_a_cast_of_an_earlier_incarnation_does_not_count() -> None:
    builder, dot = _lost_request()
    builder.invoke_weak(0, "append", "first")
    builder.respond(dot)
    history = builder.history(False)
    assert_ok(check, history)
    assert_illegal(
        check,
        with_event(history, 0, RbCast(builder.requests[dot]), None, incarnation=1),
        f"{dot} got a response, but was never RB-cast",
    )


def test_a_replica_that_loses_its_request_after_the_response_is_illegal() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.respond(dot)
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    assert_illegal(check, builder.history(), f"replica 0 ends without its own {dot}")


@pytest.mark.parametrize("replica", [0, 1])
def test_a_restart_that_loses_a_delivery_is_illegal_despite_redelivery(
    replica: int,
) -> None:
    """The promise implies that the delivery was on disk, at the origin and at another replica."""
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.rb_deliver(dot)
    builder.log(replica, BallotPromised(Ballot(1, 2), 0, 0, ()))
    builder.crash(replica)
    builder.restart(replica, lost_requests=1)
    builder.rb_deliver(dot)
    assert_illegal(check, builder.history(), f"replica {replica} restarted without {dot}")

    lost = [replace(log, has_empty_disk=log.incarnation == 1) for log in builder.history().logs]
    assert_ok(check, replace(builder.history(), logs=tuple(lost)))


def test_a_request_must_reach_all_replicas_in_a_quiescent_run() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.rb_deliver(dot, 1)
    verdict = assert_illegal(
        check, builder.history(), f"replica 0 has {dot}, which replica 2 never delivered"
    )
    assert "replica 2: ends without 0.1" in verdict.describe()


def test_a_request_may_lack_at_a_replica_before_quiescence() -> None:
    builder = HistoryBuilder()
    builder.rb_deliver(builder.invoke_weak(0, "append", 1), 1)
    assert_ok(check, builder.history(quiescent=False))


def test_a_request_may_be_lost_with_a_crashed_replica() -> None:
    builder = HistoryBuilder()
    builder.invoke_weak(0, "append", 1)
    builder.crash(0)
    assert_ok(check, builder.history())


# --- durability "memory" ------------------------------------------------------------------------


def _reused_after_response(kind: ResponseKind = ResponseKind.TENTATIVE) -> HistoryBuilder:
    """Lose a request with a response in a crash, and cast another one with its identifier."""
    builder = HistoryBuilder()
    builder.respond(builder.invoke_strong(0, "append", "first"), kind, Outcome(1))
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.invoke_strong(0, "append", "second")
    builder.quiesce()
    return builder


def test_an_event_number_may_be_reused_after_a_tentative_response_from_memory() -> None:
    assert_ok(check, with_memory_durability(_reused_after_response().history()))


@pytest.mark.parametrize("kind", [ResponseKind.STABLE, ResponseKind.FINAL])
def test_an_event_number_reused_after_a_later_response_is_illegal(kind: ResponseKind) -> None:
    history = with_memory_durability(_reused_after_response(kind).history())
    assert_illegal(check, history, "denotes two requests, and the first was observed")


def test_an_event_number_reused_after_a_delivery_is_illegal_from_memory() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", "first")
    builder.respond(dot)
    builder.rb_deliver(dot, 1)
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.invoke_weak(0, "append", "second")
    history = with_memory_durability(builder.history())
    assert_illegal(check, history, "denotes two requests, and the first was observed")


def test_a_replica_may_lose_its_volatile_request_from_memory() -> None:
    builder = HistoryBuilder()
    builder.respond(builder.invoke_weak(0, "append", 1))
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    assert_ok(check, with_memory_durability(builder.history()))


def test_a_replica_that_loses_a_durable_request_is_illegal_from_memory() -> None:
    builder = HistoryBuilder()
    dot = builder.invoke_weak(0, "append", 1)
    builder.respond(dot)
    builder.log(0, BallotPromised(Ballot(1, 0), 0, 0, ()))
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    history = with_memory_durability(builder.history())
    assert_illegal(check, history, f"replica 0 restarted without {dot}")
