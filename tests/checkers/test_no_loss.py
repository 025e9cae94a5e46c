"""Section 5, no loss: what a majority vouches for, a majority has."""

import pytest

from creekdb.checkers.broadcast.no_loss import check
from creekdb.history import Dot, Voted
from tests.checkers.story import BALLOT, PRIMARY, Story, accepts, everyday, random_story, refuses


def test_everyday_and_random_runs_are_fine() -> None:
    accepts(check, everyday().history())
    for seed in range(20):
        accepts(check, random_story(seed).history())


def test_a_delivery_that_a_majority_can_vouch_for_is_fine() -> None:
    story = Story()
    weak = story.weak(0, "append", "a")
    strong = story.strong(0, "append", "b")
    story.gossip(weak, 1)
    story.gossip(strong, 1)
    story.order(strong)
    story.deliver(0)

    accepts(check, story.history(quiescent=False))


def test_what_a_crashed_replica_had_on_its_disk_counts() -> None:
    story = Story()
    strong = story.strong(0, "append", "a")
    story.gossip(strong, 1)
    story.order(strong)
    story.crash(1)
    story.deliver(0)

    accepts(check, story.history(quiescent=False))


def test_a_delivery_that_only_a_minority_received_is_found() -> None:
    story = Story(members=5)
    strong = story.strong(0, "append", "a")
    story.gossip(strong, 1)
    story.order(strong)
    story.deliver(0)

    refuses(
        check,
        story.history(quiescent=False),
        f"{strong} was CAB-delivered when 2 of 5 replicas had it and its causal context: 0, 1",
    )


def test_a_delivery_whose_context_only_a_minority_received_is_found() -> None:
    story = Story()
    story.weak(0, "append", "a")
    strong = story.strong(0, "append", "b")
    story.gossip(strong)
    story.order(strong)
    story.deliver(0)

    refuses(check, story.history(quiescent=False), "when 1 of 3 replicas had it")


def test_what_a_majority_receives_later_does_not_count() -> None:
    story = Story()
    strong = story.strong(0, "append", "a")
    story.order(strong)
    story.deliver(0)
    story.gossip(strong)
    story.deliver()

    refuses(check, story.history(quiescent=False), f"{strong} was CAB-delivered when 1 of 3")


def test_what_a_majority_receives_at_the_same_moment_counts() -> None:
    """Of what happens at one moment nobody can tell what came first."""
    story = Story()
    strong = story.strong(0, "append", "a")
    story.order(strong)
    story.standing_still = True
    story.deliver(0)
    story.gossip(strong, 1)

    accepts(check, story.history(quiescent=False))


def test_a_strong_request_of_the_context_counts_once_it_is_committed() -> None:
    story = Story()
    first = story.strong(0, "append", "a")
    story.gossip(first)
    story.order(first)
    story.deliver(0)
    second = story.strong(0, "append", "b")
    story.gossip(second)
    story.order(second)
    story.deliver(0)

    refuses(check, story.history(quiescent=False), f"{second} was CAB-delivered when 1 of 3")


@pytest.mark.parametrize("received", [False, True])
def test_a_vote_without_the_request_or_its_context_is_found(received: bool) -> None:
    story = Story()
    weak = story.weak(0, "append", "a")
    strong = story.strong(0, "append", "b")
    if received:
        story.gossip(strong, 1)
    story.log(1, Voted(BALLOT, 0, (strong,)))

    what = f"{weak} of its causal context" if received else "it"
    refuses(check, story.history(quiescent=False), f"replica 1 voted for {strong} without {what}")


def test_a_vote_for_what_was_never_cast_is_found() -> None:
    story = Story()
    story.log(1, Voted(BALLOT, 0, (Dot(2, 7),)))

    refuses(check, story.history(quiescent=False), "replica 1 voted for 2.7 without it")


def test_what_a_primary_decides_alone_it_has_alone() -> None:
    story = Story(members=5, terms=PRIMARY)
    story.order(story.weak(0, "append", "a"))
    story.deliver(0)

    accepts(check, story.history(quiescent=False))


def test_what_a_primary_does_not_have_is_lost_whoever_else_has_it() -> None:
    story = Story(terms=PRIMARY)
    weak = story.weak(1, "append", "a")
    story.gossip(weak, 2)
    story.order(weak)
    story.deliver(1)

    refuses(check, story.history(quiescent=False), f"{weak} was CAB-delivered when 0 of 1 replicas")
