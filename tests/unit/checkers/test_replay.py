import pytest
from msgspec.structs import replace

from creekdb.checkers import Inconclusive, RunIndex
from creekdb.checkers.replay import check, equal_exactly
from creekdb.history import (
    CheckpointInstalled,
    Committed,
    Dot,
    FinalState,
    OperationRecord,
    Outcome,
    ResponseKind,
)
from creekdb.protocol.ids.version_vector import DotSet
from tests.unit.checkers.history_builder import (
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    typical_run,
    with_event,
    with_final_state,
    with_operation,
)


def _stable_response(outcome: Outcome | None = None) -> tuple[HistoryBuilder, Dot]:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(1, "append", "w")
    builder.rb_deliver(weak)
    builder.respond(weak)
    strong = builder.invoke_strong(0, "append", "s")
    builder.rb_deliver(strong)
    builder.decide(strong)
    builder.cab_deliver()
    builder.respond(strong, ResponseKind.STABLE, outcome)
    return builder, strong


def test_stable_responses_of_the_sequential_execution_are_legal() -> None:
    assert_ok(check, typical_run().history())


def test_a_stable_response_that_the_sequential_execution_does_not_give_is_illegal() -> None:
    builder, strong = _stable_response(Outcome(1))
    verdict = assert_illegal(check, builder.history(), f"the stable response to {strong} is 1")
    assert "gives 2 at index 1" in verdict.message


def test_a_response_of_another_type_is_illegal() -> None:
    builder, _ = _stable_response(Outcome(2.0))
    assert_illegal(check, builder.history(), "is 2.0, but")


def test_an_error_instead_of_a_value_is_illegal() -> None:
    builder, _ = _stable_response(Outcome(error="IndexError: the list is empty"))
    assert_illegal(check, builder.history(), "is error 'IndexError: the list is empty'")


@pytest.mark.parametrize("other", [Outcome(error="ValueError: no"), Outcome(None)])
def test_another_error_is_illegal(other: Outcome) -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "no_such_operation")
    builder.rb_deliver(strong)
    builder.decide(strong)
    builder.cab_deliver()
    builder.respond(strong, ResponseKind.STABLE)
    assert_ok(check, builder.history())

    def with_other_outcome(record: OperationRecord) -> OperationRecord:
        return replace(record, responses=(replace(record.responses[0], outcome=other),))

    wrong = with_operation(builder.history(), strong, with_other_outcome)
    assert_illegal(check, wrong, f"the stable response to {strong} is")


def test_an_unknown_data_type_or_index_makes_the_verdict_inconclusive() -> None:
    builder, _ = _stable_response()
    assert isinstance(check(RunIndex(replace(builder.history(), datatype="secret"))), Inconclusive)
    builder = HistoryBuilder(1)
    strong = builder.invoke_strong(0, "append", 1)
    builder.log(0, CheckpointInstalled(1, 1, DotSet([strong]).freeze()))
    assert isinstance(check(RunIndex(builder.history())), Inconclusive)


def test_tentative_responses_are_not_checked() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", "s")
    builder.respond(strong, ResponseKind.TENTATIVE, Outcome(99))
    builder.quiesce()
    assert_ok(check, builder.history())


def test_a_final_state_other_than_the_replayed_one_is_illegal() -> None:
    builder, _ = _stable_response()
    wrong = with_final_state(
        builder.history(), 1, lambda each: replace(each, state=each.state[:-1])
    )
    verdict = assert_illegal(check, wrong, "replica 1 ends with another state")
    assert "ends with no value" in verdict.describe()


def test_states_are_compared_in_quiescent_runs_only() -> None:
    builder, _ = _stable_response()
    wrong = with_final_state(builder.history(False), 1, lambda each: replace(each, state=()))
    assert_ok(check, wrong)


def test_only_states_of_fully_committed_replicas_are_compared() -> None:
    """`convergence` checks that replicas commit everything."""
    builder, strong = _stable_response()

    def behind(final: FinalState) -> FinalState:
        return replace(final, committed=final.committed[:-1], state=final.state[:-1])

    def ahead(final: FinalState) -> FinalState:
        return replace(final, tentative=(strong,), state=(*final.state, ("more", 1)))

    for change in (behind, ahead):
        assert_ok(check, with_final_state(builder.history(), 1, change))


def test_a_committed_request_that_was_never_cast_is_illegal() -> None:
    builder, strong = _stable_response()
    history = builder.history()
    for replica in range(3):
        history = with_event(history, replica, Committed(strong, 1), Committed(Dot(2, 9), 1))
    assert_illegal(check, history, "2.9, committed at index 1, was never cast")


def test_a_reused_identifier_denotes_the_surviving_request() -> None:
    builder = HistoryBuilder()
    builder.invoke_weak(0, "append", "lost")
    builder.crash(0)
    builder.restart(0, lost_requests=1)
    builder.respond(builder.invoke_weak(0, "append", "kept"))
    builder.respond(builder.invoke_strong(0, "get_all"))
    builder.quiesce()
    assert builder.history().final_states[0].state[0][1] == "kept"
    assert_ok(check, builder.history())


def test_exact_equality_distinguishes_types_and_equates_nan() -> None:
    nan = float("nan")
    assert equal_exactly((1, {"a": nan}), (1, {"a": float("nan")}))
    assert not equal_exactly(1, True)
    assert not equal_exactly(0.0, -0.0)
    assert not equal_exactly((1,), (1, 2))
    assert not equal_exactly({"a": 1}, {"b": 1})


def _final_response(outcome: Outcome | None = None) -> tuple[HistoryBuilder, Dot]:
    """Return a weak request with the tentative response 1 that is committed second."""
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", "w")
    builder.respond(weak)
    strong = builder.invoke_strong(1, "append", "s")
    builder.rb_deliver(strong)
    builder.decide(strong)
    builder.cab_deliver()
    builder.respond(strong, ResponseKind.STABLE)
    noop = builder.cast_noop(0)
    builder.rb_deliver(weak)
    builder.rb_deliver(noop)
    builder.decide(noop)
    builder.cab_deliver()
    builder.respond(weak, ResponseKind.FINAL, outcome)
    return builder, weak


def test_final_responses_of_the_sequential_execution_are_legal() -> None:
    builder, weak = _final_response()
    assert_ok(check, builder.history())
    (final,) = (each.final for each in builder.history().operations if each.id == weak)
    assert final is not None
    assert (final.outcome, final.changed) == (Outcome(2), True)


def test_a_final_response_that_repeats_a_wrong_tentative_one_is_illegal() -> None:
    builder, weak = _final_response(Outcome(1))
    assert_illegal(
        check, builder.history(), f"the final response to {weak} is 1, but the sequential"
    )


@pytest.mark.parametrize("changed", [False, True])
def test_a_final_response_with_a_wrong_changed_flag_is_illegal(changed: bool) -> None:
    builder, weak = _final_response()

    def change_flag(record: OperationRecord) -> OperationRecord:
        first, final = record.responses
        first = replace(first, outcome=Outcome(2)) if changed else first
        return replace(record, responses=(first, replace(final, changed=changed)))

    wrong = with_operation(builder.history(), weak, change_flag)
    flag = "changed, but equals" if changed else "unchanged, but differs from"
    assert_illegal(check, wrong, f"the final response to {weak} is marked {flag} the tentative one")
