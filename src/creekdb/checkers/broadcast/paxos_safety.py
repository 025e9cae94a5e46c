"""Acceptors keep their promises, across crashes too, and leaders respect the reported votes.

Section 5 builds CAB on Multi-Paxos. It requires "uniform agreement: no two processes (correct or
not) decide a different value". It also requires "uniform validity: if a process decides v, then
(v, rcv) was proposed by some process". A violation reaches the other checkers only as a
disagreement between committed orders, which takes several faults in a row. This checker compares
every single step with the rules that exclude a violation:

- No acceptor promises or votes below a ballot that it has promised.
- A promise reports the last vote in every instance from the requested one on, and no other votes.
- In one ballot, acceptors vote for one batch per instance, after a majority promised the ballot.
- The promises of some majority must allow the batch. These are promises that cover the instance
  and do not report it as decided. They allow the batch of the highest reported ballot, or any
  batch if they report no vote.
- If votes decided a batch in one ballot, all later votes are for this batch.
- No instance is reported as decided, or delivered, before votes in one ballot decided it.

A majority decides. With a fast path, acceptors also cast first votes, before the proposal of the
leader. The fast quorum of a ballot decides, if its owner voted for a batch and all others did, by
first or by second votes (`creekdb.checkers.quorums`). More rules hold then:

- Only members of the fast quorum other than the owner cast first votes, one per ballot and
  instance, and none after their second vote.
- A first vote needs a majority of promises that report no vote in its instance. Then every batch is
  safe.
- A promise reports the last first vote in every instance, too. Of votes in one ballot, a first vote
  allows a batch only if no second vote is reported.

A majority is one of the voters, and only voters promise and vote. If the membership changed, the
round of a ballot determines its epoch. An acceptor promises and votes only in ballots of its own
epoch: it has committed all earlier membership changes, and no later one.

A replica that lost its disk has lost its votes, and need not report them. Other replicas cast the
votes for anything that was decided, and later votes must agree with them. A replica with an empty
disk reports the votes that others had cast by then, as if they were its own. It still keeps its
promises, except for those of its own ballots that no other replica promised. Such ballots cannot
have had an effect.

Only events that other processes could observe count, so a lost promise has no effect. A lost vote
may have reached the disk. It can then still contribute to a decision, or be reported.
"""

from typing import NamedTuple

from creekdb.checkers.quorums import fast_quorum
from creekdb.checkers.run_index import MissingRecords, RunIndex, committed_length_after
from creekdb.checkers.verdict import Evidence, Violation, checker
from creekdb.history import (
    ROUNDS_PER_EPOCH,
    AcceptedValue,
    Ballot,
    BallotPromised,
    Batch,
    CabDelivered,
    CheckpointInstalled,
    FirstVoted,
    LoggedEvent,
    ReplicaLog,
    Voted,
)

NEVER = float("inf")


class _LoggedVote(NamedTuple):
    log: ReplicaLog
    logged: LoggedEvent
    vote: Voted | FirstVoted
    is_visible: bool = True

    @property
    def is_first(self) -> bool:
        """True for a first vote."""
        return isinstance(self.vote, FirstVoted)


class _LoggedPromise(NamedTuple):
    log: ReplicaLog
    logged: LoggedEvent
    accepted: dict[int, AcceptedValue]
    """Reported vote of the highest rank, by instance."""
    first: int
    """First instance whose votes the promise reports."""


class _Decision(NamedTuple):
    """Votes that decide one batch in one ballot. The last vote determines `at_us`."""

    at_us: int
    ballot: Ballot
    batch: Batch
    votes: tuple[_LoggedVote, ...]


@checker("promises")
def check(run: RunIndex) -> None:
    paxos = _PaxosHistory(run)
    if paxos.has_no_records:
        raise MissingRecords("the run recorded no promises and votes of acceptors")
    _check_acceptors(run, paxos)
    paxos.check()


# --- single acceptors ---------------------------------------------------------------------------


def _check_acceptors(run: RunIndex, paxos: "_PaxosHistory") -> None:
    voters = {voter for voters in run.electorates for voter in voters}
    acceptors = {voter: _AcceptorHistory(paxos, voter) for voter in voters}
    for log in run.logs:
        if log.has_empty_disk and log.replica in acceptors:
            acceptors[log.replica].lose_disk(log)
        length = 0
        for logged in log.visible_events:
            length = max(length, committed_length_after(logged.event))
            if not isinstance(logged.event, BallotPromised | Voted | FirstVoted):
                continue
            if log.replica not in run.electorate(logged.event.ballot):
                message = (
                    f"replica {log.replica} promised or voted in ballot {logged.event.ballot}, "
                    "but is not a voter of its epoch"
                )
                raise Violation(message, (log, logged))
            epoch = logged.event.ballot.round // ROUNDS_PER_EPOCH
            if epoch != run.epoch_of(length):
                message = (
                    f"replica {log.replica} promised or voted in epoch {epoch}, "
                    f"but its committed members are those of epoch {run.epoch_of(length)}"
                )
                raise Violation(message, (log, logged))
            acceptors[log.replica].check(log, logged, logged.event)


class _AcceptorHistory:
    """Promises and votes of one replica, over all of its incarnations."""

    def __init__(self, paxos: "_PaxosHistory", replica: int) -> None:
        self.paxos = paxos
        self.replica = replica
        self.promises: list[tuple[Ballot, Evidence]] = []
        """Ballots in ascending order."""
        self.joined_us = NEVER
        """Time of the first promise or vote after the last loss of the disk."""
        self.votes: dict[int, _LoggedVote] = {}
        """Last vote on disk, by the instance in a report, which differs for first votes."""
        self.all_votes: set[AcceptedValue] = set()

    def lose_disk(self, log: ReplicaLog) -> None:
        """Discard lost votes and promises. The incarnation of `log` began with an empty disk."""
        self.joined_us = NEVER
        self.votes.clear()
        self.promises = [
            (ballot, evidence)
            for ballot, evidence in self.promises
            if ballot.replica != self.replica
            or any(
                replica != self.replica and promise.logged.at_us <= log.started_us
                for replica, promise in self.paxos.promises.get(ballot, {}).items()
            )
        ]

    def check(
        self, log: ReplicaLog, logged: LoggedEvent, event: BallotPromised | Voted | FirstVoted
    ) -> None:
        self.joined_us = min(self.joined_us, logged.at_us)
        evidence = (log, logged)
        promised = self.promises[-1] if self.promises else None
        if promised is not None and event.ballot < promised[0]:
            action = "promised" if isinstance(event, BallotPromised) else "voted in"
            message = (
                f"replica {log.replica} {action} ballot {event.ballot} "
                f"after it had promised {promised[0]}"
            )
            raise Violation(message, promised[1], evidence)
        if promised is None or event.ballot > promised[0]:
            self.promises.append((event.ballot, evidence))
        if isinstance(event, BallotPromised):
            self._check_promise(event, evidence)
            return
        value = _as_value(event)
        if isinstance(event, FirstVoted):
            self._check_first_vote(event, evidence)
        self.votes[value.instance] = _LoggedVote(log, logged, event)
        self.all_votes.add(value)

    def _check_first_vote(self, vote: FirstVoted, evidence: Evidence) -> None:
        electorate = self.paxos.run.electorate(vote.ballot)
        if self.replica not in fast_quorum(electorate, vote.ballot)[1:]:
            message = (
                f"replica {self.replica} cast a first vote in ballot {vote.ballot}, "
                "but does not follow its owner in the fast quorum"
            )
            raise Violation(message, evidence)
        for earlier in (vote.instance, ~vote.instance):
            known = self.votes.get(earlier)
            if known is not None and known.vote.ballot == vote.ballot:
                message = (
                    f"replica {self.replica} cast a first vote after another vote "
                    f"in ballot {vote.ballot} of instance {vote.instance}"
                )
                raise Violation(message, known, evidence)

    def _check_promise(self, promise: BallotPromised, evidence: Evidence) -> None:
        reported = {each.instance: each for each in promise.accepted}
        for instance, logged_vote in self.votes.items():
            if logged_vote.vote.instance < _first_reported_instance(promise):
                continue
            value, vote = reported.get(instance), _as_value(logged_vote.vote)
            if value is None or not self._is_latest_vote(value, vote):
                message = (
                    f"the promise of ballot {promise.ballot} omits "
                    f"the vote in ballot {vote.ballot} of instance {vote.true_instance}"
                )
                raise Violation(message, logged_vote, evidence)
        for value in promise.accepted:
            if not self._has_voted(value):
                message = (
                    f"the promise of ballot {promise.ballot} reports a vote in ballot "
                    f"{value.ballot} of instance {value.true_instance}, which was never cast"
                )
                raise Violation(message, evidence)

    def _has_voted(self, reported: AcceptedValue) -> bool:
        return reported in self.all_votes or any(
            self._is_own_lost_vote(each) or each.logged.at_us <= self.joined_us
            for each in self.paxos.casts(reported)
        )

    def _is_latest_vote(self, reported: AcceptedValue, visible: AcceptedValue) -> bool:
        return reported == visible or (
            reported.ballot > visible.ballot
            and any(map(self._is_own_lost_vote, self.paxos.casts(reported)))
        )

    def _is_own_lost_vote(self, vote: _LoggedVote) -> bool:
        return not vote.is_visible and vote.log.replica == self.replica


# --- all acceptors ------------------------------------------------------------------------------


class _PaxosHistory:
    """All promises and votes of a run."""

    def __init__(self, run: RunIndex) -> None:
        self.run = run
        self.promises: dict[Ballot, dict[int, _LoggedPromise]] = {}
        """First promise of each replica. Repeated promises report the same votes."""
        self.votes: dict[int, dict[Ballot, list[_LoggedVote]]] = {}
        """Votes in the order of time, including lost ones."""
        delivered = False
        for log, logged in run.events():
            match logged.event:
                case BallotPromised(ballot=ballot, accepted=accepted) as promised:
                    reported = {
                        each.true_instance: each
                        for each in sorted(accepted, key=lambda each: each.rank)
                    }
                    first = _first_reported_instance(promised)
                    promise = _LoggedPromise(log, logged, reported, first)
                    self.promises.setdefault(ballot, {}).setdefault(log.replica, promise)
                case (Voted() | FirstVoted()) as vote:
                    self._add_vote(_LoggedVote(log, logged, vote))
                case CabDelivered() | CheckpointInstalled():
                    delivered = True
                case _:
                    pass
        for log, logged in run.lost_events():
            if isinstance(logged.event, Voted | FirstVoted):
                self._add_vote(_LoggedVote(log, logged, logged.event, is_visible=False))
        self.has_no_records = delivered and not self.votes and not self.promises
        for ballots in self.votes.values():
            for votes in ballots.values():
                votes.sort(key=lambda vote: vote.logged.at_us)

    def _add_vote(self, logged: _LoggedVote) -> None:
        ballots = self.votes.setdefault(logged.vote.instance, {})
        ballots.setdefault(logged.vote.ballot, []).append(logged)

    def casts(self, value: AcceptedValue) -> list[_LoggedVote]:
        """Return all votes for a value, of its kind, by any acceptor, in the order of time."""
        votes = self.votes.get(value.true_instance, {}).get(value.ballot, [])
        return [each for each in votes if _as_value(each.vote) == value]

    def check(self) -> None:
        possible: dict[int, list[_Decision]] = {}
        for instance, ballots in self.votes.items():
            first: _Decision | None = None
            for ballot, votes in sorted(ballots.items()):
                for batch in dict.fromkeys(vote.vote.batch for vote in votes):
                    # Lost votes in one ballot may be for different batches.
                    if decision := self._decision(
                        [each for each in votes if each.vote.batch == batch]
                    ):
                        possible.setdefault(instance, []).append(decision)
                visible = [vote for vote in votes if vote.is_visible]
                for vote in visible:
                    if vote.is_first:
                        self._check_majority_promised(ballot, vote)
                        self._check_instance_open(ballot, vote)
                        _check_agreement(instance, vote, first)
                second_votes = [vote for vote in visible if not vote.is_first]
                if not second_votes:
                    continue
                _check_one_batch(ballot, instance, second_votes)
                self._check_majority_promised(ballot, second_votes[0])
                self._check_value_allowed(ballot, second_votes[0])
                _check_agreement(instance, second_votes[0], first)
                batch = second_votes[0].vote.batch
                first = first or self._decision(
                    [each for each in visible if each.vote.batch == batch]
                )
        self._check_decided_claims(possible)

    def _check_majority_promised(self, ballot: Ballot, vote: _LoggedVote) -> None:
        promises = self._promises_before(ballot, vote.logged.at_us)
        if len(promises) < self._majority(ballot):
            message = (
                f"replica {vote.log.replica} voted in ballot {ballot}, which "
                f"{len(promises)} of {len(self.run.electorate(ballot))} replicas had promised"
            )
            raise Violation(message, *promises[:4], vote)

    def _check_value_allowed(self, ballot: Ballot, vote: _LoggedVote) -> None:
        instance = vote.vote.instance
        promises = [
            each
            for each in self._promises_before(ballot, vote.logged.at_us)
            if each.first <= instance
        ]
        values = [value for each in promises if (value := each.accepted.get(instance))]
        without_vote, majority = len(promises) - len(values), self._majority(ballot)
        if without_vote >= majority:
            return
        for value in values:
            not_higher = sum(1 for other in values if other.rank <= value.rank)
            if value.batch == vote.vote.batch and not_higher + without_vote >= majority:
                return
        message = (
            f"no majority of promises of ballot {ballot} allows "
            f"the batch that is voted for in instance {instance}"
        )
        reporting = [each for each in promises if instance in each.accepted]
        raise Violation(message, *reporting[:4], vote)

    def _check_instance_open(self, ballot: Ballot, vote: _LoggedVote) -> None:
        """Check that a majority of promises reports no vote in the instance of a first vote."""
        instance = vote.vote.instance
        promises = self._promises_before(ballot, vote.logged.at_us)
        free = [each for each in promises if each.first <= instance not in each.accepted]
        if len(free) < self._majority(ballot):
            message = (
                f"replica {vote.log.replica} cast a first vote in ballot {ballot} of instance "
                f"{instance}, in which the promises may report votes"
            )
            raise Violation(message, *promises[:4], vote)

    def _promises_before(self, ballot: Ballot, at_us: int) -> list[_LoggedPromise]:
        promises = self.promises.get(ballot, {}).values()
        return [each for each in promises if each.logged.at_us <= at_us]

    def _majority(self, ballot: Ballot) -> int:
        return len(self.run.electorate(ballot)) // 2 + 1

    def _decision(self, votes: list[_LoggedVote]) -> _Decision | None:
        """Return the decision by `votes` for one batch in one ballot of one instance, or None."""
        voters: dict[int, _LoggedVote] = {}
        second_votes: set[int] = set()
        first_votes: set[int] = set()
        for each in votes:
            voters.setdefault(each.log.replica, each)
            (first_votes if each.is_first else second_votes).add(each.log.replica)
            vote = each.vote
            if self.run.decides(vote.ballot, second_votes, first_votes):
                return _Decision(each.logged.at_us, vote.ballot, vote.batch, tuple(voters.values()))
        return None

    def _check_decided_claims(self, possible: dict[int, list[_Decision]]) -> None:
        """Compare every report of a decision with the votes."""
        decided_us = [0.0]
        """By instance: time at which all lower instances were decided."""
        while decisions := possible.get(len(decided_us) - 1):
            decided_us.append(max(decided_us[-1], min(each.at_us for each in decisions)))
        for log, logged in self.run.events():
            match logged.event:
                case CabDelivered(id=dot, instance=instance):
                    if not any(
                        each.at_us <= logged.at_us and dot in each.batch
                        for each in possible.get(instance, ())
                    ):
                        message = f"{dot} was CAB-delivered before a majority voted for it"
                        raise Violation(message, (log, logged))
                case BallotPromised(decided=below) | CheckpointInstalled(instance=below):
                    by_us = decided_us[below] if below < len(decided_us) else NEVER
                    if by_us > logged.at_us:
                        message = (
                            f"replica {log.replica} reports the instances below {below} as "
                            "decided, but no majority had voted in all of them"
                        )
                        raise Violation(message, (log, logged))
                case _:
                    pass


def _first_reported_instance(promise: BallotPromised) -> int:
    """Return the first instance that a promise must report. Decided ones may be omitted."""
    return max(promise.first, promise.decided)


def _as_value(vote: Voted | FirstVoted) -> AcceptedValue:
    instance = ~vote.instance if isinstance(vote, FirstVoted) else vote.instance
    return AcceptedValue(instance, vote.ballot, vote.batch)


def _check_one_batch(ballot: Ballot, instance: int, votes: list[_LoggedVote]) -> None:
    for vote in votes:
        if vote.vote.batch != votes[0].vote.batch:
            message = f"two batches were voted for in ballot {ballot} of instance {instance}"
            raise Violation(message, votes[0], vote)


def _check_agreement(instance: int, vote: _LoggedVote, decision: _Decision | None) -> None:
    """Check a vote against the decision of an earlier ballot."""
    if decision is not None and vote.vote.batch != decision.batch:
        message = (
            f"replica {vote.log.replica} voted in ballot {vote.vote.ballot} of instance "
            f"{instance} for another batch than was decided in ballot {decision.ballot}"
        )
        raise Violation(message, *decision.votes[:4], vote)
