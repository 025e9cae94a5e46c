"""Reliable broadcast (Section 3.2): eager push, then anti-entropy.

The replica that issues a request pushes it to all members. At intervals, replicas exchange
summaries of the received requests and pull the missing ones from any peer that has them. So message
loss, a sender that crashed halfway and a healed partition are the same case.

Invariants:
- A request is delivered at most once, and the requests of one replica in issue order. A request
  that arrives early is held back, and so is one whose causal context is incomplete.
- A request is on disk before any dependent message is sent.
- A replica that lags behind pulls a third more per tick than the members receive anyway, which
  bounds the load on its peers. Requests that are cast far ahead of it are dropped and pulled in
  turn. Peers whose summary of it shows the lag skip the replica when they cast.
- A request is retained until every member has it or a checkpoint covers it. A replica that still
  misses it cannot deliver its decision, and receives a snapshot when it requests the decision.

This module neither inspects requests nor depends on the meaning of their delivery.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet, intersection
from creekdb.protocol.messages import Cast, Pull, PullResponse, Received, Summary
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Request
from creekdb.protocol.shared_variables import SharedVariables
from creekdb.protocol.validation import MessageRejection

CAST_AHEAD_FACTOR = 16
"""Multiple of `pull_limit`. A cast request further ahead of the delivered ones is dropped."""

CAST_SKIP_FACTOR = 2 * CAST_AHEAD_FACTOR
"""Multiple of `pull_limit` from which a sender skips a peer. Its summary of the peer is older."""

RATE_WINDOW_TICKS = 32
"""Interval between two measurements of a peer's receive rate. Requests come in bursts, and are
reported in others."""


class ReceiveRate(NamedTuple):
    tick: int
    """Tick of the last measurement."""
    received: int
    per_tick: int
    """Requests per tick since the previous measurement."""


class ReliableBroadcast:
    def __init__(self, shared: SharedVariables, deliver: Callable[[Request], None]) -> None:
        self._shared = shared
        self._outbox = shared.outbox
        self._probes = shared.probes
        self._deliver = deliver

        self.received = DotSet()
        self.delivered = DotSet()
        self._held_back: dict[Dot, Request] = {}
        self._context_waiters: dict[Dot, dict[int, None]] = {}
        """Replicas whose next request is held back until this one is delivered."""
        self._retained: dict[int, dict[int, Request]] = defaultdict(dict)
        """Requests by replica and event number."""
        self._cast_targets = shared.peers
        """Peers to which requests of this replica are cast."""
        self._discarded_until: dict[int, int] = {}
        """Per replica, the event number up to which `_retained` was discarded."""
        self._summaries: dict[int, Dots] = {}
        """Last summary of each peer."""
        self._pulled_this_round: dict[int, DotSet] = {}
        """Identifiers pulled from each peer in this round. No other peer is pulled for the same."""
        self._pulled_before: dict[int, DotSet] = {}
        """Identifiers pulled in earlier rounds. If they did not arrive, another peer is next."""
        self._rounds = 0
        self._pull_budget = shared.settings.pull_limit
        """Requests that may still be pulled in this tick."""
        self._receive_rates: dict[int, ReceiveRate] = {}
        """Receive rate of each peer."""
        self._pull_backlog: dict[int, None] = {}
        """Peers with requests that exceed the pull budget, longest wait first."""

    def reconfigure(self, requests: Iterable[Request]) -> None:
        """Adopt new members, and discard the state of removed peers. `requests` are retained again,
        for added members, which have none of them."""
        self._retain_again(requests)
        self._cast_targets = self._shared.peers
        self._shared.drop_removed_peers(
            self._summaries, self._pulled_this_round, self._pulled_before, self._receive_rates
        )
        self._pull_backlog.clear()

    def cast(self, request: Request) -> None:
        """RB-cast a request issued here. The caller delivers it locally (lines 22-24)."""
        self.received.add(request.id)
        self.delivered.add(request.id)
        self._retain(request)
        self._outbox.records.append(Received(request))
        self._outbox.send(self._cast_targets, Cast((request,)))

    def tick(self) -> None:
        ticks, settings = self._shared.ticks, self._shared.settings
        if ticks % max(settings.retry_ticks, settings.summary_ticks) == 0:
            self._start_round()
        self._continue_pulls()
        self._cast_targets = tuple(
            [peer for peer in self._shared.peers if self._is_cast_target(peer)]
        )
        if ticks % settings.summary_ticks == 0:
            self._discard_received_by_all()
            self._outbox.send(self._shared.peers, Summary(self.received.freeze()))

    def on_cast(self, message: Cast) -> None:
        ahead_max = CAST_AHEAD_FACTOR * self._shared.settings.pull_limit
        for request in message.requests:
            id = request.id
            replica, event = id
            if event - self.delivered.last_contiguous(replica) > ahead_max:
                self._probes.hit(Probe.REQUEST_TOO_FAR_AHEAD)
            else:
                self._receive(request, id)

    def on_summary(self, message: Summary, sender: int) -> None:
        count = message.received.count()
        last = self._receive_rates.setdefault(sender, ReceiveRate(self._shared.ticks, count, 0))
        ticks, growth = self._shared.ticks - last.tick, count - last.received
        ticks_min = RATE_WINDOW_TICKS if last.per_tick else 1
        if ticks >= ticks_min and growth > 0:  # no repeated or late summary
            self._receive_rates[sender] = ReceiveRate(self._shared.ticks, count, growth // ticks)
        self._summaries[sender] = message.received
        self._pull(sender)

    def on_pull(self, message: Pull, sender: int) -> None:
        if not self.received.covers(message.wanted):
            self._shared.count_rejection(MessageRejection.NEVER_CAST_ID)
        available = intersection(message.wanted, self.received).take(
            self._shared.settings.pull_limit
        )
        requests = [request for id in available if (request := self._find_retained(id)) is not None]
        if requests:
            # A causal context is earlier, so the receiver holds back none.
            requests.sort(key=lambda request: request.timestamp)
            self._outbox.send((sender,), PullResponse(tuple(requests)))
        if len(requests) < len(available):
            self._probes.hit(Probe.PULL_OF_DISCARDED)

    def on_pulled(self, message: PullResponse, sender: int) -> None:
        for request in message.requests:
            if self._receive(request, request.id):
                self._probes.hit(Probe.REQUEST_PULLED)
        if self._pull(sender):
            self._probes.hit(Probe.PULL_CONTINUED)

    def has_conflicting_request(self, requests: tuple[Request, ...]) -> bool:
        """True if one of these differs from the retained request with the same identifier."""
        for request in requests:
            retained = self._find_retained(request.id)
            if retained is not None and retained != request:
                return True
        return False

    def mark_delivered(self, ids: Dots) -> None:
        """Mark requests that an installed checkpoint covers as received and delivered."""
        self.received.update(ids)
        self.delivered.update(ids)
        for id in [id for id in self._held_back if id in ids]:
            del self._held_back[id]
        self._context_waiters.clear()
        for replica in self._shared.settings.all_replicas:
            discarded = self._discarded_until.get(replica, 0)
            self._discarded_until[replica] = max(discarded, ids.last_contiguous(replica))
            self.deliver_next_of(replica)

    def discard_covered(self, ids: Dots) -> None:
        """Discard requests that a checkpoint covers.

        A peer that misses one receives the checkpoint.
        """
        for replica, retained in self._retained.items():
            ranges = ids.ranges.get(replica, ())
            for event in [event for event in retained if bisect_right(ranges, event) % 2]:
                del retained[event]

    def retain_for(self, peer: int, requests: Iterable[Request]) -> None:
        """Retain these requests again for a peer that lost its disk."""
        self._summaries[peer] = Dots()
        self._retain_again(requests)

    def reported_last_event(self, peer: int) -> int:
        """Return the last event number that the peer has reported of itself, or 0."""
        summary = self._summaries.get(peer)
        return 0 if summary is None else summary.last(peer)

    def held_back(self) -> tuple[Request, ...]:
        """Return the requests that are received but not delivered yet."""
        return tuple(self._held_back.values())

    def restore(self, requests: Iterable[Request]) -> None:
        """Restore requests from disk and deliver them again, including those of this replica."""
        for request in requests:
            if self.received.add(request.id):
                self._accept(request, request.id)

    def _retain(self, request: Request) -> None:
        replica, event = request.id
        self._retained[replica][event] = request

    def _find_retained(self, id: Dot) -> Request | None:
        replica, event = id
        return self._retained[replica].get(event)

    def _retain_again(self, requests: Iterable[Request]) -> None:
        for request in requests:
            replica, event = request.id
            self._retain(request)
            self._discarded_until[replica] = min(event - 1, self._discarded_until.get(replica, 0))

    def _receive(self, request: Request, id: Dot) -> bool:
        if not self.received.add(id):
            self._probes.hit(Probe.REQUEST_DUPLICATED)
            return False
        self._outbox.records.append(Received(request))
        self._accept(request, id)
        return True

    def _accept(self, request: Request, id: Dot) -> None:
        replica, event = id
        self._retained[replica][event] = request
        is_next = event == self.delivered.last_contiguous(replica) + 1
        if is_next and not self._waits_for_context(request):
            self._deliver_request(request, id)
            if self._held_back:
                self.deliver_next_of(replica)
        else:
            self._held_back[id] = request
            self._probes.hit(Probe.REQUEST_HELD_BACK)

    def deliver_next_of(self, replica: int) -> None:
        """Deliver the next requests of `replica` as far as they have arrived."""
        while self._held_back:
            next_id = Dot(replica, self.delivered.last_contiguous(replica) + 1)
            request = self._held_back.get(next_id)
            if request is None or self._waits_for_context(request):
                break
            del self._held_back[next_id]
            self._deliver_request(request, next_id)

    def _deliver_request(self, request: Request, id: Dot) -> None:
        self.delivered.add(id)
        self._deliver(request)
        if self._context_waiters:
            for waiter in self._context_waiters.pop(id, ()):
                self.deliver_next_of(waiter)

    def _waits_for_context(self, request: Request) -> bool:
        if request.context is None:
            return False
        missing = self.delivered.find_missing(request.context)
        if missing is None:
            return False
        self._probes.hit(Probe.REQUEST_AHEAD_OF_CONTEXT)
        self._context_waiters.setdefault(missing, {})[request.id.replica] = None
        return True

    def _pull(self, peer: int) -> bool:
        summary = self._summaries.get(peer)
        if summary is None:
            return False
        wanted = self.received.missing(summary)
        for pulled in self._pulled_this_round.values():
            wanted = pulled.missing(wanted)
        if peer in self._pulled_before and self._has_other_source(wanted, peer):
            wanted = self._pulled_before[peer].missing(wanted)
        if not wanted.ranges:
            return False
        limit = min(self._pull_budget, self._shared.settings.pull_limit)
        if wanted.count() > limit:
            self._pull_backlog[peer] = None
            if not limit:
                return False
            wanted = wanted.take(limit)
        self._pull_budget -= wanted.count()
        self._pulled_this_round.setdefault(peer, DotSet()).update(wanted)
        self._outbox.send((peer,), Pull(wanted))
        return True

    def _continue_pulls(self) -> None:
        """Renew the pull budget and serve the backlog.

        The budget is a third more than the highest receive rate of the peers. After an absence, a
        replica has caught up after three times as long at the earliest, or much sooner under low
        load. It does not matter whether peers cast to it meanwhile.
        """
        rate = max([each.per_tick for each in self._receive_rates.values()], default=0)
        self._pull_budget = max(1, self._shared.settings.pull_limit // 2, rate + rate // 3)
        for peer in tuple(self._pull_backlog):
            if not self._pull_budget:
                break
            del self._pull_backlog[peer]
            if self._pull(peer):
                self._probes.hit(Probe.PULL_CONTINUED)

    def _is_cast_target(self, peer: int) -> bool:
        """True unless the peer is known to be so far behind that it would drop a cast."""
        summary = self._summaries.get(peer)
        if summary is None:
            return True
        lag = self.delivered.last_contiguous(self._shared.index) - summary.last_contiguous(
            self._shared.index
        )
        if lag <= CAST_SKIP_FACTOR * self._shared.settings.pull_limit:
            return True
        self._probes.hit(Probe.CAST_SKIPPED)
        return False

    def _has_other_source(self, wanted: Dots, peer: int) -> bool:
        """True if a peer other than `peer` has some of `wanted` that was not yet pulled from it."""
        for other, summary in self._summaries.items():
            available = intersection(wanted, summary)
            if other in self._pulled_before:
                available = self._pulled_before[other].missing(available)
            if other != peer and available.ranges:
                return True
        return False

    def _start_round(self) -> None:
        """Start a round, in which every peer sends a summary. After as many rounds as peers, each
        peer was pulled once, and identifiers that did not arrive are pulled anew."""
        self._rounds += 1
        if self._rounds % (len(self._shared.peers) + 1) == 0:
            self._pulled_before = {}
        for peer, pulled in self._pulled_this_round.items():
            self._pulled_before.setdefault(peer, DotSet()).update(pulled.freeze())
        self._pulled_this_round = {}

    def _discard_received_by_all(self) -> None:
        if len(self._summaries) < len(self._shared.peers):
            return
        for replica in self._shared.settings.all_replicas:
            common = self.delivered.last_contiguous(replica)
            for summary in self._summaries.values():
                common = min(common, summary.last_contiguous(replica))
            discarded, retained = self._discarded_until.get(replica, 0), self._retained[replica]
            count = len(retained)
            for event in range(discarded + 1, common + 1):
                retained.pop(event, None)
            if len(retained) < count:
                self._probes.hit(Probe.REQUESTS_DISCARDED)
            self._discarded_until[replica] = max(common, discarded)


class RequestHandover:
    """Transfer of the uncommitted requests of a removed replica to the members.

    Possibly no member has them. The replica may have issued requests, and responded to them, before
    it learned of its removal. The members received those casts after the removal and rejected them.
    The requests are valid, so the members accept them from a removed replica and report the
    received ones. It repeats the requests until a majority has them.

    The handover covers all uncommitted requests, whichever replica issued them. A request of the
    removed replica may depend on those of another replica, which may be gone.
    """

    def __init__(self, shared: SharedVariables) -> None:
        self._shared = shared
        self._received: dict[int, Dots] = {}
        """Last summary of each member."""

    def on_summary(self, message: Summary, sender: int) -> None:
        self._received[sender] = message.received

    def send(self, requests: Iterable[Request]) -> None:
        """Send the earliest requests that a majority misses, at most `pull_limit` at a time."""
        missing = [each for each in requests if not self._has_majority(each.id)]
        if missing:
            missing.sort(key=lambda each: each.key)
            message = PullResponse(tuple(missing[: self._shared.settings.pull_limit]))
            self._shared.outbox.send(self._shared.settings.members, message)

    def is_complete(self, requests: Iterable[Request]) -> bool:
        return all(self._has_majority(each.id) for each in requests)

    def _has_majority(self, id: Dot) -> bool:
        members = self._shared.settings.members
        holders = sum(id in self._received[each] for each in members if each in self._received)
        return holders >= self._shared.settings.majority
