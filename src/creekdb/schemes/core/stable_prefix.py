"""Stable prefix: the executed beginning of `committed`, which never changes again.

Beyond the paper. An instance of consensus delivers a batch, so `committed` has *boundaries* between
instances. The prefix up to the last executed boundary is stable. The requests that become stable
get their final responses. Checkpoints hold the state after this prefix, and its beginning is
truncated.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from creekdb.execution.transaction import ABSENT
from creekdb.protocol.checkpoint.stream import LazyCheckpoint, RegisterCursor, lazy_checkpoint_of
from creekdb.protocol.consensus.learner import Learner
from creekdb.protocol.effects import Digest
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.order import RequestOrder
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.core.responses import Responses

DIGEST_BACKLOG_MAX = 4096
"""Number of requests that are retained until the next digest."""
TRUNCATE_MIN = 64


class InstanceBoundary(NamedTuple):
    """The instances below `instance` delivered the first `length` requests of `committed`."""

    instance: int
    length: int


class ExecutionProgress(ABC):
    """Progress of a scheme's execution, as the stable prefix requires it."""

    @abstractmethod
    def executed_length(self) -> int:
        """Return the length of the longest prefix of the order that is executed in place."""

    @abstractmethod
    def stabilise_request(self, request: Request) -> Outcome:
        """Discard the undo information of a request whose position is final. Return its outcome."""

    @abstractmethod
    def truncate_prefix(self, length: int) -> None:
        """Prepare for the truncation of the first `length` requests of `committed`."""

    @abstractmethod
    def stable_items(self) -> Iterable[tuple[Key, Any]]:
        """Return the registers that differ from the base of the data type after the stable prefix.
        They are in key order, with `ABSENT` for deleted registers."""

    def checkpoint_cursor(self) -> RegisterCursor | None:
        """Return a lazy cursor over `stable_items`, or None if the scheme has only the former."""
        return None

    @abstractmethod
    def register_count(self) -> int: ...

    def digest(self) -> int | None:
        """Return the digest of the state after the stable prefix, or None if there is none now."""
        return None


class StablePrefix:
    __slots__ = (
        "_boundaries",
        "_checkpoint_length",
        "_digest_backlog",
        "_order",
        "_outbox",
        "_progress",
        "_responses",
        "_settings",
        "_timestamp",
        "instance",
        "length",
    )

    def __init__(
        self,
        settings: Settings,
        order: RequestOrder,
        responses: Responses,
        outbox: Outbox,
        progress: ExecutionProgress,
    ) -> None:
        self._settings = settings
        self._order = order
        self._responses = responses
        self._outbox = outbox
        self._progress = progress
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

    def advance(self, learner: Learner) -> None:
        """Record the boundary, if CAB is at one, and stabilise up to the last executed boundary."""
        boundaries = self._boundaries
        newest = boundaries[-1].instance if boundaries else self.instance
        if learner.delivered > newest and learner.is_at_batch_boundary():
            boundaries.append(InstanceBoundary(learner.delivered, self._order.length))
        if boundaries:
            executed_length = self._progress.executed_length()
            while boundaries and boundaries[0].length <= executed_length:
                self._stabilise(boundaries.popleft())

    def take_checkpoint_due(self) -> bool:
        """Return True, once per checkpoint, if a checkpoint of the journal is due."""
        # A checkpoint costs one unit per register: that many requests must have paid for it. A
        # streamed checkpoint blocks nothing and is worth it earlier, since each request may add a
        # register or two.
        since_checkpoint = self.length - self._checkpoint_length
        if since_checkpoint < self._settings.checkpoint_every:
            return False
        count = self._progress.register_count()
        if since_checkpoint < (count // 2 if self._settings.drafts else count):
            return False
        self._checkpoint_length = self.length
        return True

    def checkpoint(self) -> Checkpoint:
        items = tuple(self._progress.stable_items())
        return msgspec.structs.replace(
            self._checkpoint_header(),
            state=tuple([item for item in items if item[1] is not ABSENT]),
            deleted=tuple([key for key, value in items if value is ABSENT]),
        )

    def lazy_checkpoint(self) -> LazyCheckpoint:
        registers = self._progress.checkpoint_cursor()
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
        order, progress = self._order, self._progress
        first = order.first_position
        requests = order.committed[self.length - first : boundary.length - first]
        digest_interval = self._settings.digest_every
        for length, request in enumerate(requests, self.length + 1):
            outcome = progress.stabilise_request(request)
            if digest_interval:
                self._digest_backlog.append(request)
                if length % digest_interval == 0 or length == boundary.length:
                    self._emit_digest(length)
            self._timestamp = max(self._timestamp, request.timestamp)
            self._responses.record_stable(boundary.instance, request, outcome)
        self.instance, self.length = boundary
        # Lists are truncated in large pieces, so that the cost per request is small.
        stable_count = boundary.length - first
        if stable_count >= TRUNCATE_MIN and stable_count * 2 >= len(order.committed):
            progress.truncate_prefix(boundary.length)
            order.truncate_prefix(boundary.length)

    def _emit_digest(self, length: int) -> None:
        digest = self._progress.digest()
        if digest is not None:
            requests, self._digest_backlog = tuple(self._digest_backlog), []
            self._outbox.digests.append(Digest(length, digest, requests))
        elif len(self._digest_backlog) > DIGEST_BACKLOG_MAX:
            self._digest_backlog = []
