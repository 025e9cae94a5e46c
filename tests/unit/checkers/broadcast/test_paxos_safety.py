"""Section 5 and Multi-Paxos: promises and votes of acceptors bind all replicas."""

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
    CabDelivered,
    Committed,
    Configuration,
    Dot,
    FirstVoted,
    History,
    SchemeGuarantees,
    Voted,
)
from tests.unit.checkers.history_builder import (
    BALLOT,
    PRIMARY,
    HistoryBuilder,
    assert_illegal,
    assert_ok,
    random_run,
    typical_run,
)

LATER, LAST = Ballot(2, 1), Ballot(3, 2)


def promise(
    builder: HistoryBuilder, replica: int, ballot: Ballot, *accepted: AcceptedValue
) -> None:
    decided = 1 if builder.decided_batches else 0
    builder.log(replica, BallotPromised(ballot, 0, decided, accepted))


def vote(
    builder: HistoryBuilder, ballot: Ballot, batch: Batch, *replicas: int, instance: int = 1
) -> None:
    for replica in replicas:
        builder.log(replica, Voted(ballot, instance, batch))


def competing_requests() -> tuple[HistoryBuilder, Dot, Dot]:
    """Decide instance 0 by all votes, and cast two strong requests for instance 1."""
    builder = HistoryBuilder()
    first = builder.invoke_strong(0, "append", "a")
    builder.rb_deliver(first)
    builder.decide(first)
    one, other = builder.invoke_strong(1, "append", "b"), builder.invoke_strong(2, "append", "c")
    builder.rb_deliver(one)
    builder.rb_deliver(other)
    return builder, one, other


def history(builder: HistoryBuilder) -> History:
    return builder.history(quiescent=False)


def test_typical_and_random_runs_are_legal() -> None:
    assert_ok(check, typical_run().history())
    for seed in range(20):
        assert_ok(check, random_run(seed).history())


def test_a_later_ballot_with_the_accepted_batch_is_legal() -> None:
    builder, one, _ = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 0, LATER, AcceptedValue(1, BALLOT, (one,)))
    promise(builder, 1, LATER)
    vote(builder, LATER, (one,), 1, 2)

    assert_ok(check, history(builder))


def test_a_vote_that_no_promise_of_a_majority_reports_may_be_ignored() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 1, LATER)
    promise(builder, 2, LATER)
    vote(builder, LATER, (other,), 1, 2)
    promise(builder, 0, LAST, AcceptedValue(1, BALLOT, (one,)))
    promise(builder, 1, LAST, AcceptedValue(1, LATER, (other,)))
    vote(builder, LAST, (other,), 0, 1)

    assert_ok(check, history(builder))


def test_a_vote_below_a_promise_is_illegal() -> None:
    builder, one, _ = competing_requests()
    promise(builder, 0, LATER)
    vote(builder, BALLOT, (one,), 0)

    assert_illegal(
        check, history(builder), "replica 0 voted in ballot 1@0 after it had promised 2@1"
    )


def test_a_vote_in_the_same_round_of_a_lower_replica_is_illegal() -> None:
    builder, one, _ = competing_requests()
    promise(builder, 0, LATER)
    vote(builder, Ballot(LATER.round, 0), (one,), 0)

    assert_illegal(
        check, history(builder), "replica 0 voted in ballot 2@0 after it had promised 2@1"
    )


def test_promises_after_the_vote_do_not_permit_it() -> None:
    builder, one, _ = competing_requests()
    promise(builder, 1, LATER)
    vote(builder, LATER, (one,), 1)
    promise(builder, 0, LATER)
    promise(builder, 2, LATER)

    assert_illegal(check, history(builder), "ballot 2@1, which 1 of 3 replicas had promised")


def test_a_promise_lost_in_a_restart_is_illegal() -> None:
    builder, _, _ = competing_requests()
    promise(builder, 0, LATER)
    builder.crash(0)
    builder.restart(0)
    promise(builder, 0, BALLOT)

    verdict = assert_illegal(
        check, history(builder), "promised ballot 1@0 after it had promised 2@1"
    )
    assert "incarnation 0" in verdict.counterexample[0].actor
    assert "incarnation 1" in verdict.counterexample[1].actor


def with_lost_disk(builder: HistoryBuilder, replica: int) -> History:
    run = history(builder)
    logs = [
        msgspec.structs.replace(log, has_empty_disk=log.replica == replica and log.incarnation == 1)
        for log in run.logs
    ]
    return msgspec.structs.replace(run, logs=tuple(logs))


def test_a_replica_that_lost_its_disk_need_not_report_its_votes() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    builder.crash(0)
    builder.restart(0)
    promise(builder, 0, LATER)
    promise(builder, 1, LATER)
    vote(builder, LATER, (other,), 1, 2)

    assert_ok(check, with_lost_disk(builder, 0))
    assert_illegal(check, history(builder), "omits the vote")


def test_a_replica_that_lost_its_disk_keeps_its_promises() -> None:
    builder, one, _ = competing_requests()
    promise(builder, 0, LATER)
    builder.crash(0)
    builder.restart(0)
    vote(builder, BALLOT, (one,), 0)

    assert_illegal(check, with_lost_disk(builder, 0), "after it had promised")


@pytest.mark.parametrize("is_promised", [False, True])
def test_an_own_ballot_binds_after_a_lost_disk_if_another_replica_promised_it(
    is_promised: bool,
) -> None:
    builder, one, _ = competing_requests()
    own = Ballot(2, 0)
    promise(builder, 0, own)
    if is_promised:
        promise(builder, 1, own)
    builder.crash(0)
    builder.restart(0)
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 2, own)  # a later attempt with the same ballot

    if is_promised:
        assert_illegal(
            check, with_lost_disk(builder, 0), "voted in ballot 1@0 after it had promised 2@0"
        )
    else:
        assert_ok(check, with_lost_disk(builder, 0))


def test_a_decision_survives_the_loss_of_a_disk() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0, 1)
    builder.crash(0)
    builder.restart(0)
    promise(builder, 0, LATER)
    promise(builder, 2, LATER)
    vote(builder, LATER, (other,), 0, 2)

    assert_illegal(check, with_lost_disk(builder, 0), "for another batch than was decided")


def test_a_lost_promise_has_no_effect() -> None:
    builder, one, _ = competing_requests()
    promise(builder, 0, LATER)
    builder.crash(0)
    builder.restart(0)
    vote(builder, BALLOT, (one,), 0)
    run = history(builder)

    def without_last_event(index: int) -> History:
        logs = list(run.logs)
        visible_count = len(logs[index].events) - 1
        logs[index] = msgspec.structs.replace(logs[index], visible_count=visible_count)
        return msgspec.structs.replace(run, logs=tuple(logs))

    assert_ok(check, without_last_event(0))


def test_a_lost_vote_that_was_recovered_may_be_reported() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 0, LATER, AcceptedValue(1, BALLOT, (one,)))
    promise(builder, 1, LATER)
    vote(builder, LATER, (one,), 1, 0)
    builder.crash(0)
    builder.restart(0)
    crashed = builder.incarnations[0][0]

    def with_promise(value: AcceptedValue) -> History:
        builder.incarnations[0][-1].events = list(recovered)
        promise(builder, 0, LAST, value)
        run = history(builder)
        logs = tuple(
            msgspec.structs.replace(log, visible_count=len(crashed.events) - 1)
            if (log.replica, log.incarnation) == (0, 0)
            else log
            for log in run.logs
        )
        return msgspec.structs.replace(run, logs=logs)

    recovered = builder.incarnations[0][-1].events
    assert_ok(check, with_promise(AcceptedValue(1, LATER, (one,))))
    assert_ok(check, with_promise(AcceptedValue(1, BALLOT, (one,))))
    assert_illegal(
        check, with_promise(AcceptedValue(1, LATER, (other,))), "3@2 omits the vote in ballot 1@0"
    )


def test_a_promise_that_omits_a_vote_is_illegal() -> None:
    builder, one, _ = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 0, LATER)

    assert_illegal(check, history(builder), "2@1 omits the vote in ballot 1@0 of instance 1")


def test_a_promise_that_reports_another_batch_is_illegal() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 0, LATER, AcceptedValue(1, BALLOT, (other,)))

    assert_illegal(check, history(builder), "omits the vote in ballot 1@0 of instance 1")


def test_a_promise_need_not_report_instances_that_were_not_requested() -> None:
    builder, one, _ = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    builder.log(0, BallotPromised(LATER, 2, 1, ()))

    assert_ok(check, history(builder))


@pytest.mark.parametrize("joins", ["first", "later"])
def test_a_joining_replica_reports_the_earlier_votes_of_others(joins: str) -> None:
    """The replica received the votes when it joined. Seeds 482666 of smr, 487866 of both."""
    builder = HistoryBuilder()
    one = builder.invoke_strong(0, "append", "a")
    builder.rb_deliver(one)
    for replica in (0, 1, 2) if joins == "first" else (0, 1):
        promise(builder, replica, BALLOT)
    vote(builder, BALLOT, (one,), 0, instance=0)
    promise(builder, 2, LATER, AcceptedValue(0, BALLOT, (one,)))

    if joins == "later":
        assert_ok(check, history(builder))
    else:
        assert_illegal(
            check, history(builder), "vote in ballot 1@0 of instance 0, which was never cast"
        )


def test_two_batches_in_one_ballot_are_illegal() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    vote(builder, BALLOT, (other,), 1)

    assert_illegal(
        check, history(builder), "two batches were voted for in ballot 1@0 of instance 1"
    )


def test_a_ballot_without_the_promises_of_a_majority_is_illegal() -> None:
    builder, one, _ = competing_requests()
    promise(builder, 1, LATER)
    vote(builder, LATER, (one,), 1)

    assert_illegal(check, history(builder), "ballot 2@1, which 1 of 3 replicas had promised")


def test_a_leader_that_proposes_the_batch_of_a_lower_ballot_is_illegal() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 1, LATER)
    promise(builder, 2, LATER)
    vote(builder, LATER, (other,), 1)
    promise(builder, 0, LAST, AcceptedValue(1, BALLOT, (one,)))
    promise(builder, 1, LAST, AcceptedValue(1, LATER, (other,)))
    vote(builder, LAST, (one,), 0)

    assert_illegal(
        check, history(builder), "no majority of promises of ballot 3@2 allows the batch"
    )


def test_a_leader_that_ignores_a_reported_vote_is_illegal() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 0, LATER, AcceptedValue(1, BALLOT, (one,)))
    promise(builder, 1, LATER)
    vote(builder, LATER, (other,), 1)

    assert_illegal(
        check, history(builder), "no majority of promises of ballot 2@1 allows the batch"
    )


@pytest.mark.parametrize(("first", "decided"), [(2, 1), (0, 2)])
def test_promises_allow_no_batch_in_instances_that_they_do_not_report(
    first: int, decided: int
) -> None:
    """The promises cover later instances only, or report the instance as decided."""
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0, 1)
    promise(builder, 2, LATER)
    builder.log(1, BallotPromised(LATER, first, decided, ()))
    vote(builder, LATER, (other,), 2)

    assert_illegal(
        check, history(builder), "no majority of promises of ballot 2@1 allows the batch"
    )


def test_a_promise_that_reports_a_vote_that_was_never_cast_is_illegal() -> None:
    builder, one, _ = competing_requests()
    vote(builder, BALLOT, (one,), 1)
    promise(builder, 0, LATER, AcceptedValue(1, BALLOT, (one,)))

    text = "2@1 reports a vote in ballot 1@0 of instance 1, which was never cast"
    assert_illegal(check, history(builder), text)


def test_a_replica_that_lost_its_disk_reports_the_votes_of_others() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 1)
    builder.crash(0)
    builder.restart(0)
    promise(builder, 0, LATER, AcceptedValue(1, BALLOT, (one,)))
    assert_ok(check, with_lost_disk(builder, 0))

    promise(builder, 0, LAST, AcceptedValue(1, BALLOT, (other,)))
    assert_illegal(check, with_lost_disk(builder, 0), "which was never cast")


def test_a_delivery_before_the_votes_of_a_majority_is_illegal() -> None:
    builder, one, _ = competing_requests()
    builder.cab_deliver()
    vote(builder, BALLOT, (one,), 0)
    builder.decided_batches.append((one,))
    builder.cab_deliver(0)

    assert_illegal(
        check, history(builder), f"{one} was CAB-delivered before a majority voted for it"
    )


def test_votes_after_the_delivery_do_not_count() -> None:
    builder, one, _ = competing_requests()
    builder.cab_deliver()
    vote(builder, BALLOT, (one,), 0)
    builder.decided_batches.append((one,))
    builder.cab_deliver(0)
    vote(builder, BALLOT, (one,), 1, 2)

    assert_illegal(
        check, history(builder), f"{one} was CAB-delivered before a majority voted for it"
    )


def test_a_lost_vote_that_was_recovered_may_decide() -> None:
    """All votes of the deciding ballot were lost at first."""
    builder, one, _ = competing_requests()
    for replica in (0, 1):
        promise(builder, replica, LATER)
    vote(builder, LATER, (one,), 0, 1)
    for replica in (0, 1):
        builder.crash(replica)
        builder.restart(replica)
    builder.decided_batches.append((one,))
    builder.cab_deliver(0)
    run = history(builder)
    logs = [
        msgspec.structs.replace(log, visible_count=len(log.events) - 1)
        if log.replica < 2 and log.incarnation == 0
        else log
        for log in run.logs
    ]
    assert logs[0].lost_events[0].event == Voted(LATER, 1, (one,))

    assert_ok(check, msgspec.structs.replace(run, logs=tuple(logs)))


def test_a_delivery_of_another_batch_than_voted_for_is_illegal() -> None:
    builder, one, other = competing_requests()
    builder.cab_deliver()
    vote(builder, BALLOT, (one,), 0, 1)
    builder.decided_batches.append((other,))
    builder.cab_deliver(0)

    assert_illegal(
        check, history(builder), f"{other} was CAB-delivered before a majority voted for it"
    )


def test_a_promise_that_reports_an_undecided_instance_is_illegal() -> None:
    builder, one, _ = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    builder.log(0, BallotPromised(LATER, 0, 2, ()))

    assert_illegal(check, history(builder), "reports the instances below 2 as decided")


def test_a_promise_that_reports_a_decision_before_the_votes_is_illegal() -> None:
    builder, one, _ = competing_requests()
    builder.log(0, BallotPromised(BALLOT, 0, 2, ()))
    vote(builder, BALLOT, (one,), 0, 1, 2)

    assert_illegal(check, history(builder), "reports the instances below 2 as decided")


def removed_member() -> tuple[HistoryBuilder, Dot]:
    """Remove the last of four members, and cast a strong request for the next instance."""
    builder = HistoryBuilder(members=4)
    change = Configuration(0, tuple((each, "") for each in range(4))).remove_operation(3)
    removal = builder.invoke_strong(0, change.name, *change.arguments)
    builder.rb_deliver(removal)
    builder.decide(removal)
    builder.cab_deliver()
    one = builder.invoke_strong(1, "append", "b")
    builder.rb_deliver(one)
    return builder, one


def test_the_new_members_decide_after_a_membership_change() -> None:
    builder, one = removed_member()
    ballot = Ballot(ROUNDS_PER_EPOCH, 1)
    for replica in (0, 1):
        promise(builder, replica, ballot)
    vote(builder, ballot, (one,), 0, 1)
    builder.decided_batches.append((one,))
    builder.cab_deliver(0)

    assert_ok(check, history(builder))


def test_half_of_the_old_members_is_no_majority_in_their_ballots() -> None:
    builder, one = removed_member()
    for replica in (0, 1):
        builder.incarnations[replica][-1].events = [
            each
            for each in builder.incarnations[replica][-1].events
            if not isinstance(each.event, Committed)
        ]
    vote(builder, BALLOT, (one,), 0, 1)
    builder.decided_batches.append((one,))
    builder.cab_deliver(2)

    assert_illegal(
        check, history(builder), f"{one} was CAB-delivered before a majority voted for it"
    )


@pytest.mark.parametrize("event", [BallotPromised(BALLOT, 0, 0, ()), Voted(BALLOT, 1, ())])
def test_a_replica_with_the_new_members_must_not_vote_in_ballots_of_the_old(
    event: BallotPromised | Voted,
) -> None:
    builder, _ = removed_member()
    builder.log(0, event)

    text = "replica 0 promised or voted in epoch 0, but its committed members are those of epoch 1"
    assert_illegal(check, history(builder), text)


def test_a_replica_with_the_old_members_must_not_vote_in_ballots_of_the_new() -> None:
    builder, _ = removed_member()
    builder.crash(0)
    builder.restart(0)
    restarted = builder.incarnations[0][-1]
    restarted.events = [each for each in restarted.events if not isinstance(each.event, Committed)]
    promise(builder, 0, Ballot(ROUNDS_PER_EPOCH, 1))

    text = "replica 0 promised or voted in epoch 1, but its committed members are those of epoch 0"
    assert_illegal(check, history(builder), text)


@pytest.mark.parametrize("epoch", [1, 2])
def test_removed_replicas_and_future_epochs_have_no_votes(epoch: int) -> None:
    builder, _ = removed_member()
    replica = 3 if epoch == 1 else 0
    ballot = Ballot(epoch * ROUNDS_PER_EPOCH, 1)
    promise(builder, replica, ballot)

    assert_illegal(
        check,
        history(builder),
        f"replica {replica} promised or voted in ballot {ballot}, but is not a voter of its epoch",
    )


def test_a_run_without_records_of_acceptors_is_inconclusive() -> None:
    builder, _, _ = competing_requests()
    builder.cab_deliver()
    run = builder.history(quiescent=False)
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


def test_a_primary_with_the_only_vote_decides_alone() -> None:
    builder = HistoryBuilder(members=5, guarantees=PRIMARY)
    one = builder.invoke_weak(1, "append", "a")
    builder.rb_deliver(one, 0)
    builder.decide(one)
    builder.cab_deliver(0, 1)

    assert_ok(check, history(builder))
    creek = msgspec.structs.replace(history(builder), guarantees=SchemeGuarantees())
    assert_illegal(check, creek, "ballot 1@0, which 1 of 5 replicas had promised")


def test_a_decision_without_the_primary_is_illegal() -> None:
    builder = HistoryBuilder(guarantees=PRIMARY)
    one = builder.invoke_weak(0, "append", "a")
    builder.decide(one)
    builder.cab_deliver()
    builder.decided_batches.append((builder.invoke_weak(1, "append", "b"),))
    builder.cab_deliver(1)

    assert_illegal(check, history(builder), "1.1 was CAB-delivered before a majority voted for it")


@pytest.mark.parametrize("event", [BallotPromised(LATER, 0, 0, ()), Voted(BALLOT, 0, ())])
def test_a_promise_or_a_vote_of_a_replica_without_a_vote_is_illegal(
    event: BallotPromised | Voted,
) -> None:
    builder = HistoryBuilder(guarantees=PRIMARY)
    builder.decide(builder.invoke_weak(0, "append", "a"))
    builder.log(1, event)

    assert_illegal(
        check,
        history(builder),
        f"replica 1 promised or voted in ballot {event.ballot}, but is not a voter of its epoch",
    )


# --- fast path: the fast quorum of ballot 1@0 is (0, 2), that of 2@1 is (1, 0) ------------------


def first_vote(builder: HistoryBuilder, ballot: Ballot, batch: Batch, replica: int) -> None:
    builder.log(replica, FirstVoted(ballot, 1, batch))


def test_a_fast_decision_that_a_later_ballot_keeps_is_legal() -> None:
    builder, one, _ = competing_requests()
    first_vote(builder, BALLOT, (one,), 2)
    vote(builder, BALLOT, (one,), 0)
    builder.log(1, CabDelivered(one, 1))
    promise(builder, 1, LATER)
    promise(builder, 2, LATER, AcceptedValue(~1, BALLOT, (one,)))
    vote(builder, LATER, (one,), 1, 2)

    assert_ok(check, history(builder))


def test_a_second_vote_outranks_a_first_vote() -> None:
    builder, one, other = competing_requests()
    first_vote(builder, BALLOT, (one,), 2)
    vote(builder, BALLOT, (other,), 0, 2)
    promise(builder, 1, LATER)
    reported = AcceptedValue(~1, BALLOT, (one,)), AcceptedValue(1, BALLOT, (other,))
    promise(builder, 2, LATER, *reported)
    vote(builder, LATER, (other,), 1)

    assert_ok(check, history(builder))


def test_a_later_ballot_that_drops_a_fast_decision_is_illegal() -> None:
    builder, one, other = competing_requests()
    first_vote(builder, BALLOT, (one,), 2)
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 1, LATER)
    promise(builder, 2, LATER, AcceptedValue(~1, BALLOT, (one,)))
    vote(builder, LATER, (other,), 1, 2)

    assert_illegal(check, history(builder), "no majority of promises of ballot 2@1 allows")


def test_a_promise_that_omits_a_first_vote_is_illegal() -> None:
    builder, one, _ = competing_requests()
    first_vote(builder, BALLOT, (one,), 2)
    promise(builder, 2, LATER)

    assert_illegal(check, history(builder), "the promise of ballot 2@1 omits the vote")


def test_a_first_vote_outside_the_fast_quorum_is_illegal() -> None:
    builder, one, _ = competing_requests()
    first_vote(builder, BALLOT, (one,), 1)

    assert_illegal(check, history(builder), "does not follow its owner in the fast quorum")


def test_two_first_votes_in_one_ballot_are_illegal() -> None:
    builder, one, other = competing_requests()
    first_vote(builder, BALLOT, (one,), 2)
    first_vote(builder, BALLOT, (other,), 2)

    assert_illegal(check, history(builder), "cast a first vote after another vote")


def test_a_first_vote_in_an_instance_with_reported_votes_is_illegal() -> None:
    builder, one, other = competing_requests()
    vote(builder, BALLOT, (one,), 0)
    promise(builder, 0, LATER, AcceptedValue(1, BALLOT, (one,)))
    promise(builder, 1, LATER)
    first_vote(builder, LATER, (other,), 0)

    assert_illegal(check, history(builder), "in which the promises may report votes")


def test_a_first_vote_does_not_complete_another_majority() -> None:
    builder, one, _ = competing_requests()
    first_vote(builder, BALLOT, (one,), 2)
    vote(builder, BALLOT, (one,), 1)
    builder.log(1, CabDelivered(one, 1))

    assert_illegal(check, history(builder), "was CAB-delivered before a majority voted for it")
