"""The operator: adds and removes replicas of a cluster that runs, one change after the other.

It asks a member for a change, as any client would, and asks another one when nothing came of it for
a while. It sees that a change is made when some replica says so. A replica that is to be added is
started before or after the change, which must not matter; one that was removed is stopped as soon
as it says that it can be. After the end of all faults the change under way is brought to its end,
and no other one is begun.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from creekdb.errors import UsageError
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import Operation
from creekdb.simulation.faults.fault_types import Add, Remove
from creekdb.simulation.kernel.node import Node

RETRY_TICKS = 60
"""Until a change is asked for again."""


class MembershipOperator:
    def __init__(
        self,
        nodes: Sequence[Node],
        random: Random,
        *,
        ask: Callable[[int, Operation], None],
        start: Callable[[int], None],
        stop: Callable[[int], None],
    ) -> None:
        """`stop` is for good."""
        self._nodes = nodes
        self._random = random
        self._invoke = ask
        self._start = start
        self._stop = stop
        self._queued_changes: deque[Add | Remove] = deque()
        self._started_replicas: set[int] = set()
        self._ticks_since_request = RETRY_TICKS
        self._current_change: Add | Remove | None = None

    def request_change(self, change: Add | Remove) -> None:
        self._queued_changes.append(change)

    def cancel_queued(self) -> None:
        self._queued_changes.clear()

    def is_serving(self, replica: int) -> bool:
        """Is it up, does it know itself to be a member, and does it take part?"""
        found = self._nodes[replica].replica
        if found is None or found.awaited_members() is not None:
            return False
        return replica in found.configuration().replica_ids

    def pending_work(self) -> str | None:
        if self._current_change is not None:
            return f"the members are being changed: {self._current_change}"
        for node in self._nodes:
            if node.replica is not None and not self.is_serving(node.index):
                return f"replica {node.index} was not dismissed"
        return None

    def tick(self) -> None:
        latest = self._latest_configuration()
        for number in latest.former:
            node = self._nodes[number]
            if node.replica is not None and node.replica.can_shut_down():
                self._stop(number)
        change = self._current_change
        if change is None and self._queued_changes:
            change = self._current_change = self._queued_changes.popleft()
            self._ticks_since_request = RETRY_TICKS
        if change is None:
            return
        done = isinstance(change, Add) == (change.replica in latest.replica_ids)
        if isinstance(change, Add) and (done or self._random.random() < 0.05):
            self._start_new(change.replica)
            done = done and self.is_serving(change.replica)
        if done:
            self._current_change = None
            return
        self._ticks_since_request += 1
        if self._ticks_since_request > RETRY_TICKS:
            self._request(change)

    def _latest_configuration(self) -> Configuration:
        up = [node.replica for node in self._nodes if node.replica is not None]
        known = [replica.configuration() for replica in up]
        return max(known, key=lambda each: each.epoch, default=Configuration(0, ()))

    def _start_new(self, replica: int) -> None:
        if replica not in self._started_replicas:
            self._started_replicas.add(replica)
            self._start(replica)

    def _request(self, change: Add | Remove) -> None:
        members = [node.index for node in self._nodes if self.is_serving(node.index)]
        if not members:
            return
        asked = self._random.choice(members)
        replica = self._nodes[asked].replica
        assert replica is not None
        configuration = replica.configuration()
        self._ticks_since_request = 0
        try:
            if isinstance(change, Add):
                operation = configuration.add_operation(change.replica, f"address-{change.replica}")
            else:
                operation = configuration.remove_operation(change.replica)
        except UsageError:
            return  # this one knows already, or does not know enough
        self._invoke(asked, operation)
