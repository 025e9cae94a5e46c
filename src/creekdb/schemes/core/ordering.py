"""Algorithm 1 without execution, shared by the schemes that speculate on `committed · tentative`.

Lines 1-7, 10-41 and 48-54: requests are issued, delivered, ordered and committed here. The scheme
on top decides how requests are executed and when responses are sent. It is notified of each
insertion and each commit, and reports its progress (`stable_prefix`).

The `Stabiliser` issues the strong no-op of Section 4.4. A strong request stabilises the weak
requests in its causal context. If no client calls a strong operation in time, a replica issues a
no-op: the leader first, other replicas only if weak requests remain unstable. Time is counted in
ticks.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import ClassVar

from creekdb.errors import BadValue, UsageError
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.protocol.checkpoint.stream import IncomingMessage, LazyCheckpoint, RegisterLoader
from creekdb.protocol.effects import (
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Effects,
    ObservedOrder,
    RbCast,
    RbDelivered,
    Task,
)
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION, Configuration
from creekdb.protocol.messages import Checkpoint, Record
from creekdb.protocol.order import RequestOrder
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Batch, Operation, OrderKey, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.stack import ProtocolStack
from creekdb.schemes.core.responses import Responses
from creekdb.schemes.core.stable_prefix import ExecutionProgress, StablePrefix

NOOP_FOLLOWER_FACTOR = 4
"""Ratio of a follower's waiting time to the leader's before it issues a no-op."""


class Stabiliser:
    __slots__ = ("_committed", "_noop_ticks", "_pending", "_ticks", "last_noop")

    def __init__(self, committed: DotSet, noop_ticks: int) -> None:
        self._committed = committed
        self._noop_ticks = noop_ticks
        self._ticks = 0
        self._pending: deque[tuple[int, Dot]] = deque()
        """Weak requests in order of arrival, each with its arrival tick."""
        self.last_noop: Dot | None = None
        """Last no-op issued by this replica."""

    def add(self, id: Dot) -> None:
        self._pending.append((self._ticks, id))

    def tick(self) -> None:
        self._ticks += 1

    def is_noop_due(self, is_leader: bool) -> bool:
        """True if a weak request has waited long enough and no earlier no-op is uncommitted."""
        pending = self._pending
        while pending and pending[0][1] in self._committed:
            pending.popleft()
        if not pending or (self.last_noop is not None and self.last_noop not in self._committed):
            return False
        timeout_ticks = self._noop_ticks if is_leader else self._noop_ticks * NOOP_FOLLOWER_FACTOR
        return self._ticks - pending[0][0] >= timeout_ticks


class OrderingReplica(ExecutionProgress):
    has_total_order: ClassVar[bool] = False
    """True if CAB orders each request separately. Then no request has a causal context, and
    `strong` only selects the response that a client waits for."""
    has_tentative_responses: ClassVar[bool] = True
    is_sequential: ClassVar[bool] = False

    def __init__(self, index: int, settings: Settings) -> None:
        self.index = index
        self.guarantees = SchemeGuarantees(
            voters=settings.voters,
            contexts=not self.has_total_order,
            tentative=self.has_tentative_responses,
            sequential=self.is_sequential,
        )
        self._settings = settings
        self._stack = ProtocolStack(index, settings, self)
        self._outbox = self._stack.outbox
        self.probes = self._stack.probes
        self.rejected = self._stack.rejected
        self.drift_us = self._stack.drift_us

        self._order = RequestOrder()  # line 6
        self._causal_context = DotSet()  # line 7
        self._responses = Responses(
            index, settings.peers(index), self._outbox, self.probes
        )  # line 9

        self._stable_prefix = StablePrefix(
            settings, self._order, self._responses, self._outbox, self
        )
        self._stabiliser = Stabiliser(self._order.committed_ids, settings.noop_ticks)

    # --- hooks for schemes --------------------------------------------------------------------

    @abstractmethod
    def _on_inserted(self, request: Request) -> None:
        """Handle a request that has just been inserted into `tentative`."""

    @abstractmethod
    def _on_committed(self, moved: list[Request]) -> None:
        """Handle requests, the last of them strong, just appended to `committed`."""

    def _on_delivered(self) -> None:
        """Handle the end of one delivery, for schemes that process its commits together."""

    @abstractmethod
    def _issue_tasks(self) -> None:
        """Issue a task for every execution that is possible now."""

    @abstractmethod
    def _executed_before(self, request: Request) -> Iterator[Dot]:
        """Return the executed requests between the stable prefix and the request."""

    @abstractmethod
    def new_state_loader(self) -> StateLoader: ...

    @abstractmethod
    def _load(self, loader: StateLoader) -> None:
        """Restart from these registers: no request in the order counts as executed."""

    # --- inputs -------------------------------------------------------------------------------

    def recover(self, records: Iterable[Record]) -> None:
        self._stack.recover(records)
        self._proceed()

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        """Line 15. Sequential schemes ignore `after`: all requests that have arrived precede."""
        if not self._stack.is_member or operation.name == MEMBERSHIP_OPERATION:
            self._validate_invocation(operation, strong)
        request = self._issue(operation, strong or self.has_total_order, now)
        awaits_stable = strong or not self.has_tentative_responses
        self._responses.expect(request.id, session, awaits_stable)  # line 25
        self._proceed()
        return request.id

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None:
        if self._stack.receive(message, sender, now):
            self._proceed()

    def tick(self, now: int) -> None:
        self._stabiliser.tick()
        self._stack.tick(now)
        self._issue_noop_if_due(now)
        self._responses.retained.expire(self._stack.cab.learner.stable_instance_of)
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
        if request is None or request.context is None:  # weak requests are never CAB-cast
            return id
        return self._causal_context.find_missing(request.context)

    def is_committed(self, id: Dot) -> bool:
        return id in self._order.committed_ids

    def is_weak(self, id: Dot) -> bool:
        request = self._order.find_tentative(id)
        return request is not None and not request.strong

    def can_install(self, checkpoint: Checkpoint) -> bool:
        return self._order.can_install(checkpoint.length, checkpoint.ids)

    def rb_deliver(self, request: Request) -> None:
        """Lines 26-31. A request issued here is delivered only after its recovery from disk (lines
        27-28)."""
        self._outbox.events.append(RbDelivered(request.id))
        self._add_request(request)

    def fill_lost_request(self, id: Dot, timestamp: int) -> None:
        """Lines 20-24, for an event number that line 16 assigned before the disk was lost."""
        context = Dots() if self.has_total_order else None
        request = Request(timestamp, id, NOOP, self.has_total_order, context)
        self._outbox.events.append(RbCast(request))
        self._stack.rb_cast(request)
        self._add_request(request)

    def cab_deliver(self, ids: list[Dot], instance: int) -> None:
        """Lines 32-35, for each request in turn."""
        order = self._order
        for id in ids:
            self._outbox.events.append(CabDelivered(id, instance))
            request = order.find_tentative(id)
            assert request is not None, "CAB delivered a request for which checkDep is false"
            self._causal_context.add(id)
            self._commit(request)
            operation = request.operation
            if operation.name == MEMBERSHIP_OPERATION:
                self._apply_membership_change(operation, instance)
        self._on_delivered()
        for id in ids:
            self._stack.on_arrived(id)

    def on_proposed(self, instance: int, batch: Batch) -> None:
        """Ignore proposals. Schemes that execute before the order is decided override this."""

    def stable_instance(self) -> int:
        return self._stable_prefix.instance

    def checkpoint(self) -> Checkpoint:
        return self._stable_prefix.checkpoint()

    def lazy_checkpoint(self) -> LazyCheckpoint:
        return self._stable_prefix.lazy_checkpoint()

    def live_requests(self) -> Iterator[Request]:
        yield from islice(
            self._order.committed, self._stable_prefix.length - self._order.first_position, None
        )
        yield from self._order.tentative()

    def install(self, checkpoint: Checkpoint, loader: RegisterLoader | None = None) -> None:
        if loader is None:
            state_loader = self.new_state_loader()
            state_loader.add(checkpoint.state, checkpoint.deleted)
        else:
            assert isinstance(loader, StateLoader)
            state_loader = loader
        self._outbox.events.append(
            CheckpointInstalled(checkpoint.instance, checkpoint.length, checkpoint.ids)
        )
        self._order.install(checkpoint.length, checkpoint.ids)
        self._load(state_loader)
        self._causal_context.update(checkpoint.ids)
        self._stable_prefix.restart_from(checkpoint)
        self._responses.apply_checkpoint(checkpoint)

    # --- Algorithm 1 --------------------------------------------------------------------------

    def _issue(self, operation: Operation, strong: bool, now: int) -> Request:
        """Lines 16-24."""
        id = self._stack.next_id()  # line 16
        timestamp = self._stack.clock.stamp(now)
        context = None
        if self.has_total_order:
            context = Dots()
        elif strong:
            later = self._order.tentative_after(OrderKey(timestamp, id))
            context = self._causal_context.freeze().without(each.id for each in later)  # line 19
        request = Request(timestamp, id, operation, strong, context)  # line 17
        self._outbox.events.append(RbCast(request))
        self._stack.rb_cast(request)  # line 23
        self._add_request(request)
        return request

    def _add_request(self, request: Request) -> None:
        """Lines 20, 22 and 24 for a request issued here; 29-31 for a delivered one."""
        if not request.strong:
            self._causal_context.add(request.id)
            self._stabiliser.add(request.id)
        self._order.insert(request)  # lines 36-40
        self._on_inserted(request)  # line 41
        if request.strong:
            self._stack.cab_cast(request.id)
        self._stack.on_arrived(request.id)

    def _commit(self, request: Request) -> None:
        """Lines 48-54."""
        moved = self._order.commit(request)
        for index, each in enumerate(moved, self._order.length - len(moved)):
            self._outbox.events.append(Committed(each.id, index))
        self._on_committed(moved)

    # --- members ------------------------------------------------------------------------------

    def configuration(self) -> Configuration:
        return self._stack.settings.configuration

    def can_shut_down(self) -> bool:
        return self._stack.can_shut_down

    def _validate_invocation(self, operation: Operation, strong: bool) -> None:
        if self._stack.is_removed:
            raise UsageError(
                f"call rejected: replica {self.index} was removed from its cluster; "
                "call another replica"
            )
        if not self._stack.is_member:
            raise UsageError(
                f"call rejected: replica {self.index} is not a member yet; call another replica"
            )
        if self.has_total_order or self._settings.acceptors:
            raise UsageError(
                "membership change rejected: the members of this scheme are fixed; "
                "use creek or basic"
            )
        if not strong:
            raise UsageError("membership change rejected: the call is weak; make it strong")

    def _apply_membership_change(self, operation: Operation, instance: int) -> None:
        """Apply the change at its position in `committed`. Its execution, whenever it happens, has
        the same result."""
        try:
            configuration = self.configuration().apply(operation)
        except BadValue:
            self.probes.hit(Probe.CHANGE_REJECTED)
            return
        self._stack.reconfigure(configuration, instance + 1)

    def on_reconfigured(self) -> None:
        """Retain outcomes for the new members."""
        peers = self._stack.settings.peers(self.index)
        self._responses.retained.reconfigure(peers)

    # --- after every input --------------------------------------------------------------------

    def _proceed(self) -> None:
        self._stack.process_pending()
        self._stable_prefix.advance(self._stack.cab.learner)
        if self._stable_prefix.take_checkpoint_due():
            if self._settings.drafts:
                self._stack.compact(*self.lazy_checkpoint())
            else:
                self._stack.compact(self.checkpoint())
        self._issue_tasks()

    # --- the strong no-op (Section 4.4) -------------------------------------------------------

    def _issue_noop_if_due(self, now: int) -> None:
        stack = self._stack
        noop_due = self._stabiliser.is_noop_due(is_leader=stack.omega.leader == self.index)
        if noop_due and stack.is_member and stack.disk_loss_recovery is None:
            self.probes.hit(Probe.NOOP_ISSUED)
            self._stabiliser.last_noop = self._issue(NOOP, True, now).id

    # --- observed order -----------------------------------------------------------------------

    def _observe(self, request: Request) -> ObservedOrder | None:
        """Return the stable length and the executed requests that precede the request just now."""
        if not self._settings.record_orders:
            return None
        return ObservedOrder(self._stable_prefix.length, tuple(self._executed_before(request)))

    # --- inspection ---------------------------------------------------------------------------

    def awaited_members(self) -> tuple[int, ...] | None:
        recovery = self._stack.disk_loss_recovery
        return None if recovery is None else recovery.awaited_members()

    def leader(self) -> int | None:
        return self._stack.omega.leader

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        return False

    def queue_delay_ticks(self) -> int:
        return 0

    def has_request(self, id: Dot) -> bool:
        return id in self._order.committed_ids or self._order.find_tentative(id) is not None

    def is_visible(self, id: Dot) -> bool:
        """True if the request has a position: sequential executions follow the order."""
        return self.has_request(id)

    def last_issued(self) -> Dot:
        return Dot(self.index, self._stack.reliable_broadcast.received.last(self.index))

    def has_pending_response(self, id: Dot) -> bool:
        return self._responses.has_pending(id)

    def committed_length(self) -> int:
        return self._order.length

    def committed_ids(self) -> tuple[Dot, ...]:
        return tuple(request.id for request in self._order.committed)

    def readable_lengths(self) -> range:
        return range(self._stable_prefix.length, self._stable_prefix.length + 1)

    def stable_instances(self) -> dict[int, int]:
        learner, peers = self._stack.cab.learner, self._stack.settings.peers(self.index)
        return {self.index: self._stable_prefix.instance} | {
            peer: learner.stable_instance_of(peer) for peer in peers
        }

    def tentative_length(self) -> int:
        return self._order.tentative_length

    def tentative_ids(self) -> tuple[Dot, ...]:
        return tuple(request.id for request in self._order.tentative())

    def last_committed(self, limit: int) -> tuple[Request, ...]:
        return tuple(self._order.committed[-limit:])

    def last_tentative(self, limit: int) -> tuple[Request, ...]:
        return tuple(self._order.last_tentative(limit))
