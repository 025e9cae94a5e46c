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
from tests.checkers.story import (
    Story,
    accepts,
    everyday,
    refuses,
    with_event,
    with_final,
    with_operation,
)


def _answered(outcome: Outcome | None = None) -> tuple[Story, Dot]:
    story = Story()
    weak = story.weak(1, "append", "w")
    story.gossip(weak)
    story.answer(weak)
    strong = story.strong(0, "append", "s")
    story.gossip(strong)
    story.order(strong)
    story.deliver()
    story.answer(strong, ResponseKind.STABLE, outcome)
    return story, strong


def test_stable_answers_of_the_sequential_execution_are_fine() -> None:
    accepts(check, everyday().history())


def test_a_stable_answer_that_no_sequential_execution_gives_is_caught() -> None:
    story, strong = _answered(Outcome(1))
    verdict = refuses(check, story.history(), f"the stable answer to {strong} is 1")
    assert "gives 2 at index 1" in verdict.message


def test_an_answer_of_another_type_is_another_answer() -> None:
    story, _ = _answered(Outcome(2.0))
    refuses(check, story.history(), "is 2.0, but")


def test_an_error_in_the_place_of_a_value_is_caught() -> None:
    story, _ = _answered(Outcome(error="IndexError: the list is empty"))
    refuses(check, story.history(), "is error 'IndexError: the list is empty'")


@pytest.mark.parametrize("other", [Outcome(error="ValueError: no"), Outcome(None)])
def test_another_error_is_another_answer(other: Outcome) -> None:
    story = Story()
    strong = story.strong(0, "no_such_operation")
    story.gossip(strong)
    story.order(strong)
    story.deliver()
    story.answer(strong, ResponseKind.STABLE)
    accepts(check, story.history())

    def otherwise(record: OperationRecord) -> OperationRecord:
        return replace(record, answers=(replace(record.answers[0], outcome=other),))

    wrong = with_operation(story.history(), strong, otherwise)
    refuses(check, wrong, f"the stable answer to {strong} is")


def test_without_the_data_type_or_a_place_the_verdict_is_unknown() -> None:
    story, _ = _answered()
    assert isinstance(check(RunIndex(replace(story.history(), datatype="secret"))), Inconclusive)
    story = Story(1)
    strong = story.strong(0, "append", 1)
    story.log(0, CheckpointInstalled(1, 1, DotSet([strong]).freeze()))
    assert isinstance(check(RunIndex(story.history())), Inconclusive)


def test_a_tentative_answer_may_be_anything() -> None:
    story = Story()
    strong = story.strong(0, "append", "s")
    story.answer(strong, ResponseKind.TENTATIVE, Outcome(99))
    story.settle()
    accepts(check, story.history())


def test_a_replica_with_another_state_than_the_replayed_one_is_caught() -> None:
    story, _ = _answered()
    wrong = with_final(story.history(), 1, lambda each: replace(each, state=each.state[:-1]))
    verdict = refuses(check, wrong, "replica 1 ends with another state")
    assert "ends with nothing" in verdict.describe()


def test_states_are_not_compared_before_the_run_has_settled() -> None:
    story, _ = _answered()
    wrong = with_final(story.history(False), 1, lambda each: replace(each, state=()))
    accepts(check, wrong)


def test_a_state_is_held_against_all_that_is_committed_or_not_at_all() -> None:
    """Whether replicas get there is for `convergence` to ask."""
    story, strong = _answered()

    def behind(final: FinalState) -> FinalState:
        return replace(final, committed=final.committed[:-1], state=final.state[:-1])

    def ahead(final: FinalState) -> FinalState:
        return replace(final, tentative=(strong,), state=(*final.state, ("more", 1)))

    for spoil in (behind, ahead):
        accepts(check, with_final(story.history(), 1, spoil))


def test_a_committed_request_that_was_never_cast_is_caught() -> None:
    story, strong = _answered()
    history = story.history()
    for replica in range(3):
        history = with_event(history, replica, Committed(strong, 1), Committed(Dot(2, 9), 1))
    refuses(check, history, "2.9, committed at index 1, was never cast")


def test_the_request_that_survived_is_the_one_replayed() -> None:
    story = Story()
    story.weak(0, "append", "lost")
    story.crash(0)
    story.restart(0, lost=1)
    story.answer(story.weak(0, "append", "kept"))
    story.answer(story.strong(0, "get_all"))
    story.settle()
    assert story.history().final_states[0].state[0][1] == "kept"
    accepts(check, story.history())


def test_exact_equality_tells_types_apart_and_knows_not_a_number() -> None:
    nan = float("nan")
    assert equal_exactly((1, {"a": nan}), (1, {"a": float("nan")}))
    assert not equal_exactly(1, True)
    assert not equal_exactly(0.0, -0.0)
    assert not equal_exactly((1,), (1, 2))
    assert not equal_exactly({"a": 1}, {"b": 1})


def _ended(outcome: Outcome | None = None) -> tuple[Story, Dot]:
    """A weak request that is told 1, and in the end comes second."""
    story = Story()
    weak = story.weak(0, "append", "w")
    story.answer(weak)
    strong = story.strong(1, "append", "s")
    story.gossip(strong)
    story.order(strong)
    story.deliver()
    story.answer(strong, ResponseKind.STABLE)
    noop = story.noop(0)
    story.gossip(weak)
    story.gossip(noop)
    story.order(noop)
    story.deliver()
    story.answer(weak, ResponseKind.FINAL, outcome)
    return story, weak


def test_final_answers_of_the_sequential_execution_are_fine() -> None:
    story, weak = _ended()
    accepts(check, story.history())
    (final,) = (each.final for each in story.history().operations if each.id == weak)
    assert final is not None
    assert (final.outcome, final.changed) == (Outcome(2), True)


def test_a_final_answer_that_is_only_what_was_told_is_caught() -> None:
    story, weak = _ended(Outcome(1))
    refuses(check, story.history(), f"the final answer to {weak} is 1, but the sequential")


@pytest.mark.parametrize("changed", [False, True])
def test_a_final_answer_that_does_not_know_whether_it_differs_is_caught(changed: bool) -> None:
    story, weak = _ended()

    def spoil(record: OperationRecord) -> OperationRecord:
        told, final = record.answers
        told = replace(told, outcome=Outcome(2)) if changed else told
        return replace(record, answers=(told, replace(final, changed=changed)))

    wrong = with_operation(story.history(), weak, spoil)
    word = "differs from" if changed else "is"
    refuses(check, wrong, f"the final answer to {weak} claims that it {word} what was told")
