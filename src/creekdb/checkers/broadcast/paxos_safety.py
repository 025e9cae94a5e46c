"""Acceptors keep their promises, across crashes too, and leaders respect what they are told.

Section 5 builds CAB on Multi-Paxos and asks for "uniform agreement: no two processes (correct or
not) decide a different value" and "uniform validity: if a process decides v, then (v, rcv) was
proposed by some process". What the other checkers see of that is a disagreement between committed
orders, which takes several accidents in a row. Here each single step is held against the rules
that exclude it:

- no acceptor promises or votes below a ballot that it has promised;
- a promise tells of the last vote in every instance from which on it was asked, and of no other;
- in one ballot, one batch is voted for in an instance; only once a majority promised the ballot;
  and it is one that the promises of some majority allow, which were asked for that instance and do
  not say that it is decided: the batch of the highest ballot among them, or any if they tell of
  none;
- what a majority voted for in one ballot is what everybody votes for in later ones;
- nothing is said to be decided, or delivered, before a majority voted for it in one ballot.

A majority is one of those who have a vote; nobody else promises or votes. Where the members were
changed, the round of a ballot tells whose it is; and it is theirs as the one who promises or votes
knows them, who has committed all changes before and none after.

Who lost its disk has forgotten its votes, and need not tell of them: what they may have helped to
decide others voted for as well, and to that everybody is held. Who begins with nothing, for the
first time or again, tells of what others had voted for by then, as if it had voted for that. Its
promises it keeps all the same, but for those of ballots of its own that
nobody else promised: nothing can have come of them.

Only what others could learn of counts: a promise that nobody heard binds nobody. A vote cast in
vain may have reached the disk all the same, and be found there to decide, or be told of.
"""

from typing import NamedTuple

from creekdb.checkers.run_index import RunIndex, committed_length_after
from creekdb.checkers.verdict import Illegal, Inconclusive, Ok, Verdict, Witness, event_witness
from creekdb.history import (
    ROUNDS_PER_EPOCH,
    AcceptedValue,
    Ballot,
    BallotPromised,
    Batch,
    CabDelivered,
    CheckpointInstalled,
    LoggedEvent,
    ReplicaLog,
    Voted,
)

NAME = "promises"
NEVER = float("inf")


class _LoggedVote(NamedTuple):
    log: ReplicaLog
    logged: LoggedEvent
    vote: Voted
    is_visible: bool = True

    @property
    def witness(self) -> Witness:
        return event_witness(self.log, self.logged)


class _LoggedPromise(NamedTuple):
    log: ReplicaLog
    logged: LoggedEvent
    accepted: dict[int, AcceptedValue]
    first: int
    """It tells of instances from here on."""


class _MajorityDecision(NamedTuple):
    """A majority voted for the batch in the ballot; the last of these votes completed it."""

    at_us: int
    ballot: Ballot
    batch: Batch
    votes: tuple[_LoggedVote, ...]


def check(run: RunIndex) -> Verdict:
    paxos = _PaxosHistory(run)
    if paxos.has_no_records:
        return Inconclusive(NAME, "nothing was recorded of what acceptors promised and voted for")
    return _check_acceptors(run) or paxos.check() or Ok(NAME)


# --- each acceptor, on its own ------------------------------------------------------------------


def _check_acceptors(run: RunIndex) -> Illegal | None:
    cast_us: dict[Voted, int] = {}
    """When each vote was first cast, by whomever."""
    for log in run.logs:
        for logged in (*log.events, *log.lost_events):
            if isinstance(logged.event, Voted):
                cast_us[logged.event] = min(cast_us.get(logged.event, logged.at_us), logged.at_us)
    acceptors = {voter: _AcceptorHistory(cast_us) for voters in run.electorates for voter in voters}
    heard_us: dict[Ballot, int] = {}
    """When the first one other than its owner promised a ballot."""
    for log, logged in run.events():
        if isinstance(logged.event, BallotPromised) and logged.event.ballot.replica != log.replica:
            ballot = logged.event.ballot
            heard_us[ballot] = min(heard_us.get(ballot, logged.at_us), logged.at_us)
    for log in run.logs:
        if log.replica not in acceptors:
            continue
        acceptor = acceptors[log.replica]
        acceptor.lost_votes.update(
            logged.event for logged in log.lost_events if isinstance(logged.event, Voted)
        )
        if log.has_empty_disk:
            acceptor.empty_disk_starts_us[log.incarnation] = log.started_us
    length, last = 0, None
    for log, logged in run.events():
        length = max(length if log is last else 0, committed_length_after(logged.event))
        last = log
        if isinstance(logged.event, BallotPromised | Voted):
            if log.replica not in _electorate(run, logged.event.ballot):
                message = f"replica {log.replica} took part in a vote, but has none"
                return Illegal(NAME, message, (event_witness(log, logged),))
            epoch = logged.event.ballot.round // ROUNDS_PER_EPOCH
            if epoch != run.epoch_of(length):
                message = (
                    f"replica {log.replica} took part in a vote of epoch {epoch}, "
                    f"but knows the members of epoch {run.epoch_of(length)}"
                )
                return Illegal(NAME, message, (event_witness(log, logged),))
            acceptors[log.replica].begin_incarnation(log, logged.at_us, heard_us)
            if problem := acceptors[log.replica].check(log, logged, logged.event):
                return problem
    return None


class _AcceptorHistory:
    """One replica, over all of its incarnations."""

    def __init__(self, cast_us: dict[Voted, int]) -> None:
        self.promises: list[tuple[Ballot, Witness]] = []
        """Each above the one before."""
        self.incarnation = 0
        self.empty_disk_starts_us: dict[int, int] = {}
        """The incarnations that began with an empty disk, and when."""
        self.joined_us: int | None = None
        """When it first took part, after it last began with nothing."""
        self.votes: dict[int, _LoggedVote] = {}
        """The last one in each instance that is on its disk."""
        self.all_votes: set[Voted] = set()
        self.lost_votes: set[Voted] = set()
        self._cast_us = cast_us

    def begin_incarnation(self, log: ReplicaLog, now_us: int, heard_us: dict[Ballot, int]) -> None:
        """Has it lost its disk since it was last heard of?"""
        if self.joined_us is None:
            self.joined_us = now_us
        for incarnation, at_us in self.empty_disk_starts_us.items():
            if self.incarnation < incarnation <= log.incarnation:
                self.joined_us = now_us
                self.votes.clear()
                self.promises = [
                    (ballot, witness)
                    for ballot, witness in self.promises
                    if ballot.replica != log.replica or heard_us.get(ballot, NEVER) <= at_us
                ]
        self.incarnation = log.incarnation

    def check(
        self, log: ReplicaLog, logged: LoggedEvent, event: BallotPromised | Voted
    ) -> Illegal | None:
        now, promised = event_witness(log, logged), self.promises[-1] if self.promises else None
        if promised is not None and event.ballot < promised[0]:
            what = "promised" if isinstance(event, BallotPromised) else "voted in"
            message = (
                f"replica {log.replica} {what} ballot {event.ballot} "
                f"after it had promised {promised[0]}"
            )
            return Illegal(NAME, message, (promised[1], now))
        if promised is None or event.ballot > promised[0]:
            self.promises.append((event.ballot, now))
        if isinstance(event, Voted):
            self.votes[event.instance] = _LoggedVote(log, logged, event)
            self.all_votes.add(event)
            return None
        return self._check_promise(event, now)

    def _check_promise(self, promise: BallotPromised, now: Witness) -> Illegal | None:
        told = {each.instance: each for each in promise.accepted}
        for instance, voted in self.votes.items():
            if instance < _first_reported_instance(promise):
                continue
            value, vote = told.get(instance), voted.vote
            if value is None or not self._is_latest_vote(value, vote):
                message = (
                    f"the promise of ballot {promise.ballot} hides "
                    f"the vote in ballot {vote.ballot} of instance {instance}"
                )
                return Illegal(NAME, message, (voted.witness, now))
        for value in promise.accepted:
            if not self._has_voted(value):
                message = (
                    f"the promise of ballot {promise.ballot} tells of a vote in ballot "
                    f"{value.ballot} of instance {value.instance}, which was never cast"
                )
                return Illegal(NAME, message, (now,))
        return None

    def _has_voted(self, told: AcceptedValue) -> bool:
        vote = _as_vote(told)
        if vote in self.all_votes or vote in self.lost_votes:
            return True
        cast_us = self._cast_us.get(vote)
        return cast_us is not None and self.joined_us is not None and cast_us <= self.joined_us

    def _is_latest_vote(self, told: AcceptedValue, known: Voted) -> bool:
        vote = _as_vote(told)
        return vote == known or (told.ballot > known.ballot and vote in self.lost_votes)


# --- all of them together -----------------------------------------------------------------------


class _PaxosHistory:
    """Every promise and every vote of a run."""

    def __init__(self, run: RunIndex) -> None:
        self.run = run
        self.promises: dict[Ballot, dict[int, _LoggedPromise]] = {}
        """The first of each replica: those that it repeats tell no more."""
        self.votes: dict[int, dict[Ballot, list[_LoggedVote]]] = {}
        """In the order of time, those cast in vain among them."""
        delivered = False
        for log, logged in run.events():
            match logged.event:
                case BallotPromised(ballot=ballot, accepted=accepted) as promised:
                    told = {each.instance: each for each in accepted}
                    promise = _LoggedPromise(log, logged, told, _first_reported_instance(promised))
                    self.promises.setdefault(ballot, {}).setdefault(log.replica, promise)
                case Voted(ballot=ballot, instance=instance) as vote:
                    ballots = self.votes.setdefault(instance, {})
                    ballots.setdefault(ballot, []).append(_LoggedVote(log, logged, vote))
                case CabDelivered() | CheckpointInstalled():
                    delivered = True
                case _:
                    pass
        for log in run.logs:
            for logged in log.lost_events:
                if isinstance(logged.event, Voted):
                    vain = _LoggedVote(log, logged, logged.event, is_visible=False)
                    ballots = self.votes.setdefault(logged.event.instance, {})
                    ballots.setdefault(logged.event.ballot, []).append(vain)
        self.has_no_records = delivered and not self.votes and not self.promises
        for ballots in self.votes.values():
            for votes in ballots.values():
                votes.sort(key=lambda vote: vote.logged.at_us)

    def check(self) -> Illegal | None:
        possible: dict[int, list[_MajorityDecision]] = {}
        for instance, ballots in self.votes.items():
            first: _MajorityDecision | None = None
            for ballot, votes in sorted(ballots.items()):
                for batch in dict.fromkeys(vote.vote.batch for vote in votes):
                    # Of those cast in vain in one ballot, each may be for another batch.
                    if found := self._majority_decision(
                        [each for each in votes if each.vote.batch == batch]
                    ):
                        possible.setdefault(instance, []).append(found)
                known = [vote for vote in votes if vote.is_visible]
                if not known:
                    continue
                problem = (
                    _check_one_batch(ballot, instance, known)
                    or self._check_majority_promised(ballot, known[0])
                    or self._check_value_allowed(ballot, known[0])
                    or _check_agreement(instance, known[0], first)
                )
                if problem is not None:
                    return problem
                first = first or self._majority_decision(known)
        return self._check_decided_claims(possible)

    def _check_majority_promised(self, ballot: Ballot, vote: _LoggedVote) -> Illegal | None:
        promises = self._promises_before(ballot, vote.logged.at_us)
        if len(promises) < self._majority(ballot):
            message = (
                f"replica {vote.log.replica} voted in ballot {ballot}, which "
                f"{len(promises)} of {len(_electorate(self.run, ballot))} replicas had promised"
            )
            seen = (event_witness(each.log, each.logged) for each in promises[:4])
            return Illegal(NAME, message, (*seen, vote.witness))
        return None

    def _check_value_allowed(self, ballot: Ballot, vote: _LoggedVote) -> Illegal | None:
        instance = vote.vote.instance
        promises = [
            each
            for each in self._promises_before(ballot, vote.logged.at_us)
            if each.first <= instance
        ]
        told = [value for each in promises if (value := each.accepted.get(instance))]
        if len(promises) - len(told) >= self._majority(ballot):
            return None
        for value in told:
            heard = sum(1 for other in told if other.ballot <= value.ballot)
            silent = len(promises) - len(told)
            if value.batch == vote.vote.batch and heard + silent >= self._majority(ballot):
                return None
        message = (
            f"no majority of promises of ballot {ballot} allows "
            f"the batch that is voted for in instance {instance}"
        )
        tellers = [each for each in promises if instance in each.accepted]
        seen = (event_witness(each.log, each.logged) for each in tellers[:4])
        return Illegal(NAME, message, (*seen, vote.witness))

    def _promises_before(self, ballot: Ballot, at_us: int) -> list[_LoggedPromise]:
        promises = self.promises.get(ballot, {}).values()
        return [each for each in promises if each.logged.at_us <= at_us]

    def _majority(self, ballot: Ballot) -> int:
        return len(_electorate(self.run, ballot)) // 2 + 1

    def _majority_decision(self, votes: list[_LoggedVote]) -> _MajorityDecision | None:
        """`votes` are for one batch, in one ballot of one instance."""
        voters: dict[int, _LoggedVote] = {}
        for vote in votes:
            voters.setdefault(vote.log.replica, vote)
            of = vote.vote
            if len(voters) == self._majority(of.ballot):
                return _MajorityDecision(
                    vote.logged.at_us, of.ballot, of.batch, tuple(voters.values())
                )
        return None

    def _check_decided_claims(self, possible: dict[int, list[_MajorityDecision]]) -> Illegal | None:
        """Every claim that something is decided, held against the votes."""
        since = [0.0]
        """By when all instances below were decided."""
        while decisions := possible.get(len(since) - 1):
            since.append(max(since[-1], min(each.at_us for each in decisions)))
        for log, logged in self.run.events():
            match logged.event:
                case CabDelivered(id=dot, instance=instance):
                    if not any(
                        each.at_us <= logged.at_us and dot in each.batch
                        for each in possible.get(instance, ())
                    ):
                        message = f"{dot} was CAB-delivered before a majority voted for it"
                        return Illegal(NAME, message, (event_witness(log, logged),))
                case BallotPromised(decided=below) | CheckpointInstalled(instance=below):
                    by_us = since[below] if below < len(since) else NEVER
                    if by_us > logged.at_us:
                        message = (
                            f"replica {log.replica} claims that the instances below {below} are "
                            "decided, but no majority had voted in all of them"
                        )
                        return Illegal(NAME, message, (event_witness(log, logged),))
                case _:
                    pass
        return None


def _first_reported_instance(promise: BallotPromised) -> int:
    """The first instance that a promise tells of: what is decided below, it need not tell."""
    return max(promise.first, promise.decided)


def _as_vote(value: AcceptedValue) -> Voted:
    return Voted(value.ballot, value.instance, value.batch)


def _electorate(run: RunIndex, ballot: Ballot) -> tuple[int, ...]:
    """Who votes in the ballot; nobody in one of an epoch that never began."""
    epoch = ballot.round // ROUNDS_PER_EPOCH
    return run.electorates[epoch] if epoch < len(run.electorates) else ()


def _check_one_batch(ballot: Ballot, instance: int, votes: list[_LoggedVote]) -> Illegal | None:
    for vote in votes:
        if vote.vote.batch != votes[0].vote.batch:
            message = f"two batches were voted for in ballot {ballot} of instance {instance}"
            return Illegal(NAME, message, (votes[0].witness, vote.witness))
    return None


def _check_agreement(
    instance: int, vote: _LoggedVote, decision: _MajorityDecision | None
) -> Illegal | None:
    """The decision is of an earlier ballot."""
    if decision is not None and vote.vote.batch != decision.batch:
        message = (
            f"replica {vote.log.replica} voted in ballot {vote.vote.ballot} of instance "
            f"{instance} for another batch than was decided in ballot {decision.ballot}"
        )
        return Illegal(
            NAME, message, (*(each.witness for each in decision.votes[:4]), vote.witness)
        )
    return None
