import pytest
from msgspec.structs import replace

from creekdb.checkers.responses import check
from creekdb.history import Dot, OperationRecord, Outcome, ResponseKind, SchemeGuarantees
from tests.unit.checkers.history_builder import (
    STABLE_ONLY,
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    random_run,
    typical_run,
    with_operation,
)


def test_one_response_to_a_weak_and_several_to_a_strong_operation_are_legal() -> None:
    builder = HistoryBuilder()
    builder.respond(builder.invoke_weak(0, "append", 1))
    strong = builder.invoke_strong(0, "append", 2)
    builder.respond(strong)
    builder.respond(strong)
    builder.quiesce()
    assert_ok(check, builder.history())
    assert_ok(check, typical_run().history())


def test_two_tentative_responses_to_a_weak_operation_are_illegal() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", 1)
    builder.respond(weak)
    builder.respond(weak)
    verdict = assert_illegal(
        check,
        builder.history(),
        f"weak {weak} got responses other than one tentative and one final",
    )
    assert len(verdict.counterexample) == 3


def test_a_second_stable_response_is_illegal() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.quiesce()
    builder.respond(strong, ResponseKind.STABLE)
    assert_illegal(check, builder.history(), "got a response after its stable one")


def test_a_tentative_response_after_the_stable_one_is_illegal() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.quiesce()
    builder.respond(strong, ResponseKind.TENTATIVE)
    assert_illegal(check, builder.history(), "got a response after its stable one")


def test_a_final_response_to_a_strong_operation_is_illegal() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.respond(strong)
    builder.quiesce()

    def make_final(record: OperationRecord) -> OperationRecord:
        tentative, stable = record.responses
        return replace(record, responses=(tentative, replace(stable, kind=ResponseKind.FINAL)))

    history = with_operation(builder.history(), strong, make_final)
    assert_illegal(check, history, f"strong {strong} got a final response")


@pytest.mark.parametrize("index", [0, 1])
def test_only_a_final_response_may_be_marked_as_changed(index: int) -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.respond(strong)
    builder.quiesce()

    def mark_changed(record: OperationRecord) -> OperationRecord:
        responses = list(record.responses)
        responses[index] = replace(responses[index], changed=True)
        return replace(record, responses=tuple(responses))

    history = with_operation(builder.history(), strong, mark_changed)
    assert_illegal(check, history, f"a response to {strong} is marked changed, but is not final")


def test_a_response_before_the_invocation_is_illegal() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", 1)
    builder.respond(weak)
    history = with_operation(builder.history(), weak, lambda each: replace(each, invoked_us=10**6))
    assert_illegal(check, history, "go back in time")


def test_a_stable_response_without_a_commit_is_illegal() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.respond(strong, ResponseKind.STABLE, Outcome(1))
    assert_illegal(check, builder.history(), "its replica had not committed it at all")


def test_a_stable_response_before_the_commit_is_illegal() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.respond(strong, ResponseKind.STABLE, Outcome(1))
    builder.quiesce()
    assert_illegal(check, builder.history(), "its replica had not committed it before 0.0")


def test_a_stable_response_from_a_checkpoint_is_legal() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.rb_deliver(strong)
    builder.decide(strong)
    builder.cab_deliver(1, 2)
    builder.install_checkpoint(0, 1)
    builder.respond(strong, ResponseKind.STABLE)
    assert_ok(check, builder.history())


def test_an_operation_without_a_response_is_illegal_in_a_quiescent_run() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", 1)
    assert_ok(check, builder.history(quiescent=False))
    assert_illegal(check, builder.history(), f"liveness: {weak} never got a response")


def test_a_strong_operation_needs_a_stable_response_in_a_quiescent_run() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.respond(strong)
    assert_illegal(check, builder.history(), f"liveness: {strong} never got a stable response")


def test_a_local_read_needs_no_final_response() -> None:
    """Section 4.4, read-only operations."""
    builder = HistoryBuilder()
    read = builder.invoke_weak(0, "get_all")
    builder.respond(read)
    history = builder.history()
    assert_illegal(check, history, f"liveness: {read} never got a final response")
    assert_ok(check, with_operation(history, read, lambda each: replace(each, id=Dot(0, -1))))


def test_a_response_at_the_time_of_the_commit_is_legal() -> None:
    builder = HistoryBuilder()
    strong = builder.invoke_strong(0, "append", 1)
    builder.rb_deliver(strong)
    builder.decide(strong)
    builder.is_clock_stopped = True
    builder.cab_deliver()
    builder.respond(strong)
    builder.respond(strong, ResponseKind.STABLE)
    assert_ok(check, builder.history())


def test_an_operation_of_a_crashed_incarnation_needs_no_response() -> None:
    builder = HistoryBuilder()
    builder.invoke_weak(0, "append", 1)
    builder.crash(0)
    builder.restart(0)
    assert_ok(check, builder.history())


def test_the_counterexample_shows_the_invocation_and_responses() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", "x", session=4)
    builder.respond(weak, ResponseKind.TENTATIVE, Outcome(1))
    builder.respond(weak, ResponseKind.TENTATIVE, Outcome(error="ValueError: no"))
    text = assert_illegal(
        check, builder.history(), "other than one tentative and one final"
    ).describe()
    assert text.splitlines() == [
        "ILLEGAL  responses: weak 0.1 got responses other than one tentative and one final",
        "      0.010 ms  session 4 at replica 0 (incarnation 0): invoked weak append('x') as 0.1",
        "      0.020 ms  session 4 at replica 0 (incarnation 0): "
        "got the tentative response 1 to 0.1",
        "      0.030 ms  session 4 at replica 0 (incarnation 0): "
        "got the tentative response error 'ValueError: no' to 0.1",
    ]


def _committed_weak_operation(*kinds: ResponseKind) -> tuple[HistoryBuilder, Dot]:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", 1)
    strong = builder.invoke_strong(0, "append", 2)
    builder.rb_deliver(weak)
    builder.rb_deliver(strong)
    builder.decide(strong)
    builder.respond(strong)
    builder.cab_deliver()
    builder.respond(strong, ResponseKind.STABLE)
    for kind in kinds:
        builder.respond(weak, kind)
    return builder, weak


def test_one_final_response_to_a_weak_operation_is_legal() -> None:
    assert_ok(
        check, _committed_weak_operation(ResponseKind.TENTATIVE, ResponseKind.FINAL)[0].history()
    )


def test_two_final_responses_to_a_weak_operation_are_illegal() -> None:
    builder, weak = _committed_weak_operation(
        ResponseKind.TENTATIVE, ResponseKind.FINAL, ResponseKind.FINAL
    )
    assert_illegal(
        check,
        builder.history(),
        f"weak {weak} got responses other than one tentative and one final",
    )


def test_a_weak_operation_needs_a_final_response_in_a_quiescent_run() -> None:
    builder, weak = _committed_weak_operation(ResponseKind.TENTATIVE)
    assert_ok(check, builder.history(quiescent=False))
    assert_illegal(check, builder.history(), f"liveness: {weak} never got a final response")


def test_a_final_response_before_the_commit_is_illegal() -> None:
    builder = HistoryBuilder()
    weak = builder.invoke_weak(0, "append", 1)
    builder.respond(weak)
    builder.respond(weak, ResponseKind.FINAL, Outcome(1))
    assert_illegal(
        check,
        builder.history(False),
        f"{weak} got its final response, but its replica had not committed it",
    )


def test_a_stable_only_scheme_sends_one_stable_response_to_a_weak_operation() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    weak = builder.invoke_weak(0, "append", 1)
    builder.quiesce()
    assert_ok(check, builder.history())
    for seed in range(20):
        assert_ok(check, random_run(seed, STABLE_ONLY).history())
    creek = replace(builder.history(), guarantees=SchemeGuarantees())
    assert_illegal(
        check, creek, f"weak {weak} got responses other than one tentative and one final"
    )


def test_a_stable_only_scheme_sends_no_tentative_response() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    strong = builder.invoke_strong(0, "append", 1)
    builder.respond(strong)
    builder.quiesce()
    assert_illegal(
        check, builder.history(), f"{strong} got responses other than a single stable one"
    )


def test_a_stable_only_scheme_sends_no_second_response() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    weak = builder.invoke_weak(0, "append", 1)
    builder.quiesce()
    builder.respond(weak, ResponseKind.STABLE)
    assert_illegal(check, builder.history(), f"{weak} got responses other than a single stable one")


def test_a_stable_only_scheme_sends_no_response_before_the_commit() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    weak = builder.invoke_weak(0, "append", 1)
    builder.respond(weak, ResponseKind.STABLE, Outcome(1))
    builder.quiesce()
    assert_illegal(check, builder.history(), "its replica had not committed it before 0.0")


def test_a_stable_only_scheme_responds_to_every_weak_operation() -> None:
    builder = HistoryBuilder(guarantees=STABLE_ONLY)
    weak = builder.invoke_weak(0, "append", 1)
    builder.quiesce()
    history = with_operation(builder.history(), weak, lambda each: replace(each, responses=()))
    assert_illegal(check, history, f"liveness: {weak} never got a response")
