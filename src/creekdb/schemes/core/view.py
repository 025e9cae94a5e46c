"""State of a replica for observers, read from its parts."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from creekdb.execution.keys import CollationKey
from creekdb.execution.mvcc.pinned_state import PinnedState
from creekdb.protocol.checkpoint.stream import LazyCheckpoint, RegisterLoader
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.membership.rollback_detection import ReportedState
from creekdb.protocol.request import Batch, Operation, Request
from creekdb.protocol.values import Key
from creekdb.schemes.core.execution import Execution, ReplicaVariables, UnstableWrites
from creekdb.schemes.core.ordering import Ordering
from creekdb.schemes.core.stable_prefix import StablePrefix


class ReplicaView:
    """State of a replica, as an observer may read it between two inputs."""

    def __init__(
        self,
        variables: ReplicaVariables,
        ordering: Ordering,
        stable_prefix: StablePrefix,
        execution: Execution,
        blocked: Collection[object] = (),
        local_reads: frozenset[str] = frozenset(),
    ) -> None:
        """`blocked`: executed requests whose responses wait. `local_reads`: names of the operations
        that weak calls execute on this replica alone."""
        self.index = variables.index
        self.probes = variables.probes
        self.rejected = variables.rejected
        """Number of malformed or foreign inputs by reason. None of them changed other state."""
        self.drift_us = ordering.stack.drift_us
        """Observed lead of each replica's clock, in microseconds, where it exceeded the limit."""
        self._stack = ordering.stack
        self._order = variables.order
        self._responses = variables.responses
        self._stable_prefix = stable_prefix
        self._execution = execution
        self._blocked = blocked
        self._local_reads = local_reads

    # --- members ------------------------------------------------------------------------------

    def awaited_members(self) -> tuple[int, ...] | None:
        """Return the members whose reports are missing until this replica joins; None if it has
        joined.

        A replica that started without state joins after every member has reported its state. An
        empty tuple means that the replica has yet to catch up with the reports. Until it joins,
        the driver must not call `invoke`.
        """
        recovery = self._stack.disk_loss_recovery
        return None if recovery is None else recovery.awaited_members()

    def must_be_replaced(self) -> bool:
        """True if the replica lost its disk and can never join, since the members have changed."""
        return self._stack.must_be_replaced

    def leader(self) -> int | None:
        """Return the replica that this replica currently trusts as the leader."""
        return self._stack.omega.leader

    def configuration(self) -> Configuration:
        """Return the members according to this replica."""
        return self._stack.settings.configuration

    def can_shut_down(self) -> bool:
        """True if the replica was removed and no member depends on its messages any more."""
        return self._stack.can_shut_down

    # --- evidence for other replicas (`StateView`) --------------------------------------------

    def own_state(self) -> ReportedState:
        cab = self._stack.cab
        last_event = self.last_issued().event
        return ReportedState(last_event, cab.learner.delivered, cab.acceptor.promised)

    def reported_state(self, replica: int) -> ReportedState:
        """Return the state that the other replica has reported to this one."""
        cab = self._stack.cab
        last_event = self._stack.reliable_broadcast.reported_last_event(replica)
        promised = cab.reported_promises.get(replica, NO_BALLOT)
        return ReportedState(last_event, cab.learner.progress_of(replica), promised)

    def last_decisions(self, limit: int) -> tuple[int, tuple[Batch, ...]]:
        """Return the last decisions, at most `limit`, and the instance of the first."""
        return self._stack.cab.learner.last_decisions(limit)

    def removed_replicas(self) -> tuple[int, ...]:
        """Return the removed replicas. Empty until all members have delivered the last change."""
        settings, learner = self._stack.settings, self._stack.cab.learner
        peers, changed_below = settings.peers(self.index), learner.reconfigured_below
        is_delivered = all(learner.progress_of(peer) >= changed_below for peer in peers)
        return settings.former if is_delivered else ()

    # --- order --------------------------------------------------------------------------------

    def has_request(self, id: Dot) -> bool:
        """True if the request has arrived here and has a position."""
        return id in self._order.committed_ids or self._order.find_tentative(id) is not None

    def last_issued(self) -> Dot:
        """Return the last request issued here, including before restarts; event 0 if none was."""
        return Dot(self.index, self._stack.reliable_broadcast.received.last(self.index))

    def has_pending_response(self, id: Dot) -> bool:
        """True if more responses to this request, which was issued here, will follow."""
        return self._responses.has_pending(id)

    def committed_length(self) -> int:
        return self._order.length

    def committed_ids(self) -> tuple[Dot, ...]:
        """Return the part of `committed` that the checkpoint does not cover."""
        return tuple(request.id for request in self._order.committed)

    def last_committed(self, limit: int) -> tuple[Request, ...]:
        """Return the end of that part, at most `limit` requests."""
        return tuple(self._order.committed[-limit:])

    def tentative_length(self) -> int:
        return len(self._order.tentative)

    def tentative_ids(self) -> tuple[Dot, ...]:
        return tuple(request.id for request in self._order.tentative)

    def last_tentative(self, limit: int) -> tuple[Request, ...]:
        """Return the end of `tentative`, at most `limit` requests."""
        return tuple(self._order.tentative.last(limit))

    def stable_instances(self) -> dict[int, int]:
        """Return the number of stable instances of each replica, as last reported to this one."""
        learner, peers = self._stack.cab.learner, self._stack.settings.peers(self.index)
        return {self.index: self._stable_prefix.instance} | {
            peer: learner.stable_instance_of(peer) for peer in peers
        }

    # --- execution ----------------------------------------------------------------------------

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        """True if the operation gets its response without records and messages."""
        return not strong and operation.name in self._local_reads

    def is_visible(self, id: Dot) -> bool:
        """True if `has_request`, and all later responses to requests issued here depend on it."""
        return self.has_request(id) and self._execution.is_visible(id)

    def readable_lengths(self) -> range:
        """Return the lengths of `committed` whose state can be read; the last is the newest."""
        stable_length = self._stable_prefix.length
        return range(stable_length, self._execution.readable_length(stable_length) + 1)

    def committed_items(
        self, length: int, start: CollationKey, stop: CollationKey
    ) -> Iterator[tuple[Key, Any]]:
        """Iterate over the registers after the first `length` requests of `committed`.

        Yields present keys from `start` up to `stop`, in key order. The iterator is valid until
        the next input.
        """
        view = self._execution.committed_view(length)
        for key in view.keys(start, stop, False):
            yield key, view.read(key)

    def unstable_writes(self, has_key: Callable[[Key], bool]) -> Iterator[UnstableWrites]:
        """Iterate over the requests that are not stable, in their order, with their current
        outcomes and writes. `has_key` selects registers. Valid until the next input.

        The replica must report changes, so that no merged run hides the writes of a request.
        """
        return self._execution.unstable_writes(self._stable_prefix.length, has_key)

    def lazy_checkpoint(self) -> LazyCheckpoint:
        """Return a checkpoint of the longest executed prefix of `committed` that ends with an
        instance. Its registers are read later."""
        return self._stable_prefix.lazy_checkpoint()

    def pin_state(self) -> tuple[int, PinnedState | None]:
        """Return the length of the stable prefix, and its state for reads by key range."""
        return self._stable_prefix.length, self._execution.pin_state()

    def new_state_loader(self) -> RegisterLoader:
        """Return the loader for the registers of a snapshot that arrives in parts.

        The complete snapshot is received as `AssembledSnapshot`. Afterwards the loader holds the
        registers that the snapshot replaced.
        """
        return self._execution.new_state_loader()

    def state(self) -> dict[Key, Any]:
        """Return the registers after `committed · tentative`, once everything is executed."""
        return self._execution.state()

    def is_idle(self) -> bool:
        """True if everything on `committed · tentative` is executed."""
        return self._execution.is_idle() and not self._blocked
