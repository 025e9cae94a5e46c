"""Weak requests that are not stable yet, and the strong no-op that makes them so (Section 4.4).

A strong request takes along what is in its causal context. Where no client asks for one, a replica
issues one itself in time: who leads first, the others only if that does not help. Time is counted
in ticks.

Algorithm 1 without execution: what schemes that speculate on `committed · tentative` share.

Lines 1-7, 10-41 and 48-54: here requests are issued, delivered, ordered and committed. How they are
executed, and when which answer leaves, is up to the scheme on top of it, which hears of each
insertion and each commit, and tells how far it has come (`settled`).
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import ClassVar

from creekdb.errors import BadValue, UsageError
from creekdb.execution.mvcc.state_loader import Arrivals
from creekdb.protocol.checkpoint.stream import Draft, Given, Intake
from creekdb.protocol.effects import (
    CabDelivered,
    Cast,
    Committed,
    Effects,
    Installed,
    Observed,
    RbDelivered,
    Task,
)
from creekdb.protocol.guarantees import Terms
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.membership.configuration import MEMBERS, Configuration
from creekdb.protocol.messages import Checkpoint, Record
from creekdb.protocol.order import Order
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Batch, Operation, OrderKey, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.stack import Broadcasts
from creekdb.schemes.core.responses import Answers
from creekdb.schemes.core.stable_prefix import Executing, Settled

NOOP_PATIENCE = 4
"""How many times longer than the leader another replica waits before it issues a no-op."""


class Unstable:
    __slots__ = ("_arrived", "_committed", "_patience", "_ticks", "noop")

    def __init__(self, committed: DotSet, patience: int) -> None:
        self._committed = committed
        self._patience = patience
        self._ticks = 0
        self._arrived: deque[tuple[int, Dot]] = deque()
        """With the tick of their arrival, oldest first."""
        self.noop: Dot | None = None
        """The last one that was issued here."""

    def add(self, id: Dot) -> None:
        self._arrived.append((self._ticks, id))

    def tick(self) -> None:
        self._ticks += 1

    def want_noop(self, leads: bool) -> bool:
        """Has one of them waited for long enough, and is no no-op under way?"""
        arrived = self._arrived
        while arrived and arrived[0][1] in self._committed:
            arrived.popleft()
        if not arrived or (self.noop is not None and self.noop not in self._committed):
            return False
        patience = self._patience if leads else self._patience * NOOP_PATIENCE
        return self._ticks - arrived[0][0] >= patience


class OrderingReplica(Executing):
    orders_everything: ClassVar[bool] = False
    """Does CAB order every request, each for itself? Then none carries a causal context, and what
    is strong is only which answer a client waits for."""
    answers_tentatively: ClassVar[bool] = True
    executes_sequentially: ClassVar[bool] = False

    def __init__(self, index: int, settings: Settings) -> None:
        self.index = index
        self.terms = Terms(
            voters=settings.voters,
            contexts=not self.orders_everything,
            tentative=self.answers_tentatively,
            sequential=self.executes_sequentially,
        )
        self._settings = settings
        self._broadcasts = Broadcasts(index, settings, self)
        self._outbox = self._broadcasts.outbox
        self.probes = self._broadcasts.probes
        self.refused = self._broadcasts.refused
        self.drift_us = self._broadcasts.drift_us

        self._order = Order()  # line 6
        self._causal_context = DotSet()  # line 7
        self._answers = Answers(index, settings.peers(index), self._outbox, self.probes)  # line 9

        self._settled = Settled(settings, self._order, self._answers, self._outbox, self)
        self._unstable = Unstable(self._order.committed_ids, settings.noop_ticks)

    # --- what a scheme adds -------------------------------------------------------------------

    @abstractmethod
    def _inserted(self, request: Request) -> None:
        """The request has just taken its place on `tentative`."""

    @abstractmethod
    def _committed(self, moved: list[Request]) -> None:
        """These, the last of them strong, have just moved to the end of `committed`."""

    def _delivered(self) -> None:
        """All that was delivered together is committed: for schemes that make one thing of it."""

    @abstractmethod
    def _hand_out(self) -> None:
        """Ask for whatever execution is possible now."""

    @abstractmethod
    def _executed_before(self, request: Request) -> Iterator[Dot]:
        """What is not settled, comes before the request in the order, and is executed."""

    @abstractmethod
    def intake(self) -> Arrivals: ...

    @abstractmethod
    def _load(self, arrived: Arrivals) -> None:
        """Start anew from these registers: nothing of what is ordered counts as executed."""

    # --- inputs -------------------------------------------------------------------------------

    def recover(self, records: Iterable[Record]) -> None:
        self._broadcasts.recover(records)
        self._proceed()

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        """Line 15. What is executed in the order of its place comes `after` all that is here."""
        if not self._broadcasts.is_member or operation.name == MEMBERS:
            self._check_may_ask(operation, strong)
        request = self._issue(operation, strong or self.orders_everything, now)
        for_good = strong or not self.answers_tentatively
        self._answers.expect(request.id, session, for_good)  # line 25
        self._proceed()
        return request.id

    def receive(self, message: Given, sender: int, now: int) -> None:
        if self._broadcasts.receive(message, sender, now):
            self._proceed()

    def tick(self, now: int) -> None:
        self._unstable.tick()
        self._broadcasts.tick(now)
        self._stabilise(now)
        self._answers.untold.forget(self._broadcasts.cab.learner.settled_by)
        self._proceed()

    def take_tasks(self) -> tuple[Task, ...]:
        return self._outbox.take_tasks()

    def take_effects(self) -> Effects:
        return self._outbox.take()

    # --- upcalls of the broadcasts ------------------------------------------------------------

    def missing_dependency(self, id: Dot) -> Dot | None:
        """`checkDep` (lines 10-14)."""
        if id in self._order.committed_ids:
            return None
        request = self._order.find_tentative(id)
        if request is None or request.context is None:  # a weak one is never CAB-cast
            return id
        return self._causal_context.some_missing(request.context)

    def is_committed(self, id: Dot) -> bool:
        return id in self._order.committed_ids

    def is_weak(self, id: Dot) -> bool:
        request = self._order.find_tentative(id)
        return request is not None and not request.strong

    def may_install(self, checkpoint: Checkpoint) -> bool:
        return self._order.may_install(checkpoint.length, checkpoint.ids)

    def rb_deliver(self, request: Request) -> None:
        """Lines 26-31. Requests issued here do not come this way (lines 27-28), but for those that
        were recovered from disk."""
        self._outbox.events.append(RbDelivered(request.id))
        self._take_up(request)

    def stand_in(self, id: Dot, timestamp: int) -> None:
        """Lines 20-24, long after line 16."""
        context = Dots() if self.orders_everything else None
        request = Request(timestamp, id, NOOP, self.orders_everything, context)
        self._outbox.events.append(Cast(request))
        self._broadcasts.rb_cast(request)
        self._take_up(request)

    def cab_deliver(self, ids: list[Dot], instance: int) -> None:
        """Lines 32-35, for one after the other."""
        order = self._order
        for id in ids:
            self._outbox.events.append(CabDelivered(id, instance))
            request = order.find_tentative(id)
            assert request is not None, "CAB delivers only what checkDep let pass"
            self._causal_context.add(id)
            self._commit(request)
            operation = request.operation
            if operation.name == MEMBERS:
                self._change_members(operation, instance)
        self._delivered()
        for id in ids:
            self._broadcasts.arrived(id)

    def proposed(self, instance: int, batch: Batch) -> None:
        """For schemes that execute before the order is decided: most do not."""

    def settled_instance(self) -> int:
        return self._settled.instance

    def checkpoint(self) -> Checkpoint:
        return self._settled.checkpoint()

    def draft(self) -> Draft:
        return self._settled.draft()

    def live_requests(self) -> Iterator[Request]:
        yield from islice(self._order.committed, self._settled.length - self._order.first, None)
        yield from self._order.tentative()

    def install(self, checkpoint: Checkpoint, intake: Intake | None = None) -> None:
        if intake is None:
            arrived = self.intake()
            arrived.add(checkpoint.state, checkpoint.deleted)
        else:
            assert isinstance(intake, Arrivals)
            arrived = intake
        self._outbox.events.append(
            Installed(checkpoint.instance, checkpoint.length, checkpoint.ids)
        )
        self._order.install(checkpoint.length, checkpoint.ids)
        self._load(arrived)
        self._causal_context.update(checkpoint.ids)
        self._settled.begin_with(checkpoint)
        self._answers.carried_over(checkpoint)

    # --- Algorithm 1 --------------------------------------------------------------------------

    def _issue(self, operation: Operation, strong: bool, now: int) -> Request:
        """Lines 16-24."""
        id = self._broadcasts.next_id()  # line 16
        timestamp = self._broadcasts.clock.stamp(now)
        context = None
        if self.orders_everything:
            context = Dots()
        elif strong:
            later = self._order.tentative_after(OrderKey(timestamp, id))
            context = self._causal_context.freeze().without(each.id for each in later)  # line 19
        request = Request(timestamp, id, operation, strong, context)  # line 17
        self._outbox.events.append(Cast(request))
        self._broadcasts.rb_cast(request)  # line 23
        self._take_up(request)
        return request

    def _take_up(self, request: Request) -> None:
        """Lines 20, 22 and 24 for a request issued here; 29-31 for one that was delivered."""
        if not request.strong:
            self._causal_context.add(request.id)
            self._unstable.add(request.id)
        self._order.insert(request)  # lines 36-40
        self._inserted(request)  # line 41
        if request.strong:
            self._broadcasts.cab_cast(request.id)
        self._broadcasts.arrived(request.id)

    def _commit(self, request: Request) -> None:
        """Lines 48-54."""
        moved = self._order.commit(request)
        for index, each in enumerate(moved, self._order.length - len(moved)):
            self._outbox.events.append(Committed(each.id, index))
        self._committed(moved)

    # --- members ------------------------------------------------------------------------------

    def configuration(self) -> Configuration:
        return self._broadcasts.settings.configuration

    def is_dismissed(self) -> bool:
        return self._broadcasts.is_dismissed

    def _check_may_ask(self, operation: Operation, strong: bool) -> None:
        if self._broadcasts.is_removed:
            raise UsageError(f"replica {self.index} was removed from its cluster: ask another one")
        if not self._broadcasts.is_member:
            raise UsageError(f"replica {self.index} is not a member yet: ask another one")
        if self.orders_everything or self._settings.acceptors:
            raise UsageError("members of this scheme do not change: those of creek and basic do")
        if not strong:
            raise UsageError("members are changed by strong operations")

    def _change_members(self, operation: Operation, instance: int) -> None:
        """The order is what counts, not the execution: that comes to the same in its own time."""
        try:
            configuration = self.configuration().changed_by(operation)
        except BadValue:
            self.probes.hit(Probe.CHANGE_REFUSED)
            return
        self._broadcasts.reconfigure(configuration, instance + 1)

    def reconfigured(self) -> None:
        """The members are others from now on."""
        peers = self._broadcasts.settings.peers(self.index)
        self._answers.untold.reconfigure(peers)

    # --- after every input --------------------------------------------------------------------

    def _proceed(self) -> None:
        self._broadcasts.settle()
        self._settled.advance(self._broadcasts.cab.learner)
        if self._settled.take_image_due():
            if self._settings.drafts:
                self._broadcasts.compact(*self.draft())
            else:
                self._broadcasts.compact(self.checkpoint())
        self._hand_out()

    # --- the strong no-op (Section 4.4) -------------------------------------------------------

    def _stabilise(self, now: int) -> None:
        broadcasts = self._broadcasts
        wanted = self._unstable.want_noop(leads=broadcasts.omega.leader == self.index)
        if wanted and broadcasts.is_member and broadcasts.newcomer is None:
            self.probes.hit(Probe.NOOP_ISSUED)
            self._unstable.noop = self._issue(NOOP, True, now).id

    # --- what was seen ------------------------------------------------------------------------

    def _observed(self, request: Request) -> Observed | None:
        """What is known of the order in which the request was executed, just now in its place."""
        if not self._settings.record_orders:
            return None
        return Observed(self._settled.length, tuple(self._executed_before(request)))

    # --- for those who look on ----------------------------------------------------------------

    def waits_for(self) -> tuple[int, ...] | None:
        newcomer = self._broadcasts.newcomer
        return None if newcomer is None else newcomer.waits_for()

    def leader(self) -> int | None:
        return self._broadcasts.omega.leader

    def answers_alone(self, operation: Operation, strong: bool) -> bool:
        return False

    def kept_waiting(self) -> int:
        return 0

    def has(self, id: Dot) -> bool:
        return id in self._order.committed_ids or self._order.find_tentative(id) is not None

    def is_seen(self, id: Dot) -> bool:
        """What is executed in the order of its place sees all that has one before."""
        return self.has(id)

    def last_issued(self) -> Dot:
        return Dot(self.index, self._broadcasts.gossip.received.last(self.index))

    def awaits(self, id: Dot) -> bool:
        return self._answers.awaits(id)

    def committed_length(self) -> int:
        return self._order.length

    def committed_ids(self) -> tuple[Dot, ...]:
        return tuple(request.id for request in self._order.committed)

    def readable_lengths(self) -> range:
        return range(self._settled.length, self._settled.length + 1)

    def progress(self) -> dict[int, int]:
        learner, peers = self._broadcasts.cab.learner, self._broadcasts.settings.peers(self.index)
        return {self.index: self._settled.instance} | {
            peer: learner.settled_by(peer) for peer in peers
        }

    def tentative_length(self) -> int:
        return self._order.tentative_length

    def tentative_ids(self) -> tuple[Dot, ...]:
        return tuple(request.id for request in self._order.tentative())

    def last_committed(self, most: int) -> tuple[Request, ...]:
        return tuple(self._order.committed[-most:])

    def last_tentative(self, most: int) -> tuple[Request, ...]:
        return tuple(self._order.last_tentative(most))
