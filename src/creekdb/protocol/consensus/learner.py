"""Learner: counts votes, retains decisions, and determines the next delivery.

Invariants:
- A batch is decided when a majority voted for it in one ballot, or when a peer reports its
  decision. It is also decided when the whole fast quorum of the ballot voted for it, by first votes
  or otherwise. A first vote counts only there.
- Decisions are delivered in the order of their instances, the identifiers of a batch in its order.
- A decision is retained until every member delivered it or a checkpoint covers it.
"""

from creekdb.protocol.consensus.fast_quorums import FastPathControl, fast_quorum
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Ballot, CatchUp, Decided, Decisions
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.shared_variables import SharedVariables

BALLOTS_PER_INSTANCE_MAX = 4
BACKOFF_DOUBLINGS_MAX = 6


class _Tally:
    """Votes of one ballot in one instance, and its batch once the proposal has arrived."""

    __slots__ = ("ballot", "batch", "first_votes", "voters")

    def __init__(self, ballot: Ballot) -> None:
        self.ballot = ballot
        self.batch: Batch | None = None
        self.voters: set[int] = set()
        self.first_votes: dict[int, Batch] = {}


class Learner:
    def __init__(self, shared: SharedVariables) -> None:
        self._shared = shared
        self._outbox = shared.outbox
        self._probes = shared.probes

        self.decided: dict[int, Batch] = {}
        self.first_retained = 0
        """First retained decision; earlier ones are discarded."""
        self.first_undecided = 0
        self.delivered = 0
        """Every instance below is delivered."""
        self._position = 0
        """Number of delivered identifiers of the instance `delivered`."""
        self._tallies: dict[int, dict[Ballot, _Tally]] = {}
        self._progress: dict[int, int] = {}
        self._stable_instances: dict[int, int] = {}
        self._stalled_at = (-1, -1)
        self._stalled_since = 0
        self._catch_up_attempts = 0
        """Attempts since the last decision or delivery here."""
        self.fast_path: FastPathControl | None = None
        """Receives the decisions in ballots of this replica; None without a fast path."""
        self.reconfigured_below = 0
        """Upper bound of the instance that last changed the members."""

    def reconfigure(self, changed_below: int) -> None:
        """Adopt new members and void the votes in ballots of the old ones."""
        self.reconfigured_below = changed_below
        self._tallies.clear()
        self._shared.drop_removed_peers(self._progress, self._stable_instances)

    # --- voting -------------------------------------------------------------------------------

    def on_proposal(self, ballot: Ballot, instance: int, batch: Batch) -> bool:
        """Record the batch of a proposal; True if that decides the instance."""
        tally = self._tally(ballot, instance)
        if tally is None:
            return False
        tally.batch = batch
        return self._count(instance, tally)

    def on_vote(self, ballot: Ballot, instance: int, voter: int) -> bool:
        tally = self._tally(ballot, instance)
        if tally is None:
            return False
        tally.voters.add(voter)
        return self._count(instance, tally)

    def on_first_vote(self, ballot: Ballot, instance: int, voter: int, batch: Batch) -> bool:
        tally = self._tally(ballot, instance)
        if tally is None:
            return False
        tally.first_votes.setdefault(voter, batch)
        return self._count(instance, tally)

    def has_conflicting_batch(self, ballot: Ballot, instance: int, batch: Batch) -> bool:
        """True if another batch was proposed in the same ballot."""
        tally = self._tallies.get(instance, {}).get(ballot)
        return tally is not None and tally.batch not in (None, batch)

    def decide(self, instance: int, batch: Batch) -> None:
        assert not self.is_decided(instance)
        if instance > self.first_undecided:
            self._probes.hit(Probe.DECIDED_OUT_OF_ORDER)
        self.decided[instance] = batch
        self._tallies.pop(instance, None)
        self._outbox.records.append(Decided(instance, batch))
        while self.first_undecided in self.decided:
            self.first_undecided += 1

    def is_decided(self, instance: int) -> bool:
        return instance < self.first_undecided or instance in self.decided

    def is_beyond_horizon(self, instance: int) -> bool:
        """True if this replica must catch up before it tracks the instance."""
        is_beyond = instance >= self._horizon_end()
        if is_beyond:
            self._probes.hit(Probe.INSTANCE_TOO_FAR_AHEAD)
        return is_beyond

    def _horizon_end(self) -> int:
        """Return the first instance beyond the horizon."""
        return self.first_undecided + self._shared.settings.horizon

    def _tally(self, ballot: Ballot, instance: int) -> _Tally | None:
        if self.is_decided(instance) or self.is_beyond_horizon(instance):
            return None
        ballots = self._tallies.setdefault(instance, {})
        if ballot not in ballots:
            if len(ballots) == BALLOTS_PER_INSTANCE_MAX:
                lowest = min(ballots)
                if ballot < lowest:
                    return None
                del ballots[lowest]
            ballots[ballot] = _Tally(ballot)
        return ballots[ballot]

    def _count(self, instance: int, tally: _Tally) -> bool:
        if len(tally.voters) < self._shared.settings.majority:
            if tally.first_votes and self._is_decided_fast(tally):
                self._probes.hit(Probe.FAST_DECISION)
                self._decide_counted(instance, tally, is_fast=True)
                return True
            return False
        if tally.batch is None:
            self._probes.hit(Probe.VOTES_BEFORE_VALUE)
            return False
        self._decide_counted(instance, tally, is_fast=False)
        return True

    def _is_decided_fast(self, tally: _Tally) -> bool:
        """True if the whole fast quorum voted for the proposal, its owner by a second vote."""
        batch = tally.batch
        if batch is None or tally.ballot.replica not in tally.voters:
            return False
        for member in fast_quorum(self._shared.settings.voters, tally.ballot):
            if member not in tally.voters and tally.first_votes.get(member) != batch:
                return False
        return True

    def _decide_counted(self, instance: int, tally: _Tally, is_fast: bool) -> None:
        assert tally.batch is not None
        if self.fast_path is not None and tally.ballot.replica == self._shared.index:
            self.fast_path.on_decided(instance, None if is_fast else self._absent(tally))
        self.decide(instance, tally.batch)

    def _absent(self, tally: _Tally) -> tuple[int, ...]:
        """Return the members of the fast quorum that have not voted yet."""
        quorum = fast_quorum(self._shared.settings.voters, tally.ballot)
        voters, first_votes = tally.voters, tally.first_votes
        return tuple([each for each in quorum if each not in voters and each not in first_votes])

    # --- delivering ---------------------------------------------------------------------------

    def next_to_deliver(self) -> Dot | None:
        """Return the next identifier in the total order, if it is decided."""
        while self.delivered < self.first_undecided:
            batch = self.decided[self.delivered]
            if self._position < len(batch):
                return batch[self._position]
            self.delivered += 1
            self._position = 0
        return None

    def is_at_batch_end(self) -> bool:
        """True if the next identifier is the last one of its batch."""
        return self._position + 1 == len(self.decided[self.delivered])

    def advance_delivery(self) -> None:
        self._position += 1

    def is_at_batch_boundary(self) -> bool:
        """True if no batch is partially delivered."""
        self.next_to_deliver()
        return self._position == 0

    # --- catching up --------------------------------------------------------------------------

    def on_progress(self, sender: int, delivered: int, stable_instance: int = 0) -> None:
        self._progress[sender] = max(delivered, self._progress.get(sender, 0))
        self._stable_instances[sender] = max(stable_instance, self._stable_instances.get(sender, 0))

    def reset_progress_of(self, peer: int) -> None:
        """Reset the progress of a peer that lost its disk."""
        self._progress.pop(peer, None)
        self._stable_instances.pop(peer, None)

    def progress_of(self, peer: int) -> int:
        return self._progress.get(peer, 0)

    def stable_instance_of(self, peer: int) -> int:
        return self._stable_instances.get(peer, 0)

    def request_catch_up_if_stalled(self, blocked: bool) -> None:
        """Request decisions from a peer that is ahead, if there was no progress for a while.

        Each attempt selects another peer, because the previous one may have crashed. Each attempt
        waits longer, because a response may take time.

        A `blocked` delivery waits for a request. Its decision is known, but a peer that discarded
        the request has discarded the decision too, and responds with a snapshot.
        """
        ticks, settings = self._shared.ticks, self._shared.settings
        position = (self.first_undecided, self.delivered)
        if position != self._stalled_at:
            self._stalled_at, self._stalled_since, self._catch_up_attempts = position, ticks, 0
        first = self.delivered if blocked else self.first_undecided
        ahead = [peer for peer in self._shared.peers if self.progress_of(peer) > first]
        wait = settings.retry_ticks << min(self._catch_up_attempts, BACKOFF_DOUBLINGS_MAX)
        is_beyond_horizon = any(self.progress_of(peer) >= self._horizon_end() for peer in ahead)
        if is_beyond_horizon and not blocked and not self._catch_up_attempts:
            wait = settings.heartbeat_ticks  # no message under way can decide those here
        if ahead and ticks - self._stalled_since >= wait:
            self.request_catch_up(ahead[self._catch_up_attempts % len(ahead)], first)
            self._catch_up_attempts += 1
            self._stalled_since = ticks

    def request_catch_up(self, peer: int, first: int) -> None:
        self._outbox.send((peer,), CatchUp(first))

    def send_decision(self, peer: int, instance: int) -> bool:
        """Send one decision; False if it was discarded."""
        batch = self.decided.get(instance)
        if batch is None:
            return False
        self._outbox.send((peer,), Decisions(instance, (batch,)))
        return True

    def on_catch_up(self, sender: int, first: int) -> bool:
        """Send the decisions from `first` on; False if the peer needs a snapshot. That is so if
        they are discarded, or the members have changed since: the peer could not validate them."""
        if first < self.first_retained or first < self.reconfigured_below:
            return False
        last = min(self.first_undecided, first + self._shared.settings.catch_up_limit)
        batches = tuple(self.decided[instance] for instance in range(first, last))
        if batches:
            self._outbox.send((sender,), Decisions(first, batches))
        return True

    def on_decisions(self, sender: int, first: int, batches: tuple[Batch, ...]) -> list[int]:
        """Return the instances that this message decided here."""
        newly_decided: list[int] = []
        for instance, batch in enumerate(batches, first):
            if not self.is_decided(instance) and not self.is_beyond_horizon(instance):
                self._probes.hit(Probe.CAUGHT_UP)
                self.decide(instance, batch)
                newly_decided.append(instance)
        if newly_decided and self.progress_of(sender) > self.first_undecided:
            self.request_catch_up(sender, self.first_undecided)
        return newly_decided

    def last_decisions(self, limit: int) -> tuple[int, tuple[Batch, ...]]:
        """Return the last retained decisions, at most `limit`, and the instance of the first."""
        first = max(self.first_retained, self.first_undecided - limit)
        return first, tuple(self.decided[each] for each in range(first, self.first_undecided))

    def discard_delivered_by_all(self, stable_instance: int) -> None:
        """Discard delivered decisions. Recovery from the own disk needs `stable_instance` on."""
        delivered_by_all = min(
            (self.progress_of(peer) for peer in self._shared.peers), default=stable_instance
        )
        self.discard_below(min(delivered_by_all, stable_instance))

    def discard_below(self, instance: int) -> None:
        assert instance <= self.delivered
        for each in range(self.first_retained, instance):
            del self.decided[each]
            self._probes.hit(Probe.DECISIONS_DISCARDED)
            self.first_retained = each + 1

    def install(self, instance: int) -> None:
        """Skip the instances below `instance`, whose deliveries a checkpoint covers."""
        assert instance >= self.delivered
        self.decided = {each: batch for each, batch in self.decided.items() if each >= instance}
        self._tallies = {each: tally for each, tally in self._tallies.items() if each >= instance}
        self.first_retained = self.delivered = instance
        self._position = 0
        self.first_undecided = instance
        while self.first_undecided in self.decided:
            self.first_undecided += 1

    def restore(self, decided: dict[int, Batch]) -> None:
        self.decided = {each: batch for each, batch in decided.items() if each >= self.delivered}
        while self.first_undecided in self.decided:
            self.first_undecided += 1
