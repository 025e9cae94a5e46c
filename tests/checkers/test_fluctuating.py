"""Section 4.3: an answer may fluctuate, but never be out of thin air."""

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
from tests.checkers.story import Story, accepts, everyday, random_story, refuses, with_operation

SEQUENTIAL = SchemeGuarantees(sequential=True)
ANSWERED = (ResponseRecord(10**6, ResponseKind.TENTATIVE, Outcome(1)),)


def first_answer(history: History, dot: Dot, **changes: object) -> History:
    def change(record: OperationRecord) -> OperationRecord:
        first, *rest = record.answers
        return replace(record, answers=(replace(first, **changes), *rest))

    return with_operation(history, dot, change)


def two_appends() -> tuple[Story, Dot, Dot]:
    story = Story()
    one = story.weak(0, "append", "a")
    story.answer(one)
    story.gossip(one)
    other = story.weak(1, "append", "b", session=1)
    story.answer(other)
    return story, one, other


def test_everyday_and_random_runs_are_fine() -> None:
    accepts(check, everyday().history())
    for seed in range(20):
        accepts(check, random_story(seed).history())


def test_an_answer_that_other_orders_would_not_give_is_fine_on_its_own() -> None:
    story, _, other = two_appends()
    alone = first_answer(story.history(), other, outcome=Outcome(1), observed=ObservedOrder(0, ()))

    accepts(check, alone)


def test_an_answer_out_of_thin_air_is_found() -> None:
    story, _, other = two_appends()
    wrong = first_answer(story.history(), other, outcome=Outcome(7))

    refuses(check, wrong, f"{other} was answered 7, but the order that it was executed in gives 2")


def test_an_error_beside_the_right_value_is_found() -> None:
    story, _, other = two_appends()
    wrong = first_answer(story.history(), other, outcome=Outcome(2, "E: no"))

    refuses(check, wrong, f"{other} was answered error 'E: no', but the order")


def test_an_answer_on_another_order_than_it_claims_is_found() -> None:
    story, _, other = two_appends()
    wrong = first_answer(story.history(), other, observed=ObservedOrder(0, ()))

    refuses(check, wrong, f"{other} was answered 2, but the order that it was executed in gives 1")


def test_a_tentative_answer_to_a_strong_operation_is_held_to_the_same() -> None:
    story = Story()
    strong = story.strong(0, "append", "a")
    story.answer(strong)
    story.answer(strong, outcome=Outcome(5))
    story.settle()

    refuses(check, story.history(), f"{strong} was answered 5")


def test_a_request_that_counts_twice_is_found() -> None:
    story, one, other = two_appends()
    wrong = first_answer(story.history(), other, observed=ObservedOrder(0, (one, one)))
    refuses(check, wrong, f"{one} counts twice in an answer to {other}")


def test_a_request_that_counts_as_settled_and_again_is_found() -> None:
    story, one, other = two_appends()
    story.settle()
    settled = ObservedOrder(story.incarnations[1][-1].committed.index(one) + 1, (one,))
    wrong = first_answer(story.history(), other, observed=settled)

    refuses(check, wrong, f"{one} counts twice in an answer to {other}")


def test_a_request_from_the_future_is_found() -> None:
    story, one, other = two_appends()
    wrong = first_answer(story.history(), one, observed=ObservedOrder(0, (other,)))

    refuses(check, wrong, f"an answer to {one} counts {other}, which had not been cast")


def test_more_than_was_ever_committed_is_found() -> None:
    story, one, _ = two_appends()
    wrong = first_answer(story.history(), one, observed=ObservedOrder(3, ()))

    refuses(check, wrong, f"{one} was answered on more than was ever committed")


def test_a_settled_prefix_that_is_not_committed_there_yet_is_found() -> None:
    story = Story()
    strong = story.strong(1, "append", "b", session=1)
    early = story.weak(0, "append", "a")
    story.answer(early)
    story.settle()
    assert story.incarnations[0][-1].committed.index(strong) == 0
    wrong = first_answer(
        story.history(), early, outcome=Outcome(2), changed=False, observed=ObservedOrder(1, ())
    )

    refuses(check, wrong, f"{early} was answered on 1 settled requests, when 0 were committed")


def test_a_request_that_was_not_delivered_there_is_found() -> None:
    story = Story()
    elsewhere = story.weak(1, "append", "b", session=1)
    here = story.weak(0, "append", "a")
    story.answer(here)
    wrong = first_answer(
        story.history(), here, outcome=Outcome(2), observed=ObservedOrder(0, (elsewhere,))
    )

    refuses(check, wrong, f"{here} was answered on {elsewhere}, which was not there yet")


def three_of_all() -> tuple[Story, list[Dot]]:
    """Two weak requests that replica 2 has heard of, and then reads."""
    story = Story()
    appended = [story.weak(each, "append", each, session=each) for each in (0, 1)]
    for dot in appended:
        story.gossip(dot)
    read = story.weak(2, "get_all", session=2)
    story.answer(read)
    return story, [*appended, read]


def test_tentative_requests_against_their_timestamps_are_found() -> None:
    story, (one, two, read) = three_of_all()
    accepts(check, story.history())
    wrong = first_answer(
        story.history(), read, outcome=Outcome((1, 0)), observed=ObservedOrder(0, (two, one))
    )

    refuses(check, wrong, f"{one} stands behind {two} in an answer to {read}")


def test_a_request_that_comes_after_the_operation_itself_is_found() -> None:
    story, (one, two, _) = three_of_all()
    history = first_answer(
        with_operation(story.history(), one, lambda each: replace(each, answers=ANSWERED)),
        one,
        outcome=Outcome(2),
        observed=ObservedOrder(0, (two,)),
    )

    refuses(check, history, f"{one} stands behind {two} in an answer to {one}")


def test_committed_requests_come_first_whatever_their_timestamps() -> None:
    """The later one is committed, the earlier one is not; before that, it was the other way."""
    story = Story()
    early = story.weak(0, "append", "early", session=1)
    strong = story.strong(1, "append", "strong", session=2)
    for dot in (strong, early):
        story.gossip(dot)
    story.order(strong)
    story.deliver()
    read = story.weak(2, "get_all", session=3)
    story.answer(read)
    story.settle()
    history = story.history()
    (told,) = (each.tentative for each in history.operations if each.id == read)
    assert told is not None
    assert told.outcome == Outcome(("strong", "early"))

    accepts(check, history)
    before = ObservedOrder(0, (early, strong))
    accepts(
        check, first_answer(history, read, outcome=Outcome(("early", "strong")), observed=before)
    )


def test_committed_requests_out_of_their_order_are_found() -> None:
    story = Story()
    one, two = story.strong(0, "append", 1, session=1), story.strong(1, "append", 2, session=2)
    third = story.weak(2, "append", 3, session=3)
    for dot in (one, two, third):
        story.gossip(dot)
    story.order(two, one)
    story.deliver()
    read = story.weak(2, "get_all", session=4)
    story.answer(read)
    accepts(check, story.history(quiescent=False))
    assert story.incarnations[2][-1].committed == [two, one]

    for ids in ((third, two, one), (two, third, one)):
        values = tuple(story.requests[dot].operation.arguments[0] for dot in ids)
        wrong = first_answer(
            story.history(), read, outcome=Outcome(values), observed=ObservedOrder(0, ids)
        )
        refuses(check, wrong, f"in an answer to {read}, neither by place nor by timestamp")


def test_an_answer_from_a_checkpoint_is_the_final_one() -> None:
    story, _, other = two_appends()
    story.settle()
    place = {0: Outcome(1), 1: Outcome(2)}
    index = story.incarnations[1][-1].committed.index(other)
    right = first_answer(story.history(), other, outcome=place[index], observed=None)
    wrong = first_answer(story.history(), other, outcome=Outcome(9), observed=None)

    accepts(check, right)
    refuses(check, wrong, f"{other} was answered 9 from a checkpoint, but committed gives")


def test_every_answer_from_a_checkpoint_is_held_to_that() -> None:
    story, _, _ = two_appends()
    strong = story.strong(2, "append", "c", session=2)
    story.answer(strong)
    story.settle()
    index = story.incarnations[2][-1].committed.index(strong)

    def told(first: int, second: int) -> History:
        bare = tuple(replace(ANSWERED[0], outcome=Outcome(each)) for each in (first, second))
        return with_operation(story.history(), strong, lambda each: replace(each, answers=bare))

    accepts(check, told(index + 1, index + 1))
    failed = with_operation(
        told(index + 1, index + 1),
        strong,
        lambda each: replace(
            each, answers=(replace(ANSWERED[0], outcome=Outcome(index + 1, "E: no")),)
        ),
    )
    refuses(check, failed, f"{strong} was answered error 'E: no' from a checkpoint")
    refuses(check, told(9, index + 1), f"{strong} was answered 9 from a checkpoint")
    refuses(check, told(index + 1, 9), f"{strong} was answered 9 from a checkpoint")


def test_an_answer_from_a_checkpoint_of_what_is_not_committed_is_found() -> None:
    story, _, other = two_appends()
    wrong = first_answer(story.history(), other, observed=None)

    refuses(check, wrong, f"{other} was answered from a checkpoint, but is not committed")


def test_an_answer_from_a_checkpoint_that_no_log_tells_the_beginning_of_is_unknown() -> None:
    story = Story(1)
    strong = story.strong(0, "append", 1)
    story.log(0, CheckpointInstalled(1, 1, DotSet([Dot(1, 1)]).freeze()))
    story.log(0, Committed(strong, 1))
    story.answer(story.weak(0, "append", 2))
    history = with_operation(story.history(), strong, lambda each: replace(each, answers=ANSWERED))

    assert isinstance(check(RunIndex(history)), Inconclusive)


def test_an_operation_that_only_its_replica_knows_of_is_held_to_the_same() -> None:
    story, one, _ = two_appends()
    local = OperationRecord(
        session=0,
        replica=0,
        incarnation=0,
        id=Dot(0, -1),
        operation=replace(story.requests[one].operation, name="get_all", arguments=()),
        strong=False,
        invoked_us=story.now_us,
        answers=(
            ResponseRecord(
                story.now_us,
                ResponseKind.TENTATIVE,
                Outcome(("a",)),
                False,
                ObservedOrder(0, (one,)),
            ),
        ),
    )
    history = story.history()
    right = replace(history, operations=(*history.operations, local))
    lost = replace(local, answers=(replace(local.answers[0], outcome=Outcome(())),))
    wrong = replace(history, operations=(*history.operations, lost))

    accepts(check, right)
    refuses(
        check, wrong, "0.-1 was answered (), but the order that it was executed in gives ('a',)"
    )


def test_a_session_that_does_not_see_what_it_did_is_caught() -> None:
    story, one, _ = two_appends()
    local = OperationRecord(
        session=next(each.session for each in story.history().operations if each.id == one),
        replica=0,
        incarnation=0,
        id=Dot(0, -1),
        operation=replace(story.requests[one].operation, name="get_all", arguments=()),
        strong=False,
        invoked_us=story.now_us,
        answers=(
            ResponseRecord(
                story.now_us, ResponseKind.TENTATIVE, Outcome(()), False, ObservedOrder(0, ())
            ),
        ),
    )
    history = story.history()
    history = replace(history, operations=(*history.operations, local))

    refuses(check, history, f"0.-1 was answered without {one}, which its session had done before")


@pytest.mark.parametrize("when", ["never", "later", "before"])
def test_a_session_sees_a_strong_operation_once_that_is_stable(when: str) -> None:
    """Stable never, after the next operation was invoked, or before."""
    story = Story()
    strong = story.strong(0, "append", "a")
    story.gossip(strong)
    story.order(strong)
    story.deliver()
    if when == "before":
        story.answer(strong, ResponseKind.STABLE)
    after = story.weak(0, "append", "b")
    story.answer(after)
    if when == "later":
        story.answer(strong, ResponseKind.STABLE)
    accepts(check, story.history())
    blind = first_answer(story.history(), after, outcome=Outcome(1), observed=ObservedOrder(0, ()))
    settled = first_answer(story.history(), after, observed=ObservedOrder(1, ()))

    accepts(check, settled)
    if when == "before":
        refuses(check, blind, f"{after} was answered without {strong}")
    else:
        accepts(check, blind)


def test_an_answer_that_counts_itself_is_found() -> None:
    story, _, other = two_appends()
    wrong = first_answer(story.history(), other, observed=ObservedOrder(0, (other,)))

    refuses(check, wrong, f"an answer to {other} counts {other}, which had not been cast")


def test_a_run_that_recorded_no_orders_is_unknown() -> None:
    story, one, other = two_appends()
    bare = first_answer(first_answer(story.history(), one, observed=None), other, observed=None)

    assert isinstance(check(RunIndex(bare)), Inconclusive)


def test_a_run_of_an_unknown_data_type_is_unknown() -> None:
    history = replace(two_appends()[0].history(), datatype="secret")

    assert isinstance(check(RunIndex(history)), Inconclusive)


def test_a_sequential_replica_answers_on_all_that_it_had() -> None:
    story, one, other = two_appends()
    story.settle()
    committed = story.incarnations[0][-1].committed
    assert committed.index(one) < committed.index(other)
    hasty = first_answer(story.history(), other, outcome=Outcome(1), observed=ObservedOrder(0, ()))

    accepts(check, hasty)
    accepts(check, replace(story.history(), guarantees=SEQUENTIAL))
    refuses(
        check,
        replace(hasty, guarantees=SEQUENTIAL),
        f"{other} was answered without {one}, which comes before it",
    )


def test_what_is_committed_behind_an_operation_need_not_be_in_its_answer() -> None:
    story, one, other = two_appends()
    strong = story.strong(1, "append", "c", session=2)
    request = story.requests[strong]
    assert request.context is not None
    story.requests[strong] = replace(request, context=request.context.without([one]))
    for dot in (one, other, strong):
        story.gossip(dot)
    story.order(strong)
    story.deliver()
    story.settle()
    early = first_answer(story.history(), other, outcome=Outcome(1), observed=ObservedOrder(0, ()))

    accepts(check, replace(early, guarantees=SEQUENTIAL))
