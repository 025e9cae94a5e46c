"""Section 4.3: responses may fluctuate, but each results from a serialisation of requests."""

import pytest
from msgspec.structs import replace

from creekdb.checkers import Inconclusive, RunIndex
from creekdb.checkers.fluctuating_consistency import check
from creekdb.history import (
    CheckpointInstalled,
    Committed,
    Dot,
    History,
    ObservedOrder,
    OperationRecord,
    Outcome,
    ResponseKind,
    ResponseRecord,
    SchemeGuarantees,
)
from creekdb.protocol.ids.version_vector import DotSet
from tests.unit.checkers.history_builder import (
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    random_run,
    typical_run,
    with_memory_durability,
    with_operation,
)

SEQUENTIAL = SchemeGuarantees(sequential=True)
RESPONSES = (ResponseRecord(10**6, ResponseKind.TENTATIVE, Outcome(1)),)


def with_first_response(history: History, dot: Dot, **changes: object) -> History:
    def change(record: OperationRecord) -> OperationRecord:
        first, *rest = record.responses
        return replace(record, responses=(replace(first, **changes), *rest))

    return with_operation(history, dot, change)


def two_appends() -> tuple[HistoryBuilder, Dot, Dot]:
    builder = HistoryBuilder()
    one = builder.invoke_weak(0, "append", "a")
    builder.respond(one)
    builder.rb_deliver(one)
    other = builder.invoke_weak(1, "append", "b", session=1)
    builder.respond(other)
    return builder, one, other


def test_typical_and_random_runs_are_legal() -> None:
    assert_ok(check, typical_run().history())
    for seed in range(20):
        assert_ok(check, random_run(seed).history())


def test_a_response_may_result_from_its_own_order_alone() -> None:
    builder, _, other = two_appends()
    changed = with_first_response(
        builder.history(), other, outcome=Outcome(1), observed=ObservedOrder(0, ())
    )

    assert_ok(check, changed)


def test_a_response_that_no_order_gives_is_illegal() -> None:
    builder, _, other = two_appends()
    wrong = with_first_response(builder.history(), other, outcome=Outcome(7))

    assert_illegal(check, wrong, f"a response to {other} is 7, but its observed order gives 2")


def test_an_error_with_the_right_value_is_illegal() -> None:
    builder, _, other = two_appends()
    wrong = with_first_response(builder.history(), other, outcome=Outcome(2, "E: no"))

    assert_illegal(check, wrong, f"a response to {other} is error 'E: no', but its observed order")


def test_a_response_that_its_observed_order_does_not_give_is_illegal() -> None:
    builder, _, other = two_appends()
    wrong = with_first_response(builder.history(), other, observed=ObservedOrder(0, ()))

    assert_illegal(check, wrong, f"a response to {other} is 2, but its observed order gives 1")


def test_a_tentative_response_to_a_strong_operation_is_checked() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", "a")
    builder.respond(strong)
    builder.respond(strong, outcome=Outcome(5))
    builder.quiesce()

    assert_illegal(check, builder.history(), f"a response to {strong} is 5")


def test_a_request_that_occurs_twice_is_illegal() -> None:
    builder, one, other = two_appends()
    wrong = with_first_response(builder.history(), other, observed=ObservedOrder(0, (one, one)))
    assert_illegal(check, wrong, f"a response to {other} counts {one} twice")


def test_a_request_in_the_stable_prefix_and_after_it_is_illegal() -> None:
    builder, one, other = two_appends()
    builder.quiesce()
    observed = ObservedOrder(builder.incarnations[1][-1].committed.index(one) + 1, (one,))
    wrong = with_first_response(builder.history(), other, observed=observed)

    assert_illegal(check, wrong, f"a response to {other} counts {one} twice")


def test_a_request_that_was_cast_later_is_illegal() -> None:
    builder, one, other = two_appends()
    wrong = with_first_response(builder.history(), one, observed=ObservedOrder(0, (other,)))

    assert_illegal(check, wrong, f"a response to {one} counts {other}, which had not been cast")


def test_a_stable_prefix_longer_than_committed_is_illegal() -> None:
    builder, one, _ = two_appends()
    wrong = with_first_response(builder.history(), one, observed=ObservedOrder(3, ()))

    assert_illegal(check, wrong, f"a response to {one} has a stable prefix longer than committed")


def test_a_stable_prefix_that_the_replica_had_not_committed_is_illegal() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(1, "append", "b", session=1)
    early = builder.invoke_weak(0, "append", "a")
    builder.respond(early)
    builder.quiesce()
    assert builder.incarnations[0][-1].committed.index(strong) == 0
    wrong = with_first_response(
        builder.history(), early, outcome=Outcome(2), changed=False, observed=ObservedOrder(1, ())
    )

    assert_illegal(
        check,
        wrong,
        f"a response to {early} has a stable prefix of 1 requests, but its replica had committed 0",
    )


def test_a_request_that_the_replica_had_not_delivered_is_illegal() -> None:
    builder = HistoryBuilder()
    remote = builder.invoke_weak(1, "append", "b", session=1)
    local = builder.invoke_weak(0, "append", "a")
    builder.respond(local)
    wrong = with_first_response(
        builder.history(), local, outcome=Outcome(2), observed=ObservedOrder(0, (remote,))
    )

    assert_illegal(
        check, wrong, f"a response to {local} counts {remote}, which its replica had not delivered"
    )


def two_appends_and_a_read() -> tuple[HistoryBuilder, list[Dot]]:
    """Deliver two weak requests at replica 2, and read there."""
    builder = HistoryBuilder()
    appended = [builder.invoke_weak(each, "append", each, session=each) for each in (0, 1)]
    for dot in appended:
        builder.rb_deliver(dot)
    read = builder.invoke_weak(2, "get_all", session=2)
    builder.respond(read)
    return builder, [*appended, read]


def test_tentative_requests_out_of_timestamp_order_are_illegal() -> None:
    builder, (one, two, read) = two_appends_and_a_read()
    assert_ok(check, builder.history())
    wrong = with_first_response(
        builder.history(), read, outcome=Outcome((1, 0)), observed=ObservedOrder(0, (two, one))
    )

    assert_illegal(check, wrong, f"a response to {read} executes {one} after {two}")


def test_a_request_that_follows_the_operation_itself_is_illegal() -> None:
    builder, (one, two, _) = two_appends_and_a_read()
    history = with_first_response(
        with_operation(builder.history(), one, lambda each: replace(each, responses=RESPONSES)),
        one,
        outcome=Outcome(2),
        observed=ObservedOrder(0, (two,)),
    )

    assert_illegal(check, history, f"a response to {one} executes {one} after {two}")


def test_committed_requests_precede_tentative_ones_with_earlier_timestamps() -> None:
    """Only the request with the later timestamp is committed. Its commit reorders the two."""
    builder = HistoryBuilder()
    early = builder.invoke_weak(0, "append", "early", session=1)
    strong = builder.invoke_strong(1, "append", "strong", session=2)
    for dot in (strong, early):
        builder.rb_deliver(dot)
    builder.decide(strong)
    builder.cab_deliver()
    read = builder.invoke_weak(2, "get_all", session=3)
    builder.respond(read)
    builder.quiesce()
    history = builder.history()
    (response,) = (each.tentative for each in history.operations if each.id == read)
    assert response is not None
    assert response.outcome == Outcome(("strong", "early"))

    assert_ok(check, history)
    before = ObservedOrder(0, (early, strong))
    assert_ok(
        check,
        with_first_response(history, read, outcome=Outcome(("early", "strong")), observed=before),
    )


def test_committed_requests_out_of_order_are_illegal() -> None:
    builder = HistoryBuilder()
    one, two = (
        builder.invoke_strong(0, "append", 1, session=1),
        builder.invoke_strong(1, "append", 2, session=2),
    )
    third = builder.invoke_weak(2, "append", 3, session=3)
    for dot in (one, two, third):
        builder.rb_deliver(dot)
    builder.decide(two, one)
    builder.cab_deliver()
    read = builder.invoke_weak(2, "get_all", session=4)
    builder.respond(read)
    assert_ok(check, builder.history(quiescent=False))
    assert builder.incarnations[2][-1].committed == [two, one]

    for ids in ((third, two, one), (two, third, one)):
        values = tuple(builder.requests[dot].operation.arguments[0] for dot in ids)
        wrong = with_first_response(
            builder.history(), read, outcome=Outcome(values), observed=ObservedOrder(0, ids)
        )
        verdict = assert_illegal(check, wrong, f"a response to {read} executes ")
        assert verdict.message.endswith(", against committed and against their timestamps")


def test_a_response_from_a_checkpoint_must_be_final() -> None:
    builder, _, other = two_appends()
    builder.quiesce()
    outcomes = {0: Outcome(1), 1: Outcome(2)}
    index = builder.incarnations[1][-1].committed.index(other)
    right = with_first_response(builder.history(), other, outcome=outcomes[index], observed=None)
    wrong = with_first_response(builder.history(), other, outcome=Outcome(9), observed=None)

    assert_ok(check, right)
    assert_illegal(
        check, wrong, f"a response to {other} from a checkpoint is 9, but committed gives"
    )


def test_every_response_from_a_checkpoint_is_checked() -> None:
    builder, _, _ = two_appends()
    strong = builder.invoke_strong(2, "append", "c", session=2)
    builder.respond(strong)
    builder.quiesce()
    index = builder.incarnations[2][-1].committed.index(strong)

    def with_outcomes(first: int, second: int) -> History:
        responses = tuple(replace(RESPONSES[0], outcome=Outcome(each)) for each in (first, second))
        return with_operation(
            builder.history(), strong, lambda each: replace(each, responses=responses)
        )

    assert_ok(check, with_outcomes(index + 1, index + 1))
    failed = with_operation(
        with_outcomes(index + 1, index + 1),
        strong,
        lambda each: replace(
            each, responses=(replace(RESPONSES[0], outcome=Outcome(index + 1, "E: no")),)
        ),
    )
    assert_illegal(check, failed, f"a response to {strong} from a checkpoint is error 'E: no'")
    assert_illegal(
        check, with_outcomes(9, index + 1), f"a response to {strong} from a checkpoint is 9"
    )
    assert_illegal(
        check, with_outcomes(index + 1, 9), f"a response to {strong} from a checkpoint is 9"
    )


def test_a_response_from_a_checkpoint_to_an_uncommitted_operation_is_illegal() -> None:
    builder, _, other = two_appends()
    wrong = with_first_response(builder.history(), other, observed=None)

    assert_illegal(check, wrong, f"{other} got a response from a checkpoint, but is not committed")


def test_a_response_from_a_checkpoint_with_unrecorded_indices_is_inconclusive() -> None:
    builder = HistoryBuilder(1)
    strong = builder.invoke_strong(0, "append", 1)
    builder.log(0, CheckpointInstalled(1, 1, DotSet([Dot(1, 1)]).freeze()))
    builder.log(0, Committed(strong, 1))
    builder.respond(builder.invoke_weak(0, "append", 2))
    history = with_operation(
        builder.history(), strong, lambda each: replace(each, responses=RESPONSES)
    )

    assert isinstance(check(RunIndex(history)), Inconclusive)


def test_a_local_operation_is_checked() -> None:
    builder, one, _ = two_appends()
    local = OperationRecord(
        session=0,
        replica=0,
        incarnation=0,
        id=Dot(0, -1),
        operation=replace(builder.requests[one].operation, name="get_all", arguments=()),
        strong=False,
        invoked_us=builder.now_us,
        responses=(
            ResponseRecord(
                builder.now_us,
                ResponseKind.TENTATIVE,
                Outcome(("a",)),
                False,
                ObservedOrder(0, (one,)),
            ),
        ),
    )
    history = builder.history()
    right = replace(history, operations=(*history.operations, local))
    lost = replace(local, responses=(replace(local.responses[0], outcome=Outcome(())),))
    wrong = replace(history, operations=(*history.operations, lost))

    assert_ok(check, right)
    assert_illegal(check, wrong, "a response to 0.-1 is (), but its observed order gives ('a',)")


def test_a_session_that_does_not_read_its_writes_is_illegal() -> None:
    builder, one, _ = two_appends()
    local = OperationRecord(
        session=next(each.session for each in builder.history().operations if each.id == one),
        replica=0,
        incarnation=0,
        id=Dot(0, -1),
        operation=replace(builder.requests[one].operation, name="get_all", arguments=()),
        strong=False,
        invoked_us=builder.now_us,
        responses=(
            ResponseRecord(
                builder.now_us, ResponseKind.TENTATIVE, Outcome(()), False, ObservedOrder(0, ())
            ),
        ),
    )
    history = builder.history()
    history = replace(history, operations=(*history.operations, local))

    assert_illegal(
        check,
        history,
        f"a response to 0.-1 does not count {one}, which its session invoked earlier",
    )


@pytest.mark.parametrize("when", ["never", "later", "before"])
def test_a_session_reads_its_strong_writes_once_they_are_stable(when: str) -> None:
    """The strong write is stable never, after the next invocation, or before it."""
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", "a")
    builder.rb_deliver(strong)
    builder.decide(strong)
    builder.cab_deliver()
    if when == "before":
        builder.respond(strong, ResponseKind.STABLE)
    after = builder.invoke_weak(0, "append", "b")
    builder.respond(after)
    if when == "later":
        builder.respond(strong, ResponseKind.STABLE)
    assert_ok(check, builder.history())
    without_write = with_first_response(
        builder.history(), after, outcome=Outcome(1), observed=ObservedOrder(0, ())
    )
    stable = with_first_response(builder.history(), after, observed=ObservedOrder(1, ()))

    assert_ok(check, stable)
    if when == "before":
        assert_illegal(check, without_write, f"a response to {after} does not count {strong}")
    else:
        assert_ok(check, without_write)


def test_an_order_that_contains_the_operation_itself_is_illegal() -> None:
    builder, _, other = two_appends()
    wrong = with_first_response(builder.history(), other, observed=ObservedOrder(0, (other,)))

    assert_illegal(check, wrong, f"a response to {other} counts {other}, which had not been cast")


def test_a_run_without_observed_orders_is_inconclusive() -> None:
    builder, one, other = two_appends()
    unobserved = with_first_response(
        with_first_response(builder.history(), one, observed=None), other, observed=None
    )

    assert isinstance(check(RunIndex(unobserved)), Inconclusive)


def test_a_run_of_an_unknown_data_type_is_inconclusive() -> None:
    history = replace(two_appends()[0].history(), datatype="secret")

    assert isinstance(check(RunIndex(history)), Inconclusive)


def test_a_sequential_replica_executes_on_all_delivered_requests() -> None:
    builder, one, other = two_appends()
    builder.quiesce()
    committed = builder.incarnations[0][-1].committed
    assert committed.index(one) < committed.index(other)
    incomplete = with_first_response(
        builder.history(), other, outcome=Outcome(1), observed=ObservedOrder(0, ())
    )

    assert_ok(check, incomplete)
    assert_ok(check, replace(builder.history(), guarantees=SEQUENTIAL))
    assert_illegal(
        check,
        replace(incomplete, guarantees=SEQUENTIAL),
        f"a response to {other} does not count {one}, which precedes it",
    )


def test_an_order_may_lack_requests_that_are_committed_after_the_operation() -> None:
    builder, one, other = two_appends()
    strong = builder.invoke_strong(1, "append", "c", session=2)
    request = builder.requests[strong]
    assert request.context is not None
    builder.requests[strong] = replace(request, context=request.context.without([one]))
    for dot in (one, other, strong):
        builder.rb_deliver(dot)
    builder.decide(strong)
    builder.cab_deliver()
    builder.quiesce()
    early = with_first_response(
        builder.history(), other, outcome=Outcome(1), observed=ObservedOrder(0, ())
    )

    assert_ok(check, replace(early, guarantees=SEQUENTIAL))


def test_a_response_may_count_commits_that_a_crash_lost_from_memory() -> None:
    builder, _, other = two_appends()
    history = with_first_response(builder.history(), other, observed=ObservedOrder(1, ()))

    assert_illegal(check, history, "has a stable prefix longer than committed")
    assert_ok(check, with_memory_durability(history))


def test_a_wrong_response_on_durable_commits_is_illegal_from_memory() -> None:
    builder, _, other = two_appends()
    builder.quiesce()
    wrong = with_first_response(
        builder.history(), other, outcome=Outcome(7), observed=ObservedOrder(1, ())
    )

    assert_illegal(
        check, with_memory_durability(wrong), f"a response to {other} is 7, but its observed order"
    )
