"""Stable prefix: the executed beginning of `committed`, which never changes again.

Beyond the paper. An instance of consensus delivers a batch, so `committed` has *boundaries* between
instances. The prefix up to the last executed boundary is stable. The requests that become stable
get their final responses. Checkpoints hold the state after this prefix, and its beginning is
truncated.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from creekdb.execution.transaction import ABSENT
from creekdb.protocol.checkpoint.stream import LazyCheckpoint, lazy_checkpoint_of
from creekdb.protocol.effects import ChangesSkipped, Digest, ObservedOrder, StableChange
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Request
from creekdb.protocol.stack import ProtocolStack
from creekdb.schemes.core.execution import Execution, ReplicaVariables

DIGEST_BACKLOG_MAX = 4096
"""Number of requests that are retained until the next digest."""
TRUNCATE_MIN = 64


class InstanceBoundary(NamedTuple):
    """The instances below `instance` delivered the first `length` requests of `committed`."""

    instance: int
    length: int


class StablePrefix:
    def __init__(self, variables: ReplicaVariables, execution: Execution) -> None:
        self._settings = variables.settings
        self._order = variables.order
        self._responses = variables.responses
        self._outbox = variables.outbox
        self._execution = execution
        self.instance = 0
        self.length = 0
        """Number of requests of `committed` that the instances below `instance` delivered."""
        self._timestamp = 0
        """Latest timestamp in the stable prefix."""
        self._boundaries: deque[InstanceBoundary] = deque()
        """Boundaries after the stable prefix."""
        self._checkpoint_length = 0
        self._digest_backlog: list[Request] = []
        """Requests that became stable since the last digest."""

    def advance(self, stack: ProtocolStack) -> None:
        """Record the boundary, if CAB is at one, and stabilise up to the last executed boundary.
        Then write a checkpoint, if one is due."""
        learner, boundaries = stack.cab.learner, self._boundaries
        newest = boundaries[-1].instance if boundaries else self.instance
        if learner.delivered > newest and learner.is_at_batch_boundary():
            boundaries.append(InstanceBoundary(learner.delivered, self._order.length))
        if boundaries:
            executed_length = self._execution.executed_length()
            while boundaries and boundaries[0].length <= executed_length:
                self._stabilise(boundaries.popleft())
        if self._take_checkpoint_due():
            if self._settings.drafts:
                stack.compact(*self.lazy_checkpoint())
            else:
                stack.compact(self.checkpoint())

    def _take_checkpoint_due(self) -> bool:
        """Return True, once per checkpoint, if a checkpoint of the journal is due."""
        # A checkpoint costs one unit per register: that many requests must have paid for it. A
        # streamed checkpoint blocks nothing and is worth it earlier, since each request may add a
        # register or two.
        since_checkpoint = self.length - self._checkpoint_length
        if since_checkpoint < self._settings.checkpoint_every:
            return False
        count = self._execution.register_count()
        if since_checkpoint < (count // 2 if self._settings.drafts else count):
            return False
        self._checkpoint_length = self.length
        return True

    def observe(self, request: Request) -> ObservedOrder | None:
        """Return the stable length and the executed requests that precede the request just now."""
        if not self._settings.record_orders:
            return None
        executed = self._execution.executed_before(request, self.length)
        return ObservedOrder(self.length, tuple(executed))

    # --- `CheckpointSource` -------------------------------------------------------------------

    def live_requests(self) -> Iterator[Request]:
        order = self._order
        yield from islice(order.committed, self.length - order.first_position, None)
        yield from order.tentative

    def checkpoint(self) -> Checkpoint:
        items = tuple(self._execution.stable_items())
        return msgspec.structs.replace(
            self._checkpoint_header(),
            state=tuple([item for item in items if item[1] is not ABSENT]),
            deleted=tuple([key for key, value in items if value is ABSENT]),
        )

    def lazy_checkpoint(self) -> LazyCheckpoint:
        registers = self._execution.checkpoint_cursor()
        return (
            lazy_checkpoint_of(self.checkpoint())
            if registers is None
            else LazyCheckpoint(self._checkpoint_header(), registers)
        )

    def restart_from(self, checkpoint: Checkpoint) -> None:
        """Continue after the prefix of a checkpoint that has been loaded."""
        self._boundaries.clear()
        self.instance, self.length = checkpoint.instance, checkpoint.length
        self._timestamp = max(self._timestamp, checkpoint.timestamp)
        self._checkpoint_length = checkpoint.length
        self._digest_backlog = []
        self._emit_digest(checkpoint.length)
        if self._settings.report_changes:
            self._outbox.changes.append(ChangesSkipped(checkpoint.length))
        self._responses.apply_checkpoint(checkpoint)

    def _checkpoint_header(self) -> Checkpoint:
        return Checkpoint(
            instance=self.instance,
            length=self.length,
            ids=self._order.ids_before(self.length),
            timestamp=self._timestamp,
            state=(),
            outcomes=self._responses.retained.outcomes(),
        )

    def _stabilise(self, boundary: InstanceBoundary) -> None:
        order, execution = self._order, self._execution
        first = order.first_position
        requests = order.committed[self.length - first : boundary.length - first]
        digest_interval = self._settings.digest_every
        report_changes = self._settings.report_changes
        for length, request in enumerate(requests, self.length + 1):
            if report_changes:
                outcome, writes, before = execution.stabilise_with_writes(
                    request, report_changes > 1
                )
            else:
                outcome = execution.stabilise_request(request)
            if digest_interval:
                self._digest_backlog.append(request)
                if length % digest_interval == 0 or length == boundary.length:
                    self._emit_digest(length)
            self._timestamp = max(self._timestamp, request.timestamp)
            changed = self._responses.record_stable(boundary.instance, request, outcome)
            if report_changes:
                self._outbox.changes.append(
                    StableChange(length, request, outcome, changed, writes, before)
                )
        self.instance, self.length = boundary
        # Lists are truncated in large pieces, so that the cost per request is small.
        stable_count = boundary.length - first
        if stable_count >= TRUNCATE_MIN and stable_count * 2 >= len(order.committed):
            execution.truncate_prefix(boundary.length)
            order.truncate_prefix(boundary.length)

    def _emit_digest(self, length: int) -> None:
        digest = self._execution.digest()
        if digest is not None:
            requests, self._digest_backlog = tuple(self._digest_backlog), []
            self._outbox.digests.append(Digest(length, digest, requests))
        elif len(self._digest_backlog) > DIGEST_BACKLOG_MAX:
            self._digest_backlog = []
