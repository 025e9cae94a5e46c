"""Queues of strong requests that await their proposal by the leader.

An `ArrivalQueue` proposes requests in the order of their arrival, without delay.

A `DeadlineQueue`, for `late_contexts`, proposes them in the order of their timestamps, each behind
its cut (`creekdb.protocol.broadcast.cuts`). A request that was issued earlier at another replica
may still be in flight when a strong request reaches the leader. So the queue holds each strong
request until a deadline, at which all requests with lower timestamps have probably arrived. The
deadline follows measured delays, and passes at the latest after `hold_us_max` and `hold_ticks_max`.
"""

from collections import deque
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from creekdb.protocol.application import DeliveredRequests
from creekdb.protocol.consensus.delays import DelayEstimates
from creekdb.protocol.consensus.fast_quorums import FastPathControl
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.shared_variables import SharedVariables


class ProposalQueue(Protocol):
    def add(self, id: Dot) -> None:
        """Add a strong request whose predicate holds."""

    def clear(self) -> None: ...

    def has_due(self) -> bool:
        """True if a request may be proposed now."""

    def take_batch(self, limit: int) -> Batch:
        """Take at most `limit` strong requests that may be proposed now."""


class ArrivalQueue:
    def __init__(self) -> None:
        self._ids: deque[Dot] = deque()

    def add(self, id: Dot) -> None:
        self._ids.append(id)

    def clear(self) -> None:
        self._ids = deque()

    def has_due(self) -> bool:
        return bool(self._ids)

    def take_batch(self, limit: int) -> Batch:
        ids = self._ids
        return tuple([ids.popleft() for _ in range(min(len(ids), limit))])


class _HeldRequest(NamedTuple):
    timestamp: int
    id: Dot
    deadline_us: int
    """Local clock at which the request may be proposed."""
    deadline_ticks: int
    """Tick at which the request may be proposed, whatever the clock shows."""


class DeadlineQueue:
    def __init__(
        self,
        shared: SharedVariables,
        requests: DeliveredRequests,
        delays: DelayEstimates,
        control: FastPathControl | None = None,
    ) -> None:
        """`control` is that of the fast path; None if this queue is not that of the leader."""
        self._shared = shared
        self._requests = requests
        self._delays = delays
        self._control = control
        self._heap: list[_HeldRequest] = []
        self._wake_at: int | None = None
        """Clock of the wake that was requested from the driver, or None."""

    def add(self, id: Dot) -> None:
        shared, timestamp = self._shared, self._requests.timestamp_of(id)
        control = self._control
        must_hold = shared.settings.late_contexts or control is None or control.is_on
        hold_us = self._delays.hold_us() if must_hold else 0
        deadline_us = min(timestamp, shared.now) + hold_us
        deadline_ticks = shared.ticks + shared.settings.hold_ticks_max
        if deadline_us > shared.now:
            shared.probes.hit(Probe.PROPOSAL_HELD)
        if self._heap and (timestamp, id) < self._heap[0][:2]:
            shared.probes.hit(Probe.PROPOSAL_OVERTAKEN)
        heappush(self._heap, _HeldRequest(timestamp, id, deadline_us, deadline_ticks))

    def clear(self) -> None:
        self._heap = []
        self._wake_at = None

    def has_due(self) -> bool:
        while self._heap and self._requests.is_committed(self._heap[0].id):
            self._shared.probes.hit(Probe.DECIDED_WHILE_HELD)
            heappop(self._heap)  # another leader had proposed it
        if not self._heap:
            return False
        first, shared = self._heap[0], self._shared
        if first.deadline_us <= shared.now:
            return True
        return first.deadline_ticks <= shared.ticks

    def take_batch(self, limit: int) -> Batch:
        """Take strong requests, each behind the part of its cut that the batch does not have."""
        batch: dict[Dot, None] = {}
        strong_count = 0
        settings = self._shared.settings
        has_cuts = settings.late_contexts or not settings.fast_path
        for _ in range(limit):
            if not self.has_due():
                break
            id = heappop(self._heap).id
            for dot in self._requests.cut_before(id) if has_cuts else ():
                batch[dot] = None
            batch[id] = None
            strong_count += 1
        if len(batch) > strong_count:
            self._shared.probes.hit(Probe.CONTEXT_EXTENDED)
        return tuple(batch)

    def request_wake(self) -> None:
        """Request a wake at the deadline of the first request, once per deadline."""
        if self.has_due() or not self._heap:
            return
        deadline_us = self._heap[0].deadline_us
        if deadline_us != self._wake_at:
            self._wake_at = self._shared.outbox.wake_at = deadline_us

    def on_wake(self) -> None:
        """Drop the wake that has just happened, so that a clock that went back gets another."""
        self._wake_at = None
