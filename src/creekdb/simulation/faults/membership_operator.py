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

PATIENCE_TICKS = 60
"""Until a change is asked for again."""


class Operator:
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
        self._ask = ask
        self._start = start
        self._stop = stop
        self._wanted: deque[Add | Remove] = deque()
        self._started: set[int] = set()
        self._asked_ticks = PATIENCE_TICKS
        self._under_way: Add | Remove | None = None

    def want(self, change: Add | Remove) -> None:
        self._wanted.append(change)

    def finish(self) -> None:
        self._wanted.clear()

    def serves(self, replica: int) -> bool:
        """Is it up, does it know itself to be a member, and does it take part?"""
        found = self._nodes[replica].replica
        if found is None or found.waits_for() is not None:
            return False
        return replica in found.configuration().numbers

    def unsettled(self) -> str | None:
        if self._under_way is not None:
            return f"the members are being changed: {self._under_way}"
        for node in self._nodes:
            if node.replica is not None and not self.serves(node.index):
                return f"replica {node.index} was not dismissed"
        return None

    def tick(self) -> None:
        latest = self._latest()
        for number in latest.former:
            node = self._nodes[number]
            if node.replica is not None and node.replica.is_dismissed():
                self._stop(number)
        change = self._under_way
        if change is None and self._wanted:
            change = self._under_way = self._wanted.popleft()
            self._asked_ticks = PATIENCE_TICKS
        if change is None:
            return
        done = isinstance(change, Add) == (change.replica in latest.numbers)
        if isinstance(change, Add) and (done or self._random.random() < 0.05):
            self._start_new(change.replica)
            done = done and self.serves(change.replica)
        if done:
            self._under_way = None
            return
        self._asked_ticks += 1
        if self._asked_ticks > PATIENCE_TICKS:
            self._ask_for(change)

    def _latest(self) -> Configuration:
        up = [node.replica for node in self._nodes if node.replica is not None]
        known = [replica.configuration() for replica in up]
        return max(known, key=lambda each: each.epoch, default=Configuration(0, ()))

    def _start_new(self, replica: int) -> None:
        if replica not in self._started:
            self._started.add(replica)
            self._start(replica)

    def _ask_for(self, change: Add | Remove) -> None:
        members = [node.index for node in self._nodes if self.serves(node.index)]
        if not members:
            return
        asked = self._random.choice(members)
        replica = self._nodes[asked].replica
        assert replica is not None
        configuration = replica.configuration()
        self._asked_ticks = 0
        try:
            if isinstance(change, Add):
                operation = configuration.adding(change.replica, f"address-{change.replica}")
            else:
                operation = configuration.removing(change.replica)
        except UsageError:
            return  # this one knows already, or does not know enough
        self._ask(asked, operation)
