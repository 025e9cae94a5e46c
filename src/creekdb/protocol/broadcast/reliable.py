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
from creekdb.protocol.messages import Cast, Pull, Pulled, Received, Summary
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Request
from creekdb.protocol.settings import Settings

NEVER_CAST = "an identifier that was never cast"
AHEAD_MAX = 16
"""Times `pull_limit`: what is cast and further ahead of what was delivered is not kept."""

SPARED_BEYOND = 2 * AHEAD_MAX
"""The same, for who casts: it knows of the delivered what was told some time ago."""

PACE_TICKS = 32
"""Between two looks at how many others receive: it comes in waves, and is heard of in others."""


class Growth(NamedTuple):
    tick: int
    """When it was last looked at."""
    received: int
    pace: int
    """How many came in a tick since the look before."""


class Gossip:
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
        self._refuse = refuse

        self.received = DotSet()
        self.delivered = DotSet()
        self._held_back: dict[Dot, Request] = {}
        self._waiting: dict[Dot, dict[int, None]] = {}
        """Whose next request is held back until this one is delivered."""
        self._kept: dict[int, dict[int, Request]] = {each: {} for each in settings.ever}
        """By replica and event number."""
        self._near = self._peers
        """Those that what is issued here is cast to."""
        self._forgotten: dict[int, int] = {}
        """Per replica, the event number up to which `_kept` was cleared."""
        self._known: dict[int, Dots] = {}
        """What each peer last said it has received."""
        self._asked: dict[int, DotSet] = {}
        """What each peer was asked for in this round: nobody else is asked for the same."""
        self._asked_before: dict[int, DotSet] = {}
        """In the rounds before: if it did not come, it is somebody else's turn."""
        self._rounds = 0
        self._may_pull = settings.pull_limit
        """How many more, until the next tick."""
        self._ticks = 0
        self._growth: dict[int, Growth] = {}
        """Of what each peer has received."""
        self._have_more: dict[int, None] = {}
        """Peers that have what may not be pulled yet: who stands first has waited longest."""

    def reconfigure(self, settings: Settings, requests: Iterable[Request]) -> None:
        """There are other members from now on. Nobody waits for what those who left have; and of
        the `requests`, which no checkpoint holds yet, those who come have none."""
        if not set(settings.members) <= set(self._settings.members):
            self._keep_again(requests)
        self._settings = settings
        self._peers = self._near = settings.peers(self._index)
        for known in (self._known, self._asked, self._asked_before, self._growth):
            for gone in [each for each in known if each not in self._peers]:
                del known[gone]
        self._have_more.clear()

    def cast(self, request: Request) -> None:
        """RB-cast a request issued here; its local delivery is the caller's (lines 22-24)."""
        self.received.add(request.id)
        self.delivered.add(request.id)
        self._keep(request)
        self._outbox.records.append(Received(request))
        if self._near:
            self._outbox.sends.append(Send(self._near, Cast((request,))))

    def go_on(self, replica: int) -> None:
        """Deliver what was held back until a request of this replica was there that is now."""
        self._deliver_from(replica)

    def tick(self, ticks: int) -> None:
        self._ticks = ticks
        if ticks % max(self._settings.retry_ticks, self._settings.summary_ticks) == 0:
            self._next_round()
        self._go_on_pulling()
        self._near = tuple([peer for peer in self._peers if self._is_near(peer)])
        if ticks % self._settings.summary_ticks:
            return
        self._forget_what_everyone_has()
        if self._peers:
            self._outbox.sends.append(Send(self._peers, Summary(self.received.freeze())))

    def on_cast(self, message: Cast) -> None:
        ahead_max = AHEAD_MAX * self._settings.pull_limit
        for request in message.requests:
            replica, event = request.id
            if event - self.delivered.contiguous(replica) > ahead_max:
                self._probes.hit(Probe.REQUEST_TOO_FAR)
            else:
                self._receive(request)

    def on_summary(self, message: Summary, sender: int) -> None:
        count = message.received.count()
        last = self._growth.setdefault(sender, Growth(self._ticks, count, 0))
        ticks, grown = self._ticks - last.tick, count - last.received
        enough = PACE_TICKS if last.pace else 1
        if ticks >= enough and grown > 0:  # or it says the same again, or comes late
            self._growth[sender] = Growth(self._ticks, count, grown // ticks)
        self._known[sender] = message.received
        self._pull(sender)

    def on_pull(self, message: Pull, sender: int) -> None:
        if not self.received.covers(message.wanted):
            self._refuse(NEVER_CAST)
        here = intersection((message.wanted, self.received)).take(self._settings.pull_limit)
        found = [kept for id in here if (kept := self._find_kept(id)) is not None]
        if found:
            found.sort(key=_timestamp)  # nobody has to hold one back: its context is earlier
            self._outbox.sends.append(Send((sender,), Pulled(tuple(found))))
        if len(found) < len(here):
            self._probes.hit(Probe.PULL_OUTDATED)

    def on_pulled(self, message: Pulled, sender: int) -> None:
        for request in message.requests:
            if self._receive(request):
                self._probes.hit(Probe.REQUEST_PULLED)
        if self._pull(sender):
            self._probes.hit(Probe.PULL_CONTINUED)

    def conflicts(self, requests: tuple[Request, ...]) -> bool:
        """Is one of these another request than the one we know by the same identifier?"""
        for request in requests:
            kept = self._find_kept(request.id)
            if kept is not None and kept != request:
                return True
        return False

    def cover(self, ids: Dots) -> None:
        """A checkpoint brought these: they need not come any more."""
        self.received.update(ids)
        self.delivered.update(ids)
        for id in [id for id in self._held_back if id in ids]:
            del self._held_back[id]
        self._waiting.clear()
        for replica in self._settings.ever:
            forgotten = self._forgotten.get(replica, 0)
            self._forgotten[replica] = max(forgotten, ids.contiguous(replica))
            self._deliver_from(replica)

    def forget(self, ids: Dots) -> None:
        """A checkpoint that we keep covers these: whoever misses one gets the checkpoint."""
        for replica, kept in self._kept.items():
            ranges = ids.ranges.get(replica, ())
            for event in [event for event in kept if bisect_right(ranges, event) % 2]:
                del kept[event]

    def keep_again(self, peer: int, requests: Iterable[Request]) -> None:
        """A peer has nothing any more: these were forgotten, perhaps, and it will ask for them."""
        self._known[peer] = Dots()
        self._keep_again(requests)

    def held_back(self) -> tuple[Request, ...]:
        """Received, but not delivered yet."""
        return tuple(self._held_back.values())

    def restore(self, requests: Iterable[Request]) -> None:
        """Take up requests from disk, and deliver them again, one's own too."""
        for request in requests:
            if self.received.add(request.id):
                self._take_up(request)

    def _keep(self, request: Request) -> None:
        replica, event = request.id
        kept = self._kept.get(replica)
        if kept is None:
            kept = self._kept[replica] = {}
        kept[event] = request

    def _find_kept(self, id: Dot) -> Request | None:
        replica, event = id
        kept = self._kept.get(replica)
        return None if kept is None else kept.get(event)

    def _keep_again(self, requests: Iterable[Request]) -> None:
        for request in requests:
            replica, event = request.id
            self._keep(request)
            self._forgotten[replica] = min(event - 1, self._forgotten.get(replica, 0))

    def _receive(self, request: Request) -> bool:
        id = request.id
        if not self.received.add(id):
            self._probes.hit(Probe.REQUEST_TWICE)
            return False
        self._outbox.records.append(Received(request))
        self._take_up(request)
        return True

    def _take_up(self, request: Request) -> None:
        id = request.id
        self._keep(request)
        replica, event = id
        is_next = event == self.delivered.contiguous(replica) + 1
        if is_next and not self._waits_for_context(request):
            self._deliver_now(request, id)
            if self._held_back:
                self._deliver_from(replica)
        else:
            self._held_back[id] = request
            self._probes.hit(Probe.REQUEST_HELD_BACK)

    def _deliver_from(self, replica: int) -> None:
        """Deliver what is next in line from `replica`, if it is here."""
        while self._held_back:
            next_id = Dot(replica, self.delivered.contiguous(replica) + 1)
            request = self._held_back.get(next_id)
            if request is None or self._waits_for_context(request):
                break
            del self._held_back[next_id]
            self._deliver_now(request, next_id)

    def _deliver_now(self, request: Request, id: Dot) -> None:
        self.delivered.add(id)
        self._deliver(request)
        if self._waiting:
            for waiting in self._waiting.pop(id, ()):
                self._deliver_from(waiting)

    def _waits_for_context(self, request: Request) -> bool:
        if request.context is None:
            return False
        missing = self.delivered.some_missing(request.context)
        if missing is None:
            return False
        self._probes.hit(Probe.REQUEST_AHEAD_OF_CONTEXT)
        self._waiting.setdefault(missing, {})[request.id.replica] = None
        return True

    def _pull(self, peer: int) -> bool:
        known = self._known.get(peer)
        if known is None:
            return False
        wanted = self.received.missing(known)
        for asked in self._asked.values():
            wanted = asked.missing(wanted)
        if peer in self._asked_before and self._is_elsewhere(wanted, peer):
            wanted = self._asked_before[peer].missing(wanted)
        if not wanted.ranges:
            return False
        most = min(self._may_pull, self._settings.pull_limit)
        if wanted.count() > most:
            self._have_more[peer] = None
            if not most:
                return False
            wanted = wanted.take(most)
        self._may_pull -= wanted.count()
        self._asked.setdefault(peer, DotSet()).update(wanted)
        self._outbox.sends.append(Send((peer,), Pull(wanted)))
        return True

    def _go_on_pulling(self) -> None:
        """As many as somebody receives in a tick, and a third more: who was away for a while is
        in step again after three times as long at the earliest, or much sooner where there is
        little to do, whether or not all is cast to it meanwhile."""
        pace = max([each.pace for each in self._growth.values()], default=0)
        self._may_pull = max(1, self._settings.pull_limit // 2, pace + pace // 3)
        for peer in tuple(self._have_more):
            if not self._may_pull:
                break
            del self._have_more[peer]
            if self._pull(peer):
                self._probes.hit(Probe.PULL_CONTINUED)

    def _is_near(self, peer: int) -> bool:
        """Or at least not known to be where it would not keep what is cast."""
        known = self._known.get(peer)
        if known is None:
            return True
        behind = self.delivered.contiguous(self._index) - known.contiguous(self._index)
        if behind <= SPARED_BEYOND * self._settings.pull_limit:
            return True
        self._probes.hit(Probe.CAST_SPARED)
        return False

    def _is_elsewhere(self, wanted: Dots, peer: int) -> bool:
        """Has another peer some of it that has not been asked for it?"""
        for other, known in self._known.items():
            there = intersection((wanted, known))
            if other in self._asked_before:
                there = self._asked_before[other].missing(there)
            if other != peer and there.ranges:
                return True
        return False

    def _next_round(self) -> None:
        """Everybody sends a summary in a round. In as many rounds as there are peers, each of them
        is asked; then, what still has not come is asked for anew."""
        self._rounds += 1
        if self._rounds % (len(self._peers) + 1) == 0:
            self._asked_before = {}
        for peer, asked in self._asked.items():
            self._asked_before.setdefault(peer, DotSet()).update(asked.freeze())
        self._asked = {}

    def _forget_what_everyone_has(self) -> None:
        if len(self._known) < len(self._peers):
            return
        for replica in self._settings.ever:
            everywhere = self.delivered.contiguous(replica)
            for known in self._known.values():
                everywhere = min(everywhere, known.contiguous(replica))
            forgotten, kept = self._forgotten.get(replica, 0), self._kept.get(replica, {})
            count = len(kept)
            for event in range(forgotten + 1, everywhere + 1):
                kept.pop(event, None)
            if len(kept) < count:
                self._probes.hit(Probe.REQUESTS_FORGOTTEN)
            self._forgotten[replica] = max(everywhere, forgotten)


def _timestamp(request: Request) -> int:
    return request.timestamp


class Handover:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._received: dict[int, Dots] = {}
        """By each member, as it said last."""

    def on_summary(self, message: Summary, sender: int) -> None:
        self._received[sender] = message.received

    def send(self, requests: Iterable[Request], settings: Settings) -> None:
        """Of these, what is missing in a majority: some at a time, the earliest first."""
        missing = [each for each in requests if not self._is_kept(each.id, settings)]
        if missing:
            missing.sort(key=lambda each: each.key)
            message = Pulled(tuple(missing[: settings.pull_limit]))
            self._outbox.sends.append(Send(settings.members, message))

    def is_over(self, requests: Iterable[Request], settings: Settings) -> bool:
        return all(self._is_kept(each.id, settings) for each in requests)

    def _is_kept(self, id: Dot, settings: Settings) -> bool:
        members = settings.members
        kept = sum(id in self._received[each] for each in members if each in self._received)
        return kept >= settings.majority
