"""Fast path: first votes of a fixed fast quorum, cast before the leader's order is known.

`docs/internals/fast-path.md` specifies the fast path and proves it. In short:

- A ballot names its fast quorum, a majority of the voters with the owner of the ballot
  (`fast_quorums`).
- Each member has the strong requests by reliable broadcast. At the deadline of a request, it
  predicts the instance and the batch that the leader will propose, and casts a *first vote*.
- The leader's own vote carries the batch, so it is the proposal too. It *opens* the ballot: from
  that instance on, promises have reported no vote, and each value is safe.
- A batch is decided if the whole fast quorum voted for it, by first votes or by second votes.
  Otherwise a majority of second votes decides, cast after the leader's proposal, as without a fast
  path. A first vote counts in no other majority.

Predictions only influence latency. A wrong one costs nothing but messages: each acceptor follows
the leader with a second vote.
"""

from collections.abc import Callable

from creekdb.protocol.consensus.fast_quorums import fast_quorum
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.consensus.proposal_queue import DeadlineQueue
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Ballot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.shared_variables import SharedVariables


class FirstVoter:
    """Predicts the proposals of the leader, and casts first votes for them."""

    def __init__(
        self,
        shared: SharedVariables,
        queue: DeadlineQueue,
        is_delivered: Callable[[Dot], bool],
        cast: Callable[[Ballot, int, Batch], bool],
    ) -> None:
        """`cast` casts a first vote. It returns False if the acceptor may not cast it."""
        self._shared = shared
        self._queue = queue
        self._is_delivered = is_delivered
        self._cast = cast
        self._ballot = NO_BALLOT
        self.is_active = False
        """True if the last proposal opened its ballot, whose fast quorum has this replica."""
        self._last_entry = -1
        """Last instance that the leader of the ballot has proposed, as far as known here."""
        self._last_vote = -1
        """Last instance of a first vote in the ballot."""
        self._predicted: dict[Dot, tuple[int, Batch]] = {}
        """Instance and batch of each first vote whose request the leader has not proposed yet."""
        self._proposed: dict[Dot, None] = {}
        """Requests that the leader has proposed and that are not delivered here."""

    def reset(self) -> None:
        """Cast no first votes until the next ballot is open."""
        self._queue.clear()
        self.is_active = False
        self._predicted = {}
        self._proposed = {}

    def enqueue(self, id: Dot) -> None:
        """Enqueue a strong request whose predicate holds here."""
        if id not in self._proposed:
            self._queue.add(id)

    def on_proposal(self, ballot: Ballot, instance: int, batch: Batch, *, opens: bool) -> None:
        """Follow a proposal of the leader. `opens` is True if it opens its ballot. Proposals of a
        leader that has paused the fast path do not."""
        if ballot < self._ballot:
            return
        if ballot > self._ballot:
            self.reset()
            self._ballot, self._last_entry, self._last_vote = ballot, -1, -1
        if instance > self._last_entry:
            self._last_entry = instance
            quorum = fast_quorum(self._shared.settings.voters, ballot)
            self.is_active = opens and self._shared.index in quorum[1:]
        for id in batch:
            if id in self._predicted:
                self._drop_predictions_up_to(id, (instance, batch))
            if not self._is_delivered(id):  # it may have been decided before its proposal arrives
                self._proposed[id] = None

    def _drop_predictions_up_to(self, id: Dot, proposal: tuple[int, Batch]) -> None:
        """Drop the prediction of a proposed request, and those before it. The leader lacks these
        requests, so they must not shift the predictions until it has received them."""
        is_dropped = False
        while not is_dropped:
            first = next(iter(self._predicted))
            is_dropped = first == id
            if self._predicted.pop(first) != proposal:
                self._shared.probes.hit(Probe.FIRST_VOTE_MISSED)

    def on_wake(self) -> None:
        self._queue.on_wake()

    def request_wake(self) -> None:
        self._queue.request_wake()

    def on_delivered(self, id: Dot) -> None:
        self._predicted.pop(id, None)
        self._proposed.pop(id, None)

    def cast_due(self, instance_limit: int) -> bool:
        """Cast the first votes whose deadline has passed, in instances below the limit. Return True
        if there was one."""
        has_cast = False
        while self._queue.has_due():
            batch = self._queue.take_batch(1)
            instance = self._last_entry + 1 + len(self._predicted)
            if (
                self.is_active
                and batch[-1] not in self._proposed
                and self._last_vote < instance < instance_limit
                and self._cast(self._ballot, instance, batch)
            ):
                self._last_vote = instance
                self._predicted[batch[-1]] = instance, batch
                has_cast = True
        return has_cast
