from msgspec.structs import replace

from creekdb.checkers import Inconclusive, RunIndex
from creekdb.checkers.commit_order import check
from creekdb.history import CabDelivered, CheckpointInstalled, Committed, Dot, RbCast
from creekdb.protocol.ids.version_vector import DotSet
from tests.checkers.story import Story, accepts, everyday, refuses, with_event


def _cast() -> tuple[Story, Dot, Dot, Dot]:
    """Two weak requests of different replicas, and a strong one that knows both."""
    story = Story()
    one, two = story.weak(1, "append", 1), story.weak(0, "append", 2)
    story.gossip(one)
    story.gossip(two)
    strong = story.strong(0, "append", 3)
    story.gossip(strong)
    return story, one, two, strong


def _committed(story: Story, *order: Dot) -> Story:
    for replica in range(3):
        for index, dot in enumerate(order):
            story.log(replica, Committed(dot, index))
    return story


def test_an_order_that_commit_gives_is_fine() -> None:
    accepts(check, everyday().history())


def test_weak_requests_against_their_timestamps_are_caught() -> None:
    story, one, two, strong = _cast()
    verdict = refuses(
        check, _committed(story, two, one, strong).history(), "against their timestamps"
    )
    assert [each.id for each in verdict.counterexample] == [two, one, strong]


def test_a_weak_request_of_the_context_left_behind_is_caught() -> None:
    story, one, two, strong = _cast()
    history = _committed(story, one, strong, two).history()
    refuses(check, history, f"{strong} was committed at 1 without {two} of its context")


def test_a_weak_request_that_the_strong_one_does_not_know_is_caught() -> None:
    story, one, two, strong = _cast()
    other = story.weak(2, "append", 4)
    history = _committed(story, one, two, other, strong).history()
    refuses(check, history, f"{other} was committed by {strong}, not knowing it")


def test_a_weak_request_that_no_strong_one_commits_is_caught() -> None:
    story, one, two, strong = _cast()
    other = story.weak(2, "append", 4)
    history = _committed(story, one, two, strong, other).history()
    refuses(check, history, f"{other} was committed, but by no strong request after it")


def test_strong_requests_in_another_order_than_delivered_are_caught() -> None:
    story = Story()
    one, two = story.strong(0, "append", 1), story.strong(1, "append", 2)
    story.log(0, CabDelivered(one, 0))
    story.log(0, CabDelivered(two, 1))
    history = _committed(story, two, one).history()
    refuses(check, history, f"the next strong request on committed is {two}")


def test_a_delivered_request_that_was_not_committed_is_caught() -> None:
    story = Story()
    one = story.strong(0, "append", 1)
    story.log(0, CabDelivered(one, 0))
    refuses(check, story.history(), "0 are committed, 1 were CAB-delivered")


def test_a_delivered_request_may_be_committed_until_the_end() -> None:
    story = Story()
    story.log(0, CabDelivered(story.strong(0, "append", 1), 0))
    accepts(check, story.history(quiescent=False))


def test_a_strong_request_committed_without_a_causal_context_is_caught() -> None:
    story = Story()
    one = story.strong(0, "append", 1)
    cast = story.requests[one]
    history = _committed(story, one).history()
    history = with_event(history, 0, RbCast(cast), RbCast(replace(cast, context=None)))
    refuses(check, history, f"{one} was committed without a causal context")


def test_a_committed_request_that_was_never_cast_is_caught() -> None:
    refuses(check, _committed(Story(), Dot(0, 1)).history(), "was never cast")


def test_places_that_no_log_tells_of_make_the_verdict_unknown() -> None:
    story = Story(1)
    one = story.strong(0, "append", 1)
    story.log(0, CheckpointInstalled(1, 1, DotSet([one]).freeze()))
    assert isinstance(check(RunIndex(story.history())), Inconclusive)
