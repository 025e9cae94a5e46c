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
    RbCast,
    RbDelivered,
    Request,
)
from creekdb.protocol.ids.version_vector import DotSet
from tests.checkers.story import Story, accepts, everyday, refuses, with_event, with_operation


def _reuse() -> tuple[Story, Dot]:
    """Replica 0 casts, loses it in a crash, and is back."""
    story = Story()
    dot = story.weak(0, "append", "first")
    story.crash(0)
    story.restart(0, lost=1)
    return story, dot


def test_delivery_in_order_once_and_everywhere_is_fine() -> None:
    accepts(check, everyday().history())


def test_a_request_delivered_twice_is_caught() -> None:
    story = Story()
    dot = story.weak(0, "append", 1)
    story.gossip(dot)
    story.log(1, RbDelivered(dot))
    verdict = refuses(check, story.history(), f"{dot} was RB-delivered twice")
    assert len(verdict.counterexample) == 2


def test_delivering_again_what_one_cast_oneself_is_caught() -> None:
    story = Story()
    dot = story.weak(0, "append", 1)
    story.log(0, RbDelivered(dot))
    refuses(check, story.history(), f"{dot} was RB-delivered twice")


def test_delivering_what_a_checkpoint_covers_is_caught() -> None:
    story = Story()
    dot = story.weak(0, "append", 1)
    story.log(1, CheckpointInstalled(1, 1, DotSet([dot]).freeze()))
    story.log(1, RbDelivered(dot))
    refuses(check, story.history(False), "after a checkpoint that covers it")


def test_a_request_that_nobody_cast_is_caught() -> None:
    story = Story()
    story.log(1, RbDelivered(Dot(0, 1)))
    refuses(check, story.history(False), "nobody had RB-cast it")


def test_a_request_delivered_before_it_was_cast_is_caught() -> None:
    story = Story()
    story.log(1, RbDelivered(Dot(0, 1)))
    story.weak(0, "append", 1)
    refuses(check, story.history(False), "nobody had RB-cast it")


def test_a_request_cast_in_the_name_of_another_replica_is_caught() -> None:
    story = Story()
    story.log(1, RbCast(Request(1, Dot(0, 1), Operation("append", (1,)), False)))
    refuses(check, story.history(False), "0.1 was cast by replica 1")


def test_a_hole_in_an_origins_requests_is_caught() -> None:
    story = Story()
    story.weak(0, "append", 1)
    second = story.weak(0, "append", 2)
    story.gossip(second, 1)
    refuses(check, story.history(False), "0.2 was delivered before 0.1")


def test_a_checkpoint_fills_the_hole() -> None:
    story = Story()
    first = story.weak(0, "append", 1)
    second = story.weak(0, "append", 2)
    story.log(1, CheckpointInstalled(1, 1, DotSet([first]).freeze()))
    story.gossip(second, 1)
    accepts(check, story.history(False))


def test_a_skipped_event_number_is_caught() -> None:
    story = Story()
    story.log(0, RbCast(Request(1, Dot(0, 2), Operation("append", (1,)), False)))
    refuses(check, story.history(False), "0.2 was delivered before 0.1")


def test_an_event_number_whose_first_request_nobody_saw_may_be_used_again() -> None:
    story, _ = _reuse()
    story.weak(0, "append", "second")
    story.settle()
    accepts(check, story.history())


def test_an_event_number_reused_after_another_replica_delivered_it_is_caught() -> None:
    story = Story()
    dot = story.weak(0, "append", "first")
    story.gossip(dot, 1)
    story.crash(0)
    story.restart(0, lost=1)
    story.weak(0, "append", "second")
    verdict = refuses(check, story.history(), f"event number reused: {dot} names two requests")
    assert "replica 1 (incarnation 0): RB-delivered 0.1" in verdict.describe()


def test_an_event_number_reused_after_its_operation_was_answered_is_caught() -> None:
    story = Story()
    story.answer(story.weak(0, "append", "first"))
    story.crash(0)
    story.restart(0, lost=1)
    story.weak(0, "append", "second")
    refuses(check, story.history(), "names two requests, and the first was seen")


def test_an_event_number_reused_after_its_request_was_committed_is_caught() -> None:
    story = Story()
    dot = story.strong(0, "append", "first")
    story.log(0, Committed(dot, 0))
    story.crash(0)
    story.restart(0, lost=1)
    story.strong(0, "append", "second")
    refuses(check, story.history(), "names two requests, and the first was seen")


def test_an_event_number_reused_after_a_checkpoint_covered_it_is_caught() -> None:
    story = Story()
    dot = story.strong(0, "append", "first")
    story.log(1, CheckpointInstalled(1, 1, DotSet([dot]).freeze()))
    story.crash(0)
    story.restart(0, lost=1)
    story.strong(0, "append", "second")
    refuses(check, story.history(), "names two requests, and the first was seen")


def test_an_event_number_reused_after_it_was_recovered_is_caught() -> None:
    story, dot = _reuse()
    story.log(0, RbDelivered(dot))
    story.log(0, RbCast(Request(99, dot, Operation("append", ("second",)), False)))
    refuses(check, story.history(), f"event number reused: {dot} was there when it was cast")


def test_an_event_number_recovered_once_and_reused_a_crash_later_is_caught() -> None:
    story, dot = _reuse()
    story.log(0, RbDelivered(dot))
    story.crash(0)
    story.restart(0)
    story.weak(0, "append", "second")
    refuses(check, story.history(), "names two requests, and the first was seen")


def test_two_operations_answered_under_one_identifier_are_caught() -> None:
    story, dot = _reuse()
    story.weak(0, "append", "first")
    story.settle()
    history = story.history()
    answers = next(each.answers for each in history.operations if each.answers)
    history = with_operation(history, dot, lambda each: replace(each, answers=answers))
    first, second = (log.events[0].event for log in history.logs if log.replica == 0)
    assert isinstance(first, RbCast)
    assert isinstance(second, RbCast)
    history = with_event(history, 0, first, second)
    refuses(check, history, f"event number reused: two operations were answered as {dot}")


def test_an_answer_to_what_was_never_cast_is_caught() -> None:
    story = Story()
    dot = story.weak(0, "append", 1)
    story.answer(dot)
    history = with_event(story.history(False), 0, RbCast(story.requests[dot]), None)
    refuses(check, history, f"{dot} was answered but never RB-cast")


@pytest.mark.parametrize(
    ("operation", "strong", "legal"),
    [
        (Operation("get_all"), False, True),
        (Operation("get_all"), True, False),
        (Operation("append", (1,)), False, False),
    ],
)
def test_only_a_weak_operation_that_only_reads_may_be_kept_from_the_others(
    operation: Operation, strong: bool, legal: bool
) -> None:
    """Section 4.4, read-only operations."""
    story = Story()
    dot = story.weak(0, "append", 1)
    story.answer(dot)
    history = story.history(False)
    answers = next(each.answers for each in history.operations if each.answers)
    local = OperationRecord(
        session=0,
        replica=0,
        incarnation=0,
        id=Dot(0, -1),
        operation=operation,
        strong=strong,
        invoked_us=answers[0].at_us,
        answers=answers,
    )
    history = replace(history, operations=(*history.operations, local))
    if legal:
        accepts(check, history)
    else:
        refuses(check, history, "0.-1 was answered but never RB-cast")


def test_a_cast_with_another_content_than_was_invoked_is_caught() -> None:
    story = Story()
    dot = story.weak(0, "append", 1)
    story.answer(dot)
    other = replace(story.requests[dot], operation=Operation("append", (2,)))
    history = with_event(story.history(False), 0, RbCast(story.requests[dot]), RbCast(other))
    refuses(check, history, f"{dot} was answered but never RB-cast")


def test_a_strong_operation_that_is_cast_as_a_weak_one_is_caught() -> None:
    story = Story()
    dot = story.weak(0, "append", 1)
    story.answer(dot)
    accepts(check, story.history(False))
    strong = with_operation(story.history(False), dot, lambda each: replace(each, strong=True))
    refuses(check, strong, f"{dot} was answered but never RB-cast")


def test_what_an_earlier_incarnation_cast_does_not_count() -> None:
    story, dot = _reuse()
    story.weak(0, "append", "first")
    story.answer(dot)
    history = story.history(False)
    accepts(check, history)
    refuses(
        check,
        with_event(history, 0, RbCast(story.requests[dot]), None, incarnation=1),
        f"{dot} was answered but never RB-cast",
    )


def test_a_replica_that_forgets_its_own_answered_request_is_caught() -> None:
    story = Story()
    dot = story.weak(0, "append", 1)
    story.answer(dot)
    story.crash(0)
    story.restart(0, lost=1)
    refuses(check, story.history(), f"replica 0 ends without its own {dot}")


@pytest.mark.parametrize("replica", [0, 1])
def test_a_restart_that_forgets_what_was_delivered_is_caught_though_it_comes_again(
    replica: int,
) -> None:
    """Where it was cast, or another one: who said more afterwards had it on disk."""
    story = Story()
    dot = story.weak(0, "append", 1)
    story.gossip(dot)
    story.log(replica, BallotPromised(Ballot(1, 2), 0, 0, ()))
    story.crash(replica)
    story.restart(replica, lost=1)
    story.gossip(dot)
    refuses(check, story.history(), f"replica {replica} restarted without {dot}")

    lost = [replace(log, has_empty_disk=log.incarnation == 1) for log in story.history().logs]
    accepts(check, replace(story.history(), logs=tuple(lost)))


def test_a_request_that_does_not_reach_everybody_is_caught_at_the_end() -> None:
    story = Story()
    dot = story.weak(0, "append", 1)
    story.gossip(dot, 1)
    verdict = refuses(check, story.history(), f"replica 0 has {dot}, which replica 2 never got")
    assert "replica 2: ends without 0.1" in verdict.describe()


def test_a_request_that_does_not_reach_everybody_is_fine_until_then() -> None:
    story = Story()
    story.gossip(story.weak(0, "append", 1), 1)
    accepts(check, story.history(quiescent=False))


def test_a_request_that_only_a_replica_that_is_down_had_is_fine() -> None:
    story = Story()
    story.weak(0, "append", 1)
    story.crash(0)
    accepts(check, story.history())
