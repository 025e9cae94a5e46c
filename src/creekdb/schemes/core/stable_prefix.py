"""What is settled: the beginning of `committed` that is executed, and never looked at again.

Beyond the paper. An instance of consensus delivers a batch, so `committed` has *boundaries* between
instances; the prefix up to the last boundary that is executed is settled. How its requests ended is
told then. It is what checkpoints hold, and its beginning is forgotten.
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
"""Requests that are remembered until there is a digest."""
TRUNCATE_MIN = 64


class InstanceBoundary(NamedTuple):
    """The instances below `instance` delivered the first `length` requests of `committed`."""

    instance: int
    length: int


class ExecutionProgress(ABC):
    """What a scheme tells of how far it has come."""

    @abstractmethod
    def executed_length(self) -> int:
        """How many requests, from the first of the order, are executed in their place."""

    @abstractmethod
    def stabilise_request(self, request: Request) -> Outcome:
        """Its place and its execution are final: forget how to undo it. Answers its outcome."""

    @abstractmethod
    def truncate_prefix(self, length: int) -> None:
        """The first `length` requests of `committed` are about to be forgotten."""

    @abstractmethod
    def stable_items(self) -> Iterable[tuple[Key, Any]]:
        """What differs from the base of the data type after the settled requests, in key order;
        with `ABSENT` for what was deleted."""

    def checkpoint_cursor(self) -> RegisterCursor | None:
        """The same, to be gone through in time; None if only `settled_state` can tell."""
        return None

    @abstractmethod
    def register_count(self) -> int: ...

    def digest(self) -> int | None:
        """Of the state that the settled requests left; None if there is none just now."""
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
        answers: Responses,
        outbox: Outbox,
        executing: ExecutionProgress,
    ) -> None:
        self._settings = settings
        self._order = order
        self._responses = answers
        self._outbox = outbox
        self._progress = executing
        self.instance = 0
        self.length = 0
        """What the instances below `instance` delivered: so many requests of `committed`."""
        self._timestamp = 0
        """The latest of them."""
        self._boundaries: deque[InstanceBoundary] = deque()
        """Those to come."""
        self._checkpoint_length = 0
        self._digest_backlog: list[Request] = []
        """What was settled since the last digest."""

    def advance(self, learner: Learner) -> None:
        """Note the boundary, if CAB stands at one, and settle what is executed up to one."""
        boundaries = self._boundaries
        newest = boundaries[-1].instance if boundaries else self.instance
        if learner.delivered > newest and learner.is_at_batch_boundary():
            boundaries.append(InstanceBoundary(learner.delivered, self._order.length))
        if boundaries:
            done = self._progress.executed_length()
            while boundaries and boundaries[0].length <= done:
                self._stabilise(boundaries.popleft())

    def take_checkpoint_due(self) -> bool:
        """Is it time for an image, for the first time?"""
        # A checkpoint costs as much as there are registers: so many requests pay for it. A draft,
        # which holds up nobody, is worth it earlier: each request may bring a register or two.
        since_image = self.length - self._checkpoint_length
        if since_image < self._settings.checkpoint_every:
            return False
        count = self._progress.register_count()
        if since_image < (count // 2 if self._settings.drafts else count):
            return False
        self._checkpoint_length = self.length
        return True

    def checkpoint(self) -> Checkpoint:
        settled = tuple(self._progress.stable_items())
        return msgspec.structs.replace(
            self._checkpoint_header(),
            state=tuple([item for item in settled if item[1] is not ABSENT]),
            deleted=tuple([key for key, value in settled if value is ABSENT]),
        )

    def lazy_checkpoint(self) -> LazyCheckpoint:
        registers = self._progress.checkpoint_cursor()
        return (
            lazy_checkpoint_of(self.checkpoint())
            if registers is None
            else LazyCheckpoint(self._checkpoint_header(), registers)
        )

    def restart_from(self, checkpoint: Checkpoint) -> None:
        """What it holds is settled, and loaded."""
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
        order, executing = self._order, self._progress
        first = order.first_position
        settled = order.committed[self.length - first : boundary.length - first]
        every = self._settings.digest_every
        for length, request in enumerate(settled, self.length + 1):
            outcome = executing.stabilise_request(request)
            if every:
                self._digest_backlog.append(request)
                if length % every == 0 or length == boundary.length:
                    self._emit_digest(length)
            self._timestamp = max(self._timestamp, request.timestamp)
            self._responses.record_stable(boundary.instance, request, outcome)
        self.instance, self.length = boundary
        # Lists lose their beginning in large pieces, so that a request's share of it is small.
        spare = boundary.length - first
        if spare >= TRUNCATE_MIN and spare * 2 >= len(order.committed):
            executing.truncate_prefix(boundary.length)
            order.truncate_prefix(boundary.length)

    def _emit_digest(self, length: int) -> None:
        digest = self._progress.digest()
        if digest is not None:
            requests, self._digest_backlog = tuple(self._digest_backlog), []
            self._outbox.digests.append(Digest(length, digest, requests))
        elif len(self._digest_backlog) > DIGEST_BACKLOG_MAX:
            self._digest_backlog = []
