"""Acceptor: promises ballots, and votes for batches whose requests it has.

Invariants:
- The acceptor neither promises nor votes in a ballot below the promised one, even after a restart.
- It votes only once `rcv(v) ∧ q(m)` holds for every identifier of the batch (Section 5). Until then
  the vote is deferred, not dropped.
- A promise or a vote is on disk before it is sent.
"""

from collections.abc import Callable, Iterable

from creekdb.protocol import effects
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.effects import FirstVoted, Voted
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    FirstVote,
    Prepare,
    Promise,
    Promised,
    Reject,
    Vote,
)
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.shared_variables import SharedVariables
from creekdb.protocol.validation import MessageRejection


class Acceptor:
    def __init__(
        self,
        shared: SharedVariables,
        must_defer: Callable[[int, Batch], bool],
        on_voted: Callable[[Ballot, int], None],
    ) -> None:
        """`must_defer(instance, batch)` is False if the batch can be voted for now. If it is True,
        `resume(instance)` must follow. `on_voted` informs the local learner."""
        self._shared = shared
        self._outbox = shared.outbox
        self._probes = shared.probes
        self._must_defer = must_defer
        self._on_voted = on_voted

        self.promised = NO_BALLOT
        self.accepted: dict[int, AcceptedValue] = {}
        """Last votes, by instance; last first votes, by the complement of the instance."""
        self._deferred: dict[int, Accept] = {}

    def reconfigure(self) -> None:
        """Drop the proposals of the old members."""
        self._deferred.clear()

    def promise(self, prepare: Prepare, decided: int) -> Promise | None:
        """Phase 1b. Return None if the ballot is stale. Instances below `decided` are decided."""
        if prepare.ballot < self.promised:
            return None
        self._raise_promise(prepare.ballot)
        first = max(prepare.first, decided)
        accepted = tuple(
            [self.accepted[each] for each in sorted(self.accepted) if max(each, ~each) >= first]
        )
        self._outbox.events.append(
            effects.BallotPromised(prepare.ballot, prepare.first, decided, accepted)
        )
        return Promise(prepare.ballot, decided, accepted)

    def on_prepare(self, message: Prepare, sender: int, decided: int) -> None:
        promise = self.promise(message, decided)
        if promise is None:
            self._reject(sender)
        else:
            self._outbox.send((sender,), promise)

    def cast_first_vote(self, ballot: Ballot, instance: int, batch: Batch) -> bool:
        """Vote for a batch whose predicate holds, before its proposal arrives. The ballot must be
        open. Return False, without a vote, if the acceptor has promised another ballot or has voted
        in the instance of this one."""
        if ballot != self.promised:
            return False
        for key in (instance, ~instance):
            known = self.accepted.get(key)
            if known is not None and known.ballot == ballot:
                return False
        self._record_vote(AcceptedValue(~instance, ballot, batch))
        self._outbox.events.append(FirstVoted(ballot, instance, batch))
        self._outbox.send(self._shared.peers, FirstVote(ballot, instance, batch))
        self._probes.hit(Probe.FIRST_VOTE_CAST)
        return True

    def accept_own(self, message: Accept) -> bool:
        """Vote for a proposal of the local leader in an open ballot, and send the batch with the
        vote. Return False, without a vote, if the vote is deferred or the ballot is stale."""
        ballot, instance, batch = message.ballot, message.instance, message.batch
        if ballot < self.promised or self._must_defer(instance, batch):
            return False
        self._raise_promise(ballot)
        self._accept(message)
        self._outbox.send(self._shared.peers, FirstVote(ballot, instance, batch))
        self._on_voted(ballot, instance)
        return True

    def on_accept(self, message: Accept, sender: int) -> None:
        """Process a proposal (phase 2a) of a peer or of the local leader."""
        if message.ballot < self.promised:
            self._reject(sender)
            return
        self._raise_promise(message.ballot)
        self._try_vote(message)

    def resume(self, instance: int) -> None:
        """Retry a deferred vote whose missing dependency has arrived."""
        deferred = self._deferred.pop(instance, None)
        if deferred is None:
            return
        if deferred.ballot < self.promised:
            self._probes.hit(Probe.VOTE_OVERTAKEN)
            return
        self._try_vote(deferred)

    def is_deferred(self, instance: int) -> bool:
        return instance in self._deferred

    def discard_below(self, instance: int) -> None:
        """Discard votes in decided instances: no leader needs them."""
        for each in [each for each in self.accepted if max(each, ~each) < instance]:
            del self.accepted[each]
        for each in [each for each in self._deferred if each < instance]:
            del self._deferred[each]

    def restore(self, promised: Ballot, accepted: Iterable[AcceptedValue]) -> None:
        """Restore the promise and the last vote in each instance."""
        self.accepted = {value.instance: value for value in accepted}
        self.promised = max([promised, *(each.ballot for each in self.accepted.values())])

    def _try_vote(self, message: Accept) -> None:
        accepted = self.accepted.get(message.instance)
        is_repeated = accepted is not None and accepted.ballot == message.ballot
        if not is_repeated:
            if message.instance in self._deferred:
                is_deferred = self._deferred[message.instance] == message
                self._deferred[message.instance] = message
                if is_deferred:
                    return
            if self._must_defer(message.instance, message.batch):
                self._deferred[message.instance] = message
                self._probes.hit(Probe.VOTE_DEFERRED)
                return
            self._deferred.pop(message.instance, None)
            self._accept(message)
        else:
            self._outbox.events.append(Voted(message.ballot, message.instance, message.batch))
        self._outbox.send(self._shared.peers, Vote(message.ballot, message.instance))
        self._on_voted(message.ballot, message.instance)

    def _accept(self, message: Accept) -> None:
        self._record_vote(AcceptedValue(message.instance, message.ballot, message.batch))
        self._outbox.events.append(Voted(message.ballot, message.instance, message.batch))

    def _record_vote(self, value: AcceptedValue) -> None:
        self.accepted[value.instance] = value
        self._outbox.records.append(Accepted(value))

    def _raise_promise(self, ballot: Ballot) -> None:
        if ballot > self.promised:
            self.promised = ballot
            self._outbox.records.append(Promised(ballot))

    def _reject(self, sender: int) -> None:
        self._probes.hit(Probe.BALLOT_STALE)
        self._shared.count_rejection(MessageRejection.STALE_BALLOT)
        if sender in self._shared.peers:
            self._outbox.send((sender,), Reject(self.promised))
