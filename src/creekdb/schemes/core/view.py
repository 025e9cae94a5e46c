"""State of a replica for observers, read from its parts."""

from collections.abc import Collection, Iterator
from typing import Any

from creekdb.execution.keys import CollationKey
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from creekdb.schemes.core.execution import Execution, ReplicaVariables
from creekdb.schemes.core.ordering import Ordering
from creekdb.schemes.core.stable_prefix import StablePrefix


class PartsView:
    """Implementation of `ReplicaView`, which documents the methods."""

    def __init__(
        self,
        variables: ReplicaVariables,
        ordering: Ordering,
        stable_prefix: StablePrefix,
        execution: Execution,
        blocked: Collection[object] = (),
    ) -> None:
        """`blocked`: executed requests whose responses wait."""
        self.index = variables.index
        self.probes = variables.probes
        self.rejected = ordering.stack.rejected
        self.drift_us = ordering.stack.drift_us
        self._stack = ordering.stack
        self._order = variables.order
        self._responses = variables.responses
        self._stable_prefix = stable_prefix
        self._execution = execution
        self._blocked = blocked

    # --- members ------------------------------------------------------------------------------

    def awaited_members(self) -> tuple[int, ...] | None:
        recovery = self._stack.disk_loss_recovery
        return None if recovery is None else recovery.awaited_members()

    def must_be_replaced(self) -> bool:
        return self._stack.must_be_replaced

    def leader(self) -> int | None:
        return self._stack.omega.leader

    def configuration(self) -> Configuration:
        return self._stack.settings.configuration

    def can_shut_down(self) -> bool:
        return self._stack.can_shut_down

    # --- order --------------------------------------------------------------------------------

    def has_request(self, id: Dot) -> bool:
        return id in self._order.committed_ids or self._order.find_tentative(id) is not None

    def last_issued(self) -> Dot:
        return Dot(self.index, self._stack.reliable_broadcast.received.last(self.index))

    def has_pending_response(self, id: Dot) -> bool:
        return self._responses.has_pending(id)

    def committed_length(self) -> int:
        return self._order.length

    def committed_ids(self) -> tuple[Dot, ...]:
        return tuple(request.id for request in self._order.committed)

    def last_committed(self, limit: int) -> tuple[Request, ...]:
        return tuple(self._order.committed[-limit:])

    def tentative_length(self) -> int:
        return self._order.tentative_length

    def tentative_ids(self) -> tuple[Dot, ...]:
        return tuple(request.id for request in self._order.tentative())

    def last_tentative(self, limit: int) -> tuple[Request, ...]:
        return tuple(self._order.last_tentative(limit))

    def stable_instances(self) -> dict[int, int]:
        learner, peers = self._stack.cab.learner, self._stack.settings.peers(self.index)
        return {self.index: self._stable_prefix.instance} | {
            peer: learner.stable_instance_of(peer) for peer in peers
        }

    # --- execution ----------------------------------------------------------------------------

    def is_visible(self, id: Dot) -> bool:
        return self.has_request(id) and self._execution.is_visible(id)

    def readable_lengths(self) -> range:
        stable_length = self._stable_prefix.length
        return range(stable_length, self._execution.readable_length(stable_length) + 1)

    def committed_items(
        self, length: int, start: CollationKey, stop: CollationKey
    ) -> Iterator[tuple[Key, Any]]:
        return self._execution.committed_items(length, start, stop)

    def state(self) -> dict[Key, Any]:
        return self._execution.state()

    def queue_delay_ticks(self) -> int:
        return self._execution.queue_delay_ticks()

    def is_idle(self) -> bool:
        return self._execution.is_idle() and not self._blocked
