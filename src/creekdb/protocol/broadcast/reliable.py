"""Reliable broadcast (Section 3.2): eager push, then anti-entropy.

The replica that issues a request pushes it to all. From time to time replicas exchange summaries of
what they received and pull what they miss, from whoever has it: so loss, a sender that died halfway
and a healed partition are all the same case.

Rules kept here:
- a request is delivered at most once, and each replica's requests in the order it issued them: one
  that arrives early is held back, and so is one whose causal context is not here yet;
- a request is on disk before anything that depends on it leaves;
- who misses much pulls a third more in a tick than all have to do in a tick anyway, for they
  have clients to attend to; what is cast meanwhile, and far ahead of it, is pulled in its turn, and
  once others know how far, they do not cast it there;
- a request is forgotten once every member has it or a checkpoint covers it, not before. Who still
  misses it cannot deliver what was decided about it, and gets a snapshot by asking for that.

Nothing here looks into a request, or knows what delivering one means.

What one that was removed hands over: requests that perhaps nobody else has.

It may have issued some, and answered, before it heard that it is no member any more, and what it
cast then came after the others knew. They are as good as any: so the members take them from one who
was removed, and tell it what they have received. It sends them again until a majority has them.

So it does with all that is not committed, whoever issued it: its own requests may come after those
of another one, and that one may be gone.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from creekdb.protocol.effects import Send
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet, intersection
from creekdb.protocol.messages import Cast, Pull, PullResponse, Received, Summary
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Request
from creekdb.protocol.settings import Settings

NEVER_CAST_ID = "an identifier that was never cast"
CAST_AHEAD_FACTOR = 16
"""Times `pull_limit`: what is cast and further ahead of what was delivered is not kept."""

CAST_SKIP_FACTOR = 2 * CAST_AHEAD_FACTOR
"""The same, for who casts: it knows of the delivered what was told some time ago."""

RATE_WINDOW_TICKS = 32
"""Between two looks at how many others receive: it comes in waves, and is heard of in others."""


class ReceiveRate(NamedTuple):
    tick: int
    """When it was last looked at."""
    received: int
    per_tick: int
    """How many came in a tick since the look before."""


class ReliableBroadcast:
    def __init__(
        self,
        index: int,
        settings: Settings,
        outbox: Outbox,
        probes: Probes,
        deliver: Callable[[Request], None],
        refuse: Callable[[str], None],
    ) -> None:
        """`refuse` counts what was refused."""
        self._peers = settings.peers(index)
        self._index = index
        self._settings = settings
        self._outbox = outbox
        self._probes = probes
        self._deliver = deliver
        self._count_rejection = refuse

        self.received = DotSet()
        self.delivered = DotSet()
        self._held_back: dict[Dot, Request] = {}
        self._context_waiters: dict[Dot, dict[int, None]] = {}
        """Whose next request is held back until this one is delivered."""
        self._retained: dict[int, dict[int, Request]] = {each: {} for each in settings.all_replicas}
        """By replica and event number."""
        self._cast_targets = self._peers
        """Those that what is issued here is cast to."""
        self._discarded_until: dict[int, int] = {}
        """Per replica, the event number up to which `_kept` was cleared."""
        self._summaries: dict[int, Dots] = {}
        """What each peer last said it has received."""
        self._pulled_this_round: dict[int, DotSet] = {}
        """What each peer was asked for in this round: nobody else is asked for the same."""
        self._pulled_before: dict[int, DotSet] = {}
        """In the rounds before: if it did not come, it is somebody else's turn."""
        self._rounds = 0
        self._pull_budget = settings.pull_limit
        """How many more, until the next tick."""
        self._ticks = 0
        self._receive_rates: dict[int, ReceiveRate] = {}
        """Of what each peer has received."""
        self._pull_backlog: dict[int, None] = {}
        """Peers that have what may not be pulled yet: who stands first has waited longest."""

    def reconfigure(self, settings: Settings, requests: Iterable[Request]) -> None:
        """There are other members from now on. Nobody waits for what those who left have; and of
        the `requests`, which no checkpoint holds yet, those who come have none."""
        if not set(settings.members) <= set(self._settings.members):
            self._retain_again(requests)
        self._settings = settings
        self._peers = self._cast_targets = settings.peers(self._index)
        for known in (
            self._summaries,
            self._pulled_this_round,
            self._pulled_before,
            self._receive_rates,
        ):
            for gone in [each for each in known if each not in self._peers]:
                del known[gone]
        self._pull_backlog.clear()

    def cast(self, request: Request) -> None:
        """RB-cast a request issued here; its local delivery is the caller's (lines 22-24)."""
        self.received.add(request.id)
        self.delivered.add(request.id)
        self._retain(request)
        self._outbox.records.append(Received(request))
        if self._cast_targets:
            self._outbox.sends.append(Send(self._cast_targets, Cast((request,))))

    def resume_delivery(self, replica: int) -> None:
        """Deliver what was held back until a request of this replica was there that is now."""
        self._deliver_next_of(replica)

    def tick(self, ticks: int) -> None:
        self._ticks = ticks
        if ticks % max(self._settings.retry_ticks, self._settings.summary_ticks) == 0:
            self._start_round()
        self._continue_pulls()
        self._cast_targets = tuple([peer for peer in self._peers if self._is_cast_target(peer)])
        if ticks % self._settings.summary_ticks:
            return
        self._discard_received_by_all()
        if self._peers:
            self._outbox.sends.append(Send(self._peers, Summary(self.received.freeze())))

    def on_cast(self, message: Cast) -> None:
        ahead_max = CAST_AHEAD_FACTOR * self._settings.pull_limit
        for request in message.requests:
            replica, event = request.id
            if event - self.delivered.last_contiguous(replica) > ahead_max:
                self._probes.hit(Probe.REQUEST_TOO_FAR)
            else:
                self._receive(request)

    def on_summary(self, message: Summary, sender: int) -> None:
        count = message.received.count()
        last = self._receive_rates.setdefault(sender, ReceiveRate(self._ticks, count, 0))
        ticks, grown = self._ticks - last.tick, count - last.received
        enough = RATE_WINDOW_TICKS if last.per_tick else 1
        if ticks >= enough and grown > 0:  # or it says the same again, or comes late
            self._receive_rates[sender] = ReceiveRate(self._ticks, count, grown // ticks)
        self._summaries[sender] = message.received
        self._pull(sender)

    def on_pull(self, message: Pull, sender: int) -> None:
        if not self.received.covers(message.wanted):
            self._count_rejection(NEVER_CAST_ID)
        here = intersection((message.wanted, self.received)).take(self._settings.pull_limit)
        found = [kept for id in here if (kept := self._find_retained(id)) is not None]
        if found:
            found.sort(key=_timestamp)  # nobody has to hold one back: its context is earlier
            self._outbox.sends.append(Send((sender,), PullResponse(tuple(found))))
        if len(found) < len(here):
            self._probes.hit(Probe.PULL_OUTDATED)

    def on_pulled(self, message: PullResponse, sender: int) -> None:
        for request in message.requests:
            if self._receive(request):
                self._probes.hit(Probe.REQUEST_PULLED)
        if self._pull(sender):
            self._probes.hit(Probe.PULL_CONTINUED)

    def has_conflicting_request(self, requests: tuple[Request, ...]) -> bool:
        """Is one of these another request than the one we know by the same identifier?"""
        for request in requests:
            kept = self._find_retained(request.id)
            if kept is not None and kept != request:
                return True
        return False

    def mark_delivered(self, ids: Dots) -> None:
        """A checkpoint brought these: they need not come any more."""
        self.received.update(ids)
        self.delivered.update(ids)
        for id in [id for id in self._held_back if id in ids]:
            del self._held_back[id]
        self._context_waiters.clear()
        for replica in self._settings.all_replicas:
            forgotten = self._discarded_until.get(replica, 0)
            self._discarded_until[replica] = max(forgotten, ids.last_contiguous(replica))
            self._deliver_next_of(replica)

    def discard_covered(self, ids: Dots) -> None:
        """A checkpoint that we keep covers these: whoever misses one gets the checkpoint."""
        for replica, kept in self._retained.items():
            ranges = ids.ranges.get(replica, ())
            for event in [event for event in kept if bisect_right(ranges, event) % 2]:
                del kept[event]

    def retain_for(self, peer: int, requests: Iterable[Request]) -> None:
        """A peer has nothing any more: these were forgotten, perhaps, and it will ask for them."""
        self._summaries[peer] = Dots()
        self._retain_again(requests)

    def held_back(self) -> tuple[Request, ...]:
        """Received, but not delivered yet."""
        return tuple(self._held_back.values())

    def restore(self, requests: Iterable[Request]) -> None:
        """Take up requests from disk, and deliver them again, one's own too."""
        for request in requests:
            if self.received.add(request.id):
                self._accept(request)

    def _retain(self, request: Request) -> None:
        replica, event = request.id
        kept = self._retained.get(replica)
        if kept is None:
            kept = self._retained[replica] = {}
        kept[event] = request

    def _find_retained(self, id: Dot) -> Request | None:
        replica, event = id
        kept = self._retained.get(replica)
        return None if kept is None else kept.get(event)

    def _retain_again(self, requests: Iterable[Request]) -> None:
        for request in requests:
            replica, event = request.id
            self._retain(request)
            self._discarded_until[replica] = min(event - 1, self._discarded_until.get(replica, 0))

    def _receive(self, request: Request) -> bool:
        id = request.id
        if not self.received.add(id):
            self._probes.hit(Probe.REQUEST_TWICE)
            return False
        self._outbox.records.append(Received(request))
        self._accept(request)
        return True

    def _accept(self, request: Request) -> None:
        id = request.id
        self._retain(request)
        replica, event = id
        is_next = event == self.delivered.last_contiguous(replica) + 1
        if is_next and not self._waits_for_context(request):
            self._deliver_request(request, id)
            if self._held_back:
                self._deliver_next_of(replica)
        else:
            self._held_back[id] = request
            self._probes.hit(Probe.REQUEST_HELD_BACK)

    def _deliver_next_of(self, replica: int) -> None:
        """Deliver what is next in line from `replica`, if it is here."""
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
            for waiting in self._context_waiters.pop(id, ()):
                self._deliver_next_of(waiting)

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
        known = self._summaries.get(peer)
        if known is None:
            return False
        wanted = self.received.missing(known)
        for asked in self._pulled_this_round.values():
            wanted = asked.missing(wanted)
        if peer in self._pulled_before and self._has_other_source(wanted, peer):
            wanted = self._pulled_before[peer].missing(wanted)
        if not wanted.ranges:
            return False
        most = min(self._pull_budget, self._settings.pull_limit)
        if wanted.count() > most:
            self._pull_backlog[peer] = None
            if not most:
                return False
            wanted = wanted.take(most)
        self._pull_budget -= wanted.count()
        self._pulled_this_round.setdefault(peer, DotSet()).update(wanted)
        self._outbox.sends.append(Send((peer,), Pull(wanted)))
        return True

    def _continue_pulls(self) -> None:
        """As many as somebody receives in a tick, and a third more: who was away for a while is
        in step again after three times as long at the earliest, or much sooner where there is
        little to do, whether or not all is cast to it meanwhile."""
        pace = max([each.per_tick for each in self._receive_rates.values()], default=0)
        self._pull_budget = max(1, self._settings.pull_limit // 2, pace + pace // 3)
        for peer in tuple(self._pull_backlog):
            if not self._pull_budget:
                break
            del self._pull_backlog[peer]
            if self._pull(peer):
                self._probes.hit(Probe.PULL_CONTINUED)

    def _is_cast_target(self, peer: int) -> bool:
        """Or at least not known to be where it would not keep what is cast."""
        known = self._summaries.get(peer)
        if known is None:
            return True
        behind = self.delivered.last_contiguous(self._index) - known.last_contiguous(self._index)
        if behind <= CAST_SKIP_FACTOR * self._settings.pull_limit:
            return True
        self._probes.hit(Probe.CAST_SPARED)
        return False

    def _has_other_source(self, wanted: Dots, peer: int) -> bool:
        """Has another peer some of it that has not been asked for it?"""
        for other, known in self._summaries.items():
            there = intersection((wanted, known))
            if other in self._pulled_before:
                there = self._pulled_before[other].missing(there)
            if other != peer and there.ranges:
                return True
        return False

    def _start_round(self) -> None:
        """Everybody sends a summary in a round. In as many rounds as there are peers, each of them
        is asked; then, what still has not come is asked for anew."""
        self._rounds += 1
        if self._rounds % (len(self._peers) + 1) == 0:
            self._pulled_before = {}
        for peer, asked in self._pulled_this_round.items():
            self._pulled_before.setdefault(peer, DotSet()).update(asked.freeze())
        self._pulled_this_round = {}

    def _discard_received_by_all(self) -> None:
        if len(self._summaries) < len(self._peers):
            return
        for replica in self._settings.all_replicas:
            everywhere = self.delivered.last_contiguous(replica)
            for known in self._summaries.values():
                everywhere = min(everywhere, known.last_contiguous(replica))
            forgotten, kept = self._discarded_until.get(replica, 0), self._retained.get(replica, {})
            count = len(kept)
            for event in range(forgotten + 1, everywhere + 1):
                kept.pop(event, None)
            if len(kept) < count:
                self._probes.hit(Probe.REQUESTS_FORGOTTEN)
            self._discarded_until[replica] = max(everywhere, forgotten)


def _timestamp(request: Request) -> int:
    return request.timestamp


class RequestHandover:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._received: dict[int, Dots] = {}
        """By each member, as it said last."""

    def on_summary(self, message: Summary, sender: int) -> None:
        self._received[sender] = message.received

    def send(self, requests: Iterable[Request], settings: Settings) -> None:
        """Of these, what is missing in a majority: some at a time, the earliest first."""
        missing = [each for each in requests if not self._has_majority(each.id, settings)]
        if missing:
            missing.sort(key=lambda each: each.key)
            message = PullResponse(tuple(missing[: settings.pull_limit]))
            self._outbox.sends.append(Send(settings.members, message))

    def is_complete(self, requests: Iterable[Request], settings: Settings) -> bool:
        return all(self._has_majority(each.id, settings) for each in requests)

    def _has_majority(self, id: Dot, settings: Settings) -> bool:
        members = settings.members
        kept = sum(id in self._received[each] for each in members if each in self._received)
        return kept >= settings.majority
