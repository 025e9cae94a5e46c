"""Section 5 and Multi-Paxos: what an acceptor said once binds it, and everybody else."""

import msgspec
import pytest

from creekdb.checkers import Inconclusive, RunIndex
from creekdb.checkers.broadcast.paxos_safety import check
from creekdb.history import (
    ROUNDS_PER_EPOCH,
    AcceptedValue,
    Ballot,
    BallotPromised,
    Batch,
    Committed,
    Configuration,
    Dot,
    History,
    SchemeGuarantees,
    Voted,
)
from tests.checkers.story import BALLOT, PRIMARY, Story, accepts, everyday, random_story, refuses

LATER, LAST = Ballot(2, 1), Ballot(3, 2)


def told(story: Story, replica: int, ballot: Ballot, *accepted: AcceptedValue) -> None:
    decided = 1 if story.batches else 0
    story.log(replica, BallotPromised(ballot, 0, decided, accepted))


def voted(story: Story, ballot: Ballot, batch: Batch, *replicas: int, instance: int = 1) -> None:
    for replica in replicas:
        story.log(replica, Voted(ballot, instance, batch))


def contested() -> tuple[Story, Dot, Dot]:
    """Instance 0 is decided by all; two strong requests compete for instance 1."""
    story = Story()
    first = story.strong(0, "append", "a")
    story.gossip(first)
    story.order(first)
    one, other = story.strong(1, "append", "b"), story.strong(2, "append", "c")
    story.gossip(one)
    story.gossip(other)
    return story, one, other


def history(story: Story) -> History:
    return story.history(quiescent=False)


def test_everyday_and_random_runs_are_fine() -> None:
    accepts(check, everyday().history())
    for seed in range(20):
        accepts(check, random_story(seed).history())


def test_a_later_ballot_that_takes_up_what_was_accepted_is_fine() -> None:
    story, one, _ = contested()
    voted(story, BALLOT, (one,), 0)
    told(story, 0, LATER, AcceptedValue(1, BALLOT, (one,)))
    told(story, 1, LATER)
    voted(story, LATER, (one,), 1, 2)

    accepts(check, history(story))


def test_what_no_promise_of_a_majority_tells_of_need_not_be_taken_up() -> None:
    story, one, other = contested()
    voted(story, BALLOT, (one,), 0)
    told(story, 1, LATER)
    told(story, 2, LATER)
    voted(story, LATER, (other,), 1, 2)
    told(story, 0, LAST, AcceptedValue(1, BALLOT, (one,)))
    told(story, 1, LAST, AcceptedValue(1, LATER, (other,)))
    voted(story, LAST, (other,), 0, 1)

    accepts(check, history(story))


def test_a_vote_below_a_promise_is_found() -> None:
    story, one, _ = contested()
    told(story, 0, LATER)
    voted(story, BALLOT, (one,), 0)

    refuses(check, history(story), "replica 0 voted in ballot 1@0 after it had promised 2@1")


def test_a_promise_that_a_restart_forgot_is_found() -> None:
    story, _, _ = contested()
    told(story, 0, LATER)
    story.crash(0)
    story.restart(0)
    told(story, 0, BALLOT)

    verdict = refuses(check, history(story), "promised ballot 1@0 after it had promised 2@1")
    assert "incarnation 0" in verdict.counterexample[0].who
    assert "incarnation 1" in verdict.counterexample[1].who


def with_a_lost_disk(story: Story, replica: int) -> History:
    found = history(story)
    logs = [
        msgspec.structs.replace(log, has_empty_disk=log.replica == replica and log.incarnation == 1)
        for log in found.logs
    ]
    return msgspec.structs.replace(found, logs=tuple(logs))


def test_who_lost_its_disk_need_not_tell_of_votes_that_decided_nothing() -> None:
    story, one, other = contested()
    voted(story, BALLOT, (one,), 0)
    story.crash(0)
    story.restart(0)
    told(story, 0, LATER)
    told(story, 1, LATER)
    voted(story, LATER, (other,), 1, 2)

    accepts(check, with_a_lost_disk(story, 0))
    refuses(check, history(story), "hides the vote")


def test_who_lost_its_disk_keeps_its_promises() -> None:
    story, one, _ = contested()
    told(story, 0, LATER)
    story.crash(0)
    story.restart(0)
    voted(story, BALLOT, (one,), 0)

    refuses(check, with_a_lost_disk(story, 0), "after it had promised")


@pytest.mark.parametrize("heard", [False, True])
def test_a_ballot_of_its_own_binds_who_lost_its_disk_if_another_one_promised_it(
    heard: bool,
) -> None:
    story, one, _ = contested()
    own = Ballot(2, 0)
    told(story, 0, own)
    if heard:
        told(story, 1, own)
    story.crash(0)
    story.restart(0)
    voted(story, BALLOT, (one,), 0)
    told(story, 2, own)  # later, when it makes the same one again

    if heard:
        refuses(check, with_a_lost_disk(story, 0), "voted in ballot 1@0 after it had promised 2@0")
    else:
        accepts(check, with_a_lost_disk(story, 0))


def test_what_was_decided_with_a_disk_that_was_lost_stays_so() -> None:
    story, one, other = contested()
    voted(story, BALLOT, (one,), 0, 1)
    story.crash(0)
    story.restart(0)
    told(story, 0, LATER)
    told(story, 2, LATER)
    voted(story, LATER, (other,), 0, 2)

    refuses(check, with_a_lost_disk(story, 0), "for another batch than was decided")


def test_a_promise_that_nobody_heard_of_binds_nobody() -> None:
    story, one, _ = contested()
    told(story, 0, LATER)
    story.crash(0)
    story.restart(0)
    voted(story, BALLOT, (one,), 0)
    run = history(story)

    def in_vain(at: int) -> History:
        logs = list(run.logs)
        logs[at] = msgspec.structs.replace(logs[at], visible_count=len(logs[at].events) - 1)
        return msgspec.structs.replace(run, logs=tuple(logs))

    accepts(check, in_vain(0))


def test_a_vote_in_vain_that_was_found_on_the_disk_is_told_of() -> None:
    story, one, other = contested()
    voted(story, BALLOT, (one,), 0)
    told(story, 0, LATER, AcceptedValue(1, BALLOT, (one,)))
    told(story, 1, LATER)
    voted(story, LATER, (one,), 1, 0)
    story.crash(0)
    story.restart(0)
    kept = story.incarnations[0][0]

    def promised(value: AcceptedValue) -> History:
        story.incarnations[0][-1].events = list(recovered)
        told(story, 0, LAST, value)
        run = history(story)
        logs = tuple(
            msgspec.structs.replace(log, visible_count=len(kept.events) - 1)
            if (log.replica, log.incarnation) == (0, 0)
            else log
            for log in run.logs
        )
        return msgspec.structs.replace(run, logs=logs)

    recovered = story.incarnations[0][-1].events
    accepts(check, promised(AcceptedValue(1, LATER, (one,))))
    accepts(check, promised(AcceptedValue(1, BALLOT, (one,))))
    refuses(check, promised(AcceptedValue(1, LATER, (other,))), "3@2 hides the vote in ballot 1@0")


def test_a_promise_that_hides_a_vote_is_found() -> None:
    story, one, _ = contested()
    voted(story, BALLOT, (one,), 0)
    told(story, 0, LATER)

    refuses(check, history(story), "2@1 hides the vote in ballot 1@0 of instance 1")


def test_a_promise_that_tells_of_another_batch_is_found() -> None:
    story, one, other = contested()
    voted(story, BALLOT, (one,), 0)
    told(story, 0, LATER, AcceptedValue(1, BALLOT, (other,)))

    refuses(check, history(story), "hides the vote in ballot 1@0 of instance 1")


def test_a_promise_need_not_tell_of_what_it_was_not_asked_for() -> None:
    story, one, _ = contested()
    voted(story, BALLOT, (one,), 0)
    story.log(0, BallotPromised(LATER, 2, 1, ()))

    accepts(check, history(story))


@pytest.mark.parametrize("takes_part", ["from the first", "later"])
def test_who_takes_part_later_tells_of_what_others_had_voted_for_by_then(takes_part: str) -> None:
    """It began with nothing, and they told it. Seeds 482666 of smr, 487866 of both."""
    story = Story()
    one = story.strong(0, "append", "a")
    story.gossip(one)
    for replica in (0, 1, 2) if takes_part == "from the first" else (0, 1):
        told(story, replica, BALLOT)
    voted(story, BALLOT, (one,), 0, instance=0)
    told(story, 2, LATER, AcceptedValue(0, BALLOT, (one,)))

    if takes_part == "later":
        accepts(check, history(story))
    else:
        refuses(check, history(story), "vote in ballot 1@0 of instance 0, which was never cast")


def test_two_batches_in_one_ballot_are_found() -> None:
    story, one, other = contested()
    voted(story, BALLOT, (one,), 0)
    voted(story, BALLOT, (other,), 1)

    refuses(check, history(story), "two batches were voted for in ballot 1@0 of instance 1")


def test_a_ballot_without_the_promises_of_a_majority_is_found() -> None:
    story, one, _ = contested()
    told(story, 1, LATER)
    voted(story, LATER, (one,), 1)

    refuses(check, history(story), "ballot 2@1, which 1 of 3 replicas had promised")


def test_a_leader_that_takes_up_a_lower_ballot_is_found() -> None:
    story, one, other = contested()
    voted(story, BALLOT, (one,), 0)
    told(story, 1, LATER)
    told(story, 2, LATER)
    voted(story, LATER, (other,), 1)
    told(story, 0, LAST, AcceptedValue(1, BALLOT, (one,)))
    told(story, 1, LAST, AcceptedValue(1, LATER, (other,)))
    voted(story, LAST, (one,), 0)

    refuses(check, history(story), "no majority of promises of ballot 3@2 allows the batch")


def test_a_leader_that_takes_up_nothing_is_found() -> None:
    story, one, other = contested()
    voted(story, BALLOT, (one,), 0)
    told(story, 0, LATER, AcceptedValue(1, BALLOT, (one,)))
    told(story, 1, LATER)
    voted(story, LATER, (other,), 1)

    refuses(check, history(story), "no majority of promises of ballot 2@1 allows the batch")


@pytest.mark.parametrize(("first", "decided"), [(2, 1), (0, 2)])
def test_promises_allow_nothing_in_instances_that_they_do_not_tell_of(
    first: int, decided: int
) -> None:
    """They were asked for later ones, or say that it is decided."""
    story, one, other = contested()
    voted(story, BALLOT, (one,), 0, 1)
    told(story, 2, LATER)
    story.log(1, BallotPromised(LATER, first, decided, ()))
    voted(story, LATER, (other,), 2)

    refuses(check, history(story), "no majority of promises of ballot 2@1 allows the batch")


def test_a_promise_that_tells_of_a_vote_never_cast_is_found() -> None:
    story, one, _ = contested()
    voted(story, BALLOT, (one,), 1)
    told(story, 0, LATER, AcceptedValue(1, BALLOT, (one,)))

    words = "2@1 tells of a vote in ballot 1@0 of instance 1, which was never cast"
    refuses(check, history(story), words)


def test_who_lost_its_disk_tells_of_what_others_told_it() -> None:
    story, one, other = contested()
    voted(story, BALLOT, (one,), 1)
    story.crash(0)
    story.restart(0)
    told(story, 0, LATER, AcceptedValue(1, BALLOT, (one,)))
    accepts(check, with_a_lost_disk(story, 0))

    told(story, 0, LAST, AcceptedValue(1, BALLOT, (other,)))
    refuses(check, with_a_lost_disk(story, 0), "which was never cast")


def test_a_delivery_before_a_majority_voted_is_found() -> None:
    story, one, _ = contested()
    story.deliver()
    voted(story, BALLOT, (one,), 0)
    story.batches.append((one,))
    story.deliver(0)

    refuses(check, history(story), f"{one} was CAB-delivered before a majority voted for it")


def test_votes_that_come_after_the_delivery_do_not_count() -> None:
    story, one, _ = contested()
    story.deliver()
    voted(story, BALLOT, (one,), 0)
    story.batches.append((one,))
    story.deliver(0)
    voted(story, BALLOT, (one,), 1, 2)

    refuses(check, history(story), f"{one} was CAB-delivered before a majority voted for it")


def test_a_vote_in_vain_that_was_found_on_the_disk_may_decide() -> None:
    """Nobody else voted in the ballot that decides, and nobody heard of it at first."""
    story, one, _ = contested()
    for replica in (0, 1):
        told(story, replica, LATER)
    voted(story, LATER, (one,), 0, 1)
    for replica in (0, 1):
        story.crash(replica)
        story.restart(replica)
    story.batches.append((one,))
    story.deliver(0)
    run = history(story)
    logs = [
        msgspec.structs.replace(log, visible_count=len(log.events) - 1)
        if log.replica < 2 and log.incarnation == 0
        else log
        for log in run.logs
    ]
    assert logs[0].lost_events[0].event == Voted(LATER, 1, (one,))

    accepts(check, msgspec.structs.replace(run, logs=tuple(logs)))


def test_a_delivery_of_something_else_than_was_voted_for_is_found() -> None:
    story, one, other = contested()
    story.deliver()
    voted(story, BALLOT, (one,), 0, 1)
    story.batches.append((other,))
    story.deliver(0)

    refuses(check, history(story), f"{other} was CAB-delivered before a majority voted for it")


def test_a_decision_that_nobody_voted_for_is_found_in_a_promise() -> None:
    story, one, _ = contested()
    voted(story, BALLOT, (one,), 0)
    story.log(0, BallotPromised(LATER, 0, 2, ()))

    refuses(check, history(story), "claims that the instances below 2 are decided")


def test_a_decision_that_is_claimed_before_the_votes_for_it_is_found() -> None:
    story, one, _ = contested()
    story.log(0, BallotPromised(BALLOT, 0, 2, ()))
    voted(story, BALLOT, (one,), 0, 1, 2)

    refuses(check, history(story), "claims that the instances below 2 are decided")


def without_the_last() -> tuple[Story, Dot]:
    """Of four members the last one is removed; a strong request is there for the next instance."""
    story = Story(members=4)
    change = Configuration(0, tuple((each, "") for each in range(4))).remove_operation(3)
    removal = story.strong(0, change.name, *change.arguments)
    story.gossip(removal)
    story.order(removal)
    story.deliver()
    one = story.strong(1, "append", "b")
    story.gossip(one)
    return story, one


def test_after_a_change_the_new_members_decide() -> None:
    story, one = without_the_last()
    ballot = Ballot(ROUNDS_PER_EPOCH, 1)
    for replica in (0, 1):
        told(story, replica, ballot)
    voted(story, ballot, (one,), 0, 1)
    story.batches.append((one,))
    story.deliver(0)

    accepts(check, history(story))


def test_half_of_the_old_members_is_no_majority_in_their_ballots() -> None:
    story, one = without_the_last()
    for replica in (0, 1):
        story.incarnations[replica][-1].events = [
            each
            for each in story.incarnations[replica][-1].events
            if not isinstance(each.event, Committed)
        ]
    voted(story, BALLOT, (one,), 0, 1)
    story.batches.append((one,))
    story.deliver(2)

    refuses(check, history(story), f"{one} was CAB-delivered before a majority voted for it")


@pytest.mark.parametrize("event", [BallotPromised(BALLOT, 0, 0, ()), Voted(BALLOT, 1, ())])
def test_who_knows_the_new_members_takes_no_part_in_ballots_of_the_old(
    event: BallotPromised | Voted,
) -> None:
    story, _ = without_the_last()
    story.log(0, event)

    words = "replica 0 took part in a vote of epoch 0, but knows the members of epoch 1"
    refuses(check, history(story), words)


def test_who_does_not_know_the_new_members_takes_no_part_in_their_ballots() -> None:
    story, _ = without_the_last()
    story.crash(0)
    story.restart(0)
    late = story.incarnations[0][-1]
    late.events = [each for each in late.events if not isinstance(each.event, Committed)]
    told(story, 0, Ballot(ROUNDS_PER_EPOCH, 1))

    words = "replica 0 took part in a vote of epoch 1, but knows the members of epoch 0"
    refuses(check, history(story), words)


@pytest.mark.parametrize("epoch", [1, 2])
def test_who_was_removed_has_no_vote_and_nobody_has_in_an_epoch_to_come(epoch: int) -> None:
    story, _ = without_the_last()
    replica = 3 if epoch == 1 else 0
    told(story, replica, Ballot(epoch * ROUNDS_PER_EPOCH, 1))

    refuses(check, history(story), f"replica {replica} took part in a vote, but has none")


def test_a_run_that_recorded_nothing_of_acceptors_is_unknown() -> None:
    story, _, _ = contested()
    story.deliver()
    run = story.history(quiescent=False)
    logs = tuple(
        msgspec.structs.replace(
            log,
            events=tuple(
                each for each in log.events if not isinstance(each.event, BallotPromised | Voted)
            ),
        )
        for log in run.logs
    )

    verdict = check(RunIndex(msgspec.structs.replace(run, logs=logs)))
    assert isinstance(verdict, Inconclusive)


def test_where_a_primary_has_the_only_vote_it_decides_alone() -> None:
    story = Story(members=5, terms=PRIMARY)
    one = story.weak(1, "append", "a")
    story.gossip(one, 0)
    story.order(one)
    story.deliver(0, 1)

    accepts(check, history(story))
    creek = msgspec.structs.replace(history(story), guarantees=SchemeGuarantees())
    refuses(check, creek, "ballot 1@0, which 1 of 5 replicas had promised")


def test_a_decision_without_the_primary_is_found() -> None:
    story = Story(terms=PRIMARY)
    one = story.weak(0, "append", "a")
    story.order(one)
    story.deliver()
    story.batches.append((story.weak(1, "append", "b"),))
    story.deliver(1)

    refuses(check, history(story), "1.1 was CAB-delivered before a majority voted for it")


@pytest.mark.parametrize("event", [BallotPromised(LATER, 0, 0, ()), Voted(BALLOT, 0, ())])
def test_a_promise_or_a_vote_of_one_who_has_none_is_found(event: BallotPromised | Voted) -> None:
    story = Story(terms=PRIMARY)
    story.order(story.weak(0, "append", "a"))
    story.log(1, event)

    refuses(check, history(story), "replica 1 took part in a vote, but has none")
