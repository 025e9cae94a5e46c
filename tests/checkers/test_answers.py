import pytest
from msgspec.structs import replace

from creekdb.checkers.responses import check
from creekdb.history import Dot, OperationRecord, Outcome, ResponseKind, SchemeGuarantees
from tests.checkers.story import (
    STABLE_ONLY,
    Story,
    accepts,
    everyday,
    random_story,
    refuses,
    with_operation,
)


def test_one_answer_to_a_weak_and_several_to_a_strong_operation_are_fine() -> None:
    story = Story()
    story.answer(story.weak(0, "append", 1))
    strong = story.strong(0, "append", 2)
    story.answer(strong)
    story.answer(strong)
    story.settle()
    accepts(check, story.history())
    accepts(check, everyday().history())


def test_a_weak_operation_answered_twice_is_caught() -> None:
    story = Story()
    weak = story.weak(0, "append", 1)
    story.answer(weak)
    story.answer(weak)
    verdict = refuses(check, story.history(), f"weak {weak} was answered more than once")
    assert len(verdict.counterexample) == 3


def test_a_second_stable_answer_is_caught() -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.settle()
    story.answer(strong, ResponseKind.STABLE)
    refuses(check, story.history(), "answered again after its stable answer")


def test_a_tentative_answer_after_the_stable_one_is_caught() -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.settle()
    story.answer(strong, ResponseKind.TENTATIVE)
    refuses(check, story.history(), "answered again after its stable answer")


def test_a_strong_operation_that_ends_with_a_final_answer_is_caught() -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.answer(strong)
    story.settle()

    def weakly(record: OperationRecord) -> OperationRecord:
        told, stable = record.answers
        return replace(record, answers=(told, replace(stable, kind=ResponseKind.FINAL)))

    history = with_operation(story.history(), strong, weakly)
    refuses(check, history, f"strong {strong} got the final answer of a weak one")


@pytest.mark.parametrize("at", [0, 1])
def test_only_a_final_answer_may_claim_a_change(at: int) -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.answer(strong)
    story.settle()

    def claiming(record: OperationRecord) -> OperationRecord:
        answers = list(record.answers)
        answers[at] = replace(answers[at], changed=True)
        return replace(record, answers=tuple(answers))

    history = with_operation(story.history(), strong, claiming)
    refuses(check, history, f"an answer to {strong} that is not final claims a change")


def test_an_answer_before_the_invocation_is_caught() -> None:
    story = Story()
    weak = story.weak(0, "append", 1)
    story.answer(weak)
    history = with_operation(story.history(), weak, lambda each: replace(each, invoked_us=10**6))
    refuses(check, history, "go back in time")


def test_a_stable_answer_without_a_commit_is_caught() -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.answer(strong, ResponseKind.STABLE, Outcome(1))
    refuses(check, story.history(), "was not committed there at all")


def test_a_stable_answer_before_the_commit_is_caught() -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.answer(strong, ResponseKind.STABLE, Outcome(1))
    story.settle()
    refuses(check, story.history(), "was not committed there before 0.0")


def test_a_stable_answer_out_of_a_checkpoint_is_fine() -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.gossip(strong)
    story.order(strong)
    story.deliver(1, 2)
    story.install(0, 1)
    story.answer(strong, ResponseKind.STABLE)
    accepts(check, story.history())


def test_an_operation_without_an_answer_is_caught_at_the_end() -> None:
    story = Story()
    weak = story.weak(0, "append", 1)
    accepts(check, story.history(quiescent=False))
    refuses(check, story.history(), f"liveness: {weak} never got an answer")


def test_a_strong_operation_with_only_a_tentative_answer_is_caught_at_the_end() -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.answer(strong)
    refuses(check, story.history(), f"liveness: {strong} never got a stable answer")


def test_what_a_replica_answered_by_itself_is_not_told_how_it_ended() -> None:
    """Section 4.4, read-only operations."""
    story = Story()
    read = story.weak(0, "get_all")
    story.answer(read)
    history = story.history()
    refuses(check, history, f"liveness: {read} never got a final answer")
    accepts(check, with_operation(history, read, lambda each: replace(each, id=Dot(0, -1))))


def test_what_happens_at_one_moment_is_in_time() -> None:
    story = Story()
    strong = story.strong(0, "append", 1)
    story.gossip(strong)
    story.order(strong)
    story.standing_still = True
    story.deliver()
    story.answer(strong)
    story.answer(strong, ResponseKind.STABLE)
    accepts(check, story.history())


def test_an_operation_of_an_incarnation_that_crashed_may_stay_unanswered() -> None:
    story = Story()
    story.weak(0, "append", 1)
    story.crash(0)
    story.restart(0)
    accepts(check, story.history())


def test_an_answer_can_be_read_in_the_counterexample() -> None:
    story = Story()
    weak = story.weak(0, "append", "x", session=4)
    story.answer(weak, ResponseKind.TENTATIVE, Outcome(1))
    story.answer(weak, ResponseKind.TENTATIVE, Outcome(error="ValueError: no"))
    text = refuses(check, story.history(), "more than once").describe()
    assert text.splitlines() == [
        "ILLEGAL  answers: weak 0.1 was answered more than once",
        "      0.010 ms  session 4 at replica 0 (incarnation 0): invoked weak append('x') as 0.1",
        "      0.020 ms  session 4 at replica 0 (incarnation 0): got the tentative answer 1 to 0.1",
        "      0.030 ms  session 4 at replica 0 (incarnation 0): "
        "got the tentative answer error 'ValueError: no' to 0.1",
    ]


def _ended(*kinds: ResponseKind) -> tuple[Story, Dot]:
    story = Story()
    weak = story.weak(0, "append", 1)
    strong = story.strong(0, "append", 2)
    story.gossip(weak)
    story.gossip(strong)
    story.order(strong)
    story.answer(strong)
    story.deliver()
    story.answer(strong, ResponseKind.STABLE)
    for kind in kinds:
        story.answer(weak, kind)
    return story, weak


def test_a_weak_operation_is_told_once_how_it_ended() -> None:
    accepts(check, _ended(ResponseKind.TENTATIVE, ResponseKind.FINAL)[0].history())


def test_a_weak_operation_that_is_told_twice_how_it_ended_is_caught() -> None:
    story, weak = _ended(ResponseKind.TENTATIVE, ResponseKind.FINAL, ResponseKind.FINAL)
    refuses(check, story.history(), f"weak {weak} was answered more than once")


def test_a_weak_operation_that_is_never_told_how_it_ended_is_caught_at_the_end() -> None:
    story, weak = _ended(ResponseKind.TENTATIVE)
    accepts(check, story.history(quiescent=False))
    refuses(check, story.history(), f"liveness: {weak} never got a final answer")


def test_a_final_answer_before_the_commit_is_caught() -> None:
    story = Story()
    weak = story.weak(0, "append", 1)
    story.answer(weak)
    story.answer(weak, ResponseKind.FINAL, Outcome(1))
    refuses(check, story.history(False), f"{weak} got its final answer, but was not committed")


def test_where_all_answers_are_stable_a_weak_operation_gets_one_too() -> None:
    story = Story(terms=STABLE_ONLY)
    weak = story.weak(0, "append", 1)
    story.settle()
    accepts(check, story.history())
    for seed in range(20):
        accepts(check, random_story(seed, STABLE_ONLY).history())
    creek = replace(story.history(), guarantees=SchemeGuarantees())
    refuses(check, creek, f"weak {weak} was answered more than once")


def test_where_all_answers_are_stable_a_tentative_one_is_caught() -> None:
    story = Story(terms=STABLE_ONLY)
    strong = story.strong(0, "append", 1)
    story.answer(strong)
    story.settle()
    refuses(check, story.history(), f"{strong} got another answer than a single stable one")


def test_where_all_answers_are_stable_a_second_one_is_caught() -> None:
    story = Story(terms=STABLE_ONLY)
    weak = story.weak(0, "append", 1)
    story.settle()
    story.answer(weak, ResponseKind.STABLE)
    refuses(check, story.history(), f"{weak} got another answer than a single stable one")


def test_where_all_answers_are_stable_one_before_the_commit_is_caught() -> None:
    story = Story(terms=STABLE_ONLY)
    weak = story.weak(0, "append", 1)
    story.answer(weak, ResponseKind.STABLE, Outcome(1))
    story.settle()
    refuses(check, story.history(), "was not committed there before 0.0")


def test_where_all_answers_are_stable_a_weak_operation_without_one_is_caught() -> None:
    story = Story(terms=STABLE_ONLY)
    weak = story.weak(0, "append", 1)
    story.settle()
    history = with_operation(story.history(), weak, lambda each: replace(each, answers=()))
    refuses(check, history, f"liveness: {weak} never got an answer")
