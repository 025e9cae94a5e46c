from msgspec.structs import replace

from creekdb.checkers.real_time import check
from creekdb.history import Dot, Outcome, ResponseKind
from tests.checkers.story import STABLE_ONLY, Story, accepts, everyday, refuses, with_operation


def _one_after_the_other() -> tuple[Story, Dot, Dot]:
    """`late` is invoked after `early` was answered, and yet CAB puts it first."""
    story = Story()
    early = story.strong(0, "append", 1)
    story.answer(early, ResponseKind.STABLE, Outcome(1))
    late = story.strong(1, "append", 2, session=1)
    for dot in (early, late):
        story.gossip(dot)
    story.order(late)
    story.order(early)
    story.deliver()
    return story, early, late


def test_an_order_that_follows_real_time_is_fine() -> None:
    accepts(check, everyday().history())


def test_an_operation_committed_before_one_answered_earlier_is_caught() -> None:
    story, early, late = _one_after_the_other()
    verdict = refuses(check, story.history(), f"{early} had its stable answer before {late}")
    assert [each.id for each in verdict.counterexample] == [early, early, late]


def test_a_stable_answer_need_not_be_seen_by_the_later_one_to_count() -> None:
    story, _, late = _one_after_the_other()
    story.answer(late, ResponseKind.STABLE)
    refuses(check, story.history(), "is committed after it, at 1 against 0")


def test_concurrent_operations_may_be_committed_either_way() -> None:
    story = Story()
    one, two = story.strong(0, "append", 1), story.strong(1, "append", 2)
    for dot in (one, two):
        story.gossip(dot)
    story.order(two, one)
    story.deliver()
    for dot in (one, two):
        story.answer(dot, ResponseKind.STABLE)
    accepts(check, story.history())


def test_an_answer_in_the_same_microsecond_as_the_invocation_is_not_before_it() -> None:
    story, early, late = _one_after_the_other()
    history = story.history()
    answered_us = next(each.answers[0].at_us for each in history.operations if each.id == early)
    history = with_operation(history, late, lambda each: replace(each, invoked_us=answered_us))
    accepts(check, history)


def test_weak_operations_promise_no_real_time_order() -> None:
    story, early, _ = _one_after_the_other()
    history = with_operation(story.history(), early, lambda each: replace(each, strong=False))
    accepts(check, history)


def test_a_stable_answer_to_an_operation_that_is_not_committed_is_caught() -> None:
    story = Story()
    lost = story.strong(0, "append", 1)
    story.answer(lost, ResponseKind.STABLE, Outcome(1))
    refuses(check, story.history(), f"{lost} has a stable answer but is not on committed")


def test_where_all_answers_are_stable_weak_operations_respect_real_time_too() -> None:
    story, early, late = _one_after_the_other()
    history = story.history()
    for dot in (early, late):
        history = with_operation(history, dot, lambda each: replace(each, strong=False))
    accepts(check, history)
    refuses(
        check,
        replace(history, guarantees=STABLE_ONLY),
        f"{early} had its stable answer before {late} was invoked",
    )
