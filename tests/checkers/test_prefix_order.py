from msgspec.structs import replace

from creekdb.checkers import Inconclusive, RunIndex
from creekdb.checkers.prefix_order import check
from creekdb.history import CheckpointInstalled, Committed, Dot
from creekdb.protocol.ids.version_vector import DotSet
from tests.checkers.story import (
    Story,
    accepts,
    everyday,
    refuses,
    two_delivered,
    with_event,
    with_final,
)


def test_equal_orders_are_fine() -> None:
    accepts(check, everyday().history())


def test_a_shorter_order_is_fine() -> None:
    story = Story()
    dot = story.strong(0, "append", 1)
    story.gossip(dot)
    story.order(dot)
    story.deliver(0)
    accepts(check, story.history(quiescent=False))


def test_two_replicas_that_commit_in_different_orders_are_caught() -> None:
    story, one, two = two_delivered()
    history = story.history()
    history = with_event(history, 2, Committed(one, 0), Committed(two, 0))
    history = with_event(history, 2, Committed(two, 1), Committed(one, 1))
    verdict = refuses(check, history, "two requests are committed at index 0")
    assert [each.id for each in verdict.counterexample] == [one, two]
    assert "replica 2 (incarnation 0)" in verdict.describe()


def test_an_incarnation_that_contradicts_the_one_before_is_caught() -> None:
    story, one, _ = two_delivered()
    story.crash(0)
    story.restart(0)
    history = with_event(
        story.history(), 0, Committed(one, 0), Committed(Dot(2, 7), 0), incarnation=1
    )
    refuses(check, history, "two requests are committed at index 0")


def test_an_incarnation_that_recovers_less_but_agrees_is_fine() -> None:
    story, _, two = two_delivered()
    story.crash(0)
    story.restart(0)
    history = with_event(story.history(), 0, Committed(two, 1), None, incarnation=1)
    accepts(check, history)


def test_a_skipped_place_is_caught() -> None:
    story, one, _ = two_delivered()
    refuses(check, with_event(story.history(), 1, Committed(one, 0), None), "is not 1")


def test_a_request_committed_twice_is_caught() -> None:
    story, one, _ = two_delivered()
    story.log(0, Committed(one, 2))
    refuses(check, story.history(), f"{one} is committed twice")


def test_a_checkpoint_that_stands_for_other_requests_is_caught() -> None:
    story, one, two = two_delivered()
    story.log(2, CheckpointInstalled(1, 1, DotSet([two]).freeze()))
    refuses(check, story.history(), f"lacks {one}")


def test_a_checkpoint_that_miscounts_is_caught() -> None:
    story, one, _ = two_delivered()
    story.log(2, CheckpointInstalled(1, 2, DotSet([one]).freeze()))
    refuses(check, story.history(), "a checkpoint of 2 requests holds 1 identifiers")


def test_commits_after_a_checkpoint_go_on_where_it_ends() -> None:
    story, _, two = two_delivered()
    story.crash(0)
    story.restart(0, checkpoint=1)
    accepts(check, story.history())
    history = with_event(story.history(), 0, Committed(two, 1), Committed(two, 2), incarnation=1)
    refuses(check, history, "the place after 1 committed requests is not 2")


def test_a_checkpoint_that_holds_a_later_request_is_caught_even_when_places_are_unknown() -> None:
    story = Story(1)
    one, two = story.strong(0, "append", 1), story.strong(0, "append", 2)
    story.log(0, CheckpointInstalled(1, 1, DotSet([two]).freeze()))
    story.log(0, Committed(two, 1))
    refuses(check, story.history(), f"holds {two}, which comes later")
    assert one != two


def test_places_that_no_log_tells_of_make_the_verdict_unknown() -> None:
    story = Story(1)
    one = story.strong(0, "append", 1)
    story.log(0, CheckpointInstalled(1, 1, DotSet([one]).freeze()))
    assert isinstance(check(RunIndex(story.history())), Inconclusive)


def test_a_final_order_beyond_the_logs_is_for_others_to_judge() -> None:
    story, one, two = two_delivered()
    longer = (one, two, Dot(2, 1))
    accepts(check, with_final(story.history(), 1, lambda each: replace(each, committed=longer)))


def test_a_final_order_that_differs_from_the_logs_is_caught() -> None:
    story, one, two = two_delivered()
    history = with_final(story.history(), 1, lambda each: replace(each, committed=(two, one)))
    refuses(check, history, "two requests are committed at index 0")
