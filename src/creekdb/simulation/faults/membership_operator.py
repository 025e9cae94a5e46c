"""Simulated operator: adds and removes replicas of a running cluster, one change at a time.

The operator issues a change at a member like any client, and retries at another member if the
change does not take effect for a while. A change is complete when the configuration of some replica
shows it. The operator starts an added replica before or after the change, which must not matter. It
stops a removed replica once that replica can shut down. At the end of the load phase, the operator
completes the current change and cancels the queued ones.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from creekdb.errors import UsageError
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import Operation
from creekdb.simulation.faults.fault_types import Add, MemberChange
from creekdb.simulation.kernel.node import Node

RETRY_TICKS = 60
"""Number of ticks after which a change is issued again."""


class MembershipOperator:
    def __init__(
        self,
        nodes: Sequence[Node],
        random: Random,
        *,
        invoke: Callable[[int, Operation], None],
        start: Callable[[int], None],
        stop: Callable[[int], None],
    ) -> None:
        """Create an operator. `stop` stops a replica permanently."""
        self._nodes = nodes
        self._random = random
        self._invoke = invoke
        self._start = start
        self._stop = stop
        self.queued_changes: deque[MemberChange] = deque()
        self._started_replicas: set[int] = set()
        self._ticks_since_request = RETRY_TICKS
        self._current_change: MemberChange | None = None

    def is_serving(self, replica: int) -> bool:
        """True if the replica is up, has joined, and has itself in its configuration."""
        member = self._nodes[replica].replica
        if member is None or member.view.awaited_members() is not None:
            return False
        return replica in member.view.configuration().replica_ids

    def pending_work(self) -> str | None:
        if self._current_change is not None:
            return f"a membership change is in progress: {self._current_change}"
        for node in self._nodes:
            if node.replica is not None and not self.is_serving(node.index):
                return f"replica {node.index} was removed but has not shut down"
        return None

    def tick(self) -> None:
        up_replicas = [node.replica for node in self._nodes if node.replica is not None]
        configurations = [replica.view.configuration() for replica in up_replicas]
        latest = max(configurations, key=lambda each: each.epoch, default=Configuration(0, ()))
        for number in latest.former:
            node = self._nodes[number]
            if node.replica is not None and node.replica.view.can_shut_down():
                self._stop(number)
        change = self._current_change
        if change is None and self.queued_changes:
            change = self._current_change = self.queued_changes.popleft()
            self._ticks_since_request = RETRY_TICKS
        if change is None:
            return
        is_complete = isinstance(change, Add) == (change.replica in latest.replica_ids)
        if isinstance(change, Add) and (is_complete or self._random.random() < 0.05):
            if change.replica not in self._started_replicas:
                self._started_replicas.add(change.replica)
                self._start(change.replica)
            is_complete = is_complete and self.is_serving(change.replica)
        if is_complete:
            self._current_change = None
            return
        self._ticks_since_request += 1
        if self._ticks_since_request > RETRY_TICKS:
            self._request(change)

    def _request(self, change: MemberChange) -> None:
        members = [node.index for node in self._nodes if self.is_serving(node.index)]
        if not members:
            return
        contact = self._random.choice(members)
        replica = self._nodes[contact].replica
        assert replica is not None
        configuration = replica.view.configuration()
        self._ticks_since_request = 0
        try:
            if isinstance(change, Add):
                operation = configuration.add_operation(change.replica, f"address-{change.replica}")
            else:
                operation = configuration.remove_operation(change.replica)
        except UsageError:
            return  # the member has already applied the change, or its configuration is too old
        self._invoke(contact, operation)
