"""The learner: counts votes, keeps what was decided, and says what is to be delivered next.

Rules kept here:
- a batch is decided when a majority voted for it in one ballot, or when a peer says it was decided;
- decisions are delivered in the order of their instances, the identifiers of a batch in its order;
- a decision is kept until every member delivered it or a checkpoint covers it.
"""

from creekdb.protocol.effects import Send
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Ballot, CatchUp, Decided, Decisions
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings

BALLOTS_PER_INSTANCE_MAX = 4
BACKOFF_DOUBLINGS_MAX = 6


class _Tally:
    """The votes of one ballot in one instance, and its batch once the proposal is here."""

    __slots__ = ("batch", "voters")

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.voters: set[int] = set()


class Learner:
    def __init__(self, index: int, settings: Settings, outbox: Outbox, probes: Probes) -> None:
        self._index = index
        self._peers = settings.peers(index)
        self._settings = settings
        self._outbox = outbox
        self._probes = probes

        self.decided: dict[int, Batch] = {}
        self.first_retained = 0
        """Decisions below are forgotten."""
        self.first_undecided = 0
        self.delivered = 0
        """Every instance below is delivered."""
        self._position = 0
        """How many identifiers of the instance `delivered` are delivered."""
        self._tallies: dict[int, dict[Ballot, _Tally]] = {}
        self._progress: dict[int, int] = {}
        self._stable_instances: dict[int, int] = {}
        self._stalled_at = (-1, -1)
        self._stalled_since = 0
        self._catch_up_attempts = 0
        """Since something was last decided or delivered here."""
        self.reconfigured_below = 0
        """The members were last changed by an instance below."""

    def reconfigure(self, settings: Settings, changed_below: int) -> None:
        """There are other members from now on: votes in ballots of the old ones count no more."""
        self._settings = settings
        self._peers = settings.peers(self._index)
        self.reconfigured_below = changed_below
        self._tallies.clear()
        for known in (self._progress, self._stable_instances):
            for gone in [each for each in known if each not in self._peers]:
                del known[gone]

    # --- voting -------------------------------------------------------------------------------

    def on_proposal(self, ballot: Ballot, instance: int, batch: Batch) -> bool:
        """A proposal passed by; True when the instance is decided by it."""
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

    def has_conflicting_batch(self, ballot: Ballot, instance: int, batch: Batch) -> bool:
        """Has another batch been proposed in this very ballot?"""
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
        """Is it beyond the horizon? Then catching up comes first."""
        too_far = instance >= self._horizon_end()
        if too_far:
            self._probes.hit(Probe.INSTANCE_TOO_FAR)
        return too_far

    def _horizon_end(self) -> int:
        """The first instance that is too far."""
        return self.first_undecided + self._settings.horizon

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
            ballots[ballot] = _Tally()
        return ballots[ballot]

    def _count(self, instance: int, tally: _Tally) -> bool:
        if len(tally.voters) < self._settings.majority:
            return False
        if tally.batch is None:
            self._probes.hit(Probe.VOTES_BEFORE_VALUE)
            return False
        self.decide(instance, tally.batch)
        return True

    # --- delivering ---------------------------------------------------------------------------

    def next_to_deliver(self) -> Dot | None:
        """The next identifier in the total order, if it is decided."""
        while self.delivered < self.first_undecided:
            batch = self.decided[self.delivered]
            if self._position < len(batch):
                return batch[self._position]
            self.delivered += 1
            self._position = 0
        return None

    def advance_delivery(self) -> None:
        self._position += 1

    def is_at_batch_boundary(self) -> bool:
        """Is no batch delivered in part?"""
        self.next_to_deliver()
        return self._position == 0

    # --- catching up --------------------------------------------------------------------------

    def on_progress(self, sender: int, delivered: int, settled: int = 0) -> None:
        self._progress[sender] = max(delivered, self._progress.get(sender, 0))
        self._stable_instances[sender] = max(settled, self._stable_instances.get(sender, 0))

    def reset_progress_of(self, peer: int) -> None:
        """It begins with nothing."""
        self._progress.pop(peer, None)
        self._stable_instances.pop(peer, None)

    def progress_of(self, peer: int) -> int:
        return self._progress.get(peer, 0)

    def stable_instance_of(self, peer: int) -> int:
        return self._stable_instances.get(peer, 0)

    def request_catch_up_if_stalled(self, ticks: int, blocked: bool) -> None:
        """Ask a peer that is ahead, if nothing has happened here for a while: each time another
        one, for the first may be dead, and each time later, for an answer may take its time.

        What is `blocked` waits for a request. Its decision is known, but whoever has forgotten the
        request has forgotten the decision too, and answers with a snapshot.
        """
        here = (self.first_undecided, self.delivered)
        if here != self._stalled_at:
            self._stalled_at, self._stalled_since, self._catch_up_attempts = here, ticks, 0
        first = self.delivered if blocked else self.first_undecided
        ahead = [peer for peer in self._peers if self.progress_of(peer) > first]
        wait = self._settings.retry_ticks << min(self._catch_up_attempts, BACKOFF_DOUBLINGS_MAX)
        far = any(self.progress_of(peer) >= self._horizon_end() for peer in ahead)
        if far and not blocked and not self._catch_up_attempts:
            wait = self._settings.heartbeat_ticks  # what was decided there cannot be under way here
        if ahead and ticks - self._stalled_since >= wait:
            self.request_catch_up(ahead[self._catch_up_attempts % len(ahead)], first)
            self._catch_up_attempts += 1
            self._stalled_since = ticks

    def request_catch_up(self, peer: int, first: int) -> None:
        self._outbox.sends.append(Send((peer,), CatchUp(first)))

    def send_decision(self, peer: int, instance: int) -> bool:
        """Tell one decision; False when it is forgotten."""
        batch = self.decided.get(instance)
        if batch is None:
            return False
        self._outbox.sends.append(Send((peer,), Decisions(instance, (batch,))))
        return True

    def on_catch_up(self, sender: int, first: int) -> bool:
        """Tell the decisions from `first` on; False when they are forgotten, or when the members
        have changed since: who does not know them cannot take what they did."""
        if first < self.first_retained or first < self.reconfigured_below:
            return False
        last = min(self.first_undecided, first + self._settings.catch_up_limit)
        batches = tuple(self.decided[instance] for instance in range(first, last))
        if batches:
            self._outbox.sends.append(Send((sender,), Decisions(first, batches)))
        return True

    def on_decisions(self, sender: int, first: int, batches: tuple[Batch, ...]) -> list[int]:
        """The instances that this decided here."""
        news: list[int] = []
        for instance, batch in enumerate(batches, first):
            if not self.is_decided(instance) and not self.is_beyond_horizon(instance):
                self._probes.hit(Probe.CAUGHT_UP)
                self.decide(instance, batch)
                news.append(instance)
        if news and self.progress_of(sender) > self.first_undecided:
            self.request_catch_up(sender, self.first_undecided)
        return news

    def discard_delivered_by_all(self, settled: int) -> None:
        """Instances from `settled` on are still needed here, to recover from our own disk."""
        everywhere = min((self.progress_of(peer) for peer in self._peers), default=settled)
        self.discard_below(min(everywhere, settled))

    def discard_below(self, instance: int) -> None:
        assert instance <= self.delivered
        for each in range(self.first_retained, instance):
            del self.decided[each]
            self._probes.hit(Probe.DECISIONS_FORGOTTEN)
            self.first_retained = each + 1

    def install(self, instance: int) -> None:
        """A checkpoint holds everything that the instances below `instance` delivered."""
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
