"""Algorithm 1 without execution: requests are issued, delivered, ordered and committed here.

Lines 1-7, 10-40 and 48-53. The scheme receives the deliveries of the broadcasts, passes them to
its `Ordering`, and then executes the requests that the ordering inserted or committed.

The `Stabiliser` issues the strong no-op of Section 4.4. A strong request stabilises the weak
requests in its causal context. If no client calls a strong operation in time, a replica issues a
no-op: the leader first, other replicas only if weak requests remain unstable. Time is counted in
ticks.
"""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from creekdb.errors import BadValue, UsageError
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.protocol.application import Application
from creekdb.protocol.broadcast.cuts import WeakRequests
from creekdb.protocol.effects import (
    CabDelivered,
    CheckpointInstalled,
    Committed,
    RbCast,
    RbDelivered,
    Response,
)
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Operation, OrderKey, Request
from creekdb.protocol.stack import ProtocolStack
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.stable_prefix import StablePrefix

if TYPE_CHECKING:
    from creekdb.schemes.core.view import ReplicaView

NOOP_FOLLOWER_FACTOR = 4
"""Ratio of a follower's waiting time to the leader's before it issues a no-op."""


class Stabiliser:
    def __init__(self, variables: ReplicaVariables) -> None:
        self._variables = variables
        self._committed = variables.order.committed_ids
        self._noop_ticks = variables.settings.noop_ticks
        self._pending: deque[tuple[int, Dot]] = deque()
        """Weak requests in order of arrival, each with its arrival tick."""
        self.last_noop: Dot | None = None
        """Last no-op issued by this replica."""

    def add(self, id: Dot) -> None:
        self._pending.append((self._variables.ticks, id))

    def is_noop_due(self, is_leader: bool) -> bool:
        """True if a weak request has waited long enough and no earlier no-op is uncommitted."""
        pending = self._pending
        while pending and pending[0][1] in self._committed:
            pending.popleft()
        if not pending or (self.last_noop is not None and self.last_noop not in self._committed):
            return False
        timeout_ticks = self._noop_ticks if is_leader else self._noop_ticks * NOOP_FOLLOWER_FACTOR
        return self._variables.ticks - pending[0][0] >= timeout_ticks


class ReplicaObserver(Protocol):
    """Observer of every change of the order, and of the end of every input."""

    def inserted(self, request: Request) -> None: ...

    def committed(self, request: Request, cut: tuple[Dot, ...]) -> None: ...

    def installed(self, checkpoint: Checkpoint, loader: StateLoader) -> None: ...

    def proceeded(self, responses: list[Response], view: "ReplicaView") -> None: ...


class Ordering:
    def __init__(
        self,
        variables: ReplicaVariables,
        guarantees: SchemeGuarantees,
        stable_prefix: StablePrefix,
        scheme: Application,
        observer: ReplicaObserver | None = None,
    ) -> None:
        self._index = variables.index
        self.has_contexts = guarantees.contexts
        self._has_total_order = not guarantees.contexts
        """True if CAB orders each request separately. Then no request has a causal context, and
        `strong` only selects the response that a client waits for."""
        self._emits_events = bool(variables.settings.emit_events)
        self._order = variables.order
        self._outbox = variables.outbox
        self._probes = variables.probes
        self._retained = variables.responses.retained
        self._stable_prefix = stable_prefix
        self._observer = observer
        self.causal_context = DotSet()  # line 7
        self._weak_requests: WeakRequests | None = None
        """Delivered weak requests; None if no context is bound late."""
        if variables.settings.late_contexts and guarantees.contexts:
            self._weak_requests = WeakRequests(variables.order.committed_ids)
        self._cut: tuple[Dot, ...] = ()
        """Cut of the strong request that is delivered next, if it belongs to `_cut_instance`."""
        self._cut_instance = -1
        self._stabiliser = Stabiliser(variables)
        self.stack = ProtocolStack(variables, scheme, requests=self, checkpoints=stable_prefix)

    # --- Algorithm 1 --------------------------------------------------------------------------

    def missing_dependency(self, id: Dot) -> Dot | None:
        """`checkDep` (lines 10-14)."""
        if id in self._order.committed_ids:
            return None
        request = self._order.find_tentative(id)
        if request is None:
            return id
        if request.context is None:  # a weak request is delivered after those that its cut includes
            return None
        return self.causal_context.find_missing(request.context)

    def issue(self, operation: Operation, strong: bool, now: int) -> Request:
        """Lines 16-19, 22-23 and 36-40. Raises `UsageError` for a rejected call."""
        if self.stack.cab.delays is not None:
            self.stack.observe_clock(now)  # a leader holds its own requests too
        if not self.stack.is_member or operation.name == MEMBERSHIP_OPERATION:
            self._validate_invocation(operation, strong)
        id = self.stack.next_id()  # line 16
        timestamp = self.stack.clock.stamp(now)
        context = None
        if self._has_total_order:
            strong, context = True, Dots()
        elif strong:
            later = self._order.tentative_after(OrderKey(timestamp, id))
            context = self.causal_context.freeze().without(each.id for each in later)  # line 19
        return self._rb_cast(Request(timestamp, id, operation, strong, context))  # line 17

    def fill_lost_request(self, id: Dot, timestamp: int) -> Request:
        """Lines 22-23 and 36-40, for an event number of line 16 that was lost with the disk."""
        context = Dots() if self._has_total_order else None
        return self._rb_cast(Request(timestamp, id, NOOP, self._has_total_order, context))

    def deliver(self, request: Request) -> None:
        """Lines 26-30 and 36-40. A request issued here is delivered only after its recovery from
        disk (lines 27-28)."""
        self._outbox.events.append(RbDelivered(request.id))
        self._insert(request)

    def cab_cast(self, request: Request) -> None:
        """Line 20. Every replica casts a strong request once it has received the request."""
        if request.strong:
            self.stack.cab.cab_cast(request.id)
        self.stack.cab.on_arrived(request.id)

    def commit(self, id: Dot, instance: int) -> list[Request]:
        """Lines 33-35 and 48-53. Return the committed requests, the last of them strong.

        A weak request is part of the cut of the next strong request, and commits nothing itself.
        """
        order = self._order
        request = order.find_tentative(id)
        if request is None or not request.strong:
            assert self.missing_dependency(id) is None, "CAB delivered ahead of its predicate"
            self._extend_cut(id, instance)
            return []
        if self._emits_events:
            self._outbox.events.append(CabDelivered(id, instance))
        cut = self._cut if self._cut_instance == instance else ()
        self._cut = ()
        self.causal_context.add(id)
        moved = order.commit(request, cut)
        if cut and len(moved) > 1:
            self._probe_cut(request, moved)
        if self._emits_events:
            for index, each in enumerate(moved, order.length - len(moved)):
                self._outbox.events.append(Committed(each.id, index))
        if request.operation.name == MEMBERSHIP_OPERATION:
            self._apply_membership_change(request.operation, instance)
        if self._observer is not None:
            self._observer.committed(request, cut)
        return moved

    def _probe_cut(self, request: Request, moved: list[Request]) -> None:
        context = request.context
        if context is not None and any(each.id not in context for each in moved[:-1]):
            self._probes.hit(Probe.CUT_COMMITTED)

    def _extend_cut(self, id: Dot, instance: int) -> None:
        if self._cut_instance != instance:
            self._cut, self._cut_instance = (), instance
        self._cut += (id,)

    def finish_delivery(self, ids: list[Dot]) -> None:
        for id in ids:
            self.stack.cab.on_arrived(id)

    def _rb_cast(self, request: Request) -> Request:
        if self._emits_events:
            self._outbox.events.append(RbCast(request))
        self.stack.reliable_broadcast.cast(request)  # line 23
        self._insert(request)
        return request

    def _insert(self, request: Request) -> None:
        """Line 22 for a request issued here; 29-30 for a delivered one."""
        if not request.strong:
            self.causal_context.add(request.id)
            self._stabiliser.add(request.id)
            if self._weak_requests is not None:
                self._weak_requests.add(request)
        self._order.insert(request)  # lines 36-40
        if self._observer is not None:
            self._observer.inserted(request)

    # --- other inputs -------------------------------------------------------------------------

    def tick(self, now: int) -> Request | None:
        """Return the strong no-op (Section 4.4) that was issued, if one was due."""
        stack = self.stack
        stack.tick(now)
        noop = None
        noop_due = self._stabiliser.is_noop_due(is_leader=stack.omega.leader == self._index)
        if noop_due and stack.is_member and stack.disk_loss_recovery is None:
            self._probes.hit(Probe.NOOP_ISSUED)
            noop = self.issue(NOOP, True, now)
            self._stabiliser.last_noop = noop.id
        self._retained.expire(stack.cab.learner.stable_instance_of)
        return noop

    def wake(self, now: int) -> None:
        self.stack.wake(now)

    def proceed(self) -> None:
        """Deliver what can be delivered, and stabilise what is executed."""
        self.stack.process_pending()
        self._stable_prefix.advance(self.stack)

    def install(self, checkpoint: Checkpoint, loader: StateLoader) -> None:
        self._outbox.events.append(
            CheckpointInstalled(checkpoint.instance, checkpoint.length, checkpoint.ids)
        )
        self._order.install(checkpoint.length, checkpoint.ids)
        self._cut = ()
        self.causal_context.update(checkpoint.ids)
        if self._observer is not None:
            self._observer.installed(checkpoint, loader)

    # --- `DeliveredRequests` ------------------------------------------------------------------

    def is_committed(self, id: Dot) -> bool:
        return id in self._order.committed_ids

    def is_weak(self, id: Dot) -> bool:
        request = self._order.find_tentative(id)
        return request is not None and not request.strong

    def timestamp_of(self, id: Dot) -> int:
        request = self._order.find_tentative(id)
        assert request is not None
        return request.timestamp

    def cut_before(self, id: Dot) -> tuple[Dot, ...]:
        request = self._order.find_tentative(id)
        assert request is not None
        assert self._weak_requests is not None
        return self._weak_requests.cut_before(request)

    def can_install(self, checkpoint: Checkpoint) -> bool:
        return self._order.can_install(checkpoint.length, checkpoint.ids)

    # --- members ------------------------------------------------------------------------------

    def _validate_invocation(self, operation: Operation, strong: bool) -> None:
        if self.stack.is_removed:
            raise UsageError(
                f"call rejected: replica {self._index} was removed from its cluster; "
                "call another replica"
            )
        if not self.stack.is_member:
            raise UsageError(
                f"call rejected: replica {self._index} is not a member yet; call another replica"
            )
        if self._has_total_order or self.stack.settings.acceptors:
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
            configuration = self.stack.settings.configuration.apply(operation)
        except BadValue:
            self._probes.hit(Probe.CHANGE_REJECTED)
            return
        self.stack.reconfigure(configuration, instance + 1)
