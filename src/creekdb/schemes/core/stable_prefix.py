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
from creekdb.protocol.checkpoint.stream import Draft, Registers, draft_of
from creekdb.protocol.consensus.learner import Learner
from creekdb.protocol.effects import Digest
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.order import Order
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.core.responses import Answers

UNDIGESTED_LIMIT = 4096
"""Requests that are remembered until there is a digest."""
SUM_UP_AT_LEAST = 64


class Boundary(NamedTuple):
    """The instances below `instance` delivered the first `length` requests of `committed`."""

    instance: int
    length: int


class Executing(ABC):
    """What a scheme tells of how far it has come."""

    @abstractmethod
    def executed_length(self) -> int:
        """How many requests, from the first of the order, are executed in their place."""

    @abstractmethod
    def settle_request(self, request: Request) -> Outcome:
        """Its place and its execution are final: forget how to undo it. Answers its outcome."""

    @abstractmethod
    def sum_up(self, length: int) -> None:
        """The first `length` requests of `committed` are about to be forgotten."""

    @abstractmethod
    def settled_state(self) -> Iterable[tuple[Key, Any]]:
        """What differs from the base of the data type after the settled requests, in key order;
        with `ABSENT` for what was deleted."""

    def registers(self) -> Registers | None:
        """The same, to be gone through in time; None if only `settled_state` can tell."""
        return None

    @abstractmethod
    def register_count(self) -> int: ...

    def digest(self) -> int | None:
        """Of the state that the settled requests left; None if there is none just now."""
        return None


class Settled:
    __slots__ = (
        "_answers",
        "_boundaries",
        "_executing",
        "_image_length",
        "_order",
        "_outbox",
        "_settings",
        "_timestamp",
        "_undigested",
        "instance",
        "length",
    )

    def __init__(
        self,
        settings: Settings,
        order: Order,
        answers: Answers,
        outbox: Outbox,
        executing: Executing,
    ) -> None:
        self._settings = settings
        self._order = order
        self._answers = answers
        self._outbox = outbox
        self._executing = executing
        self.instance = 0
        self.length = 0
        """What the instances below `instance` delivered: so many requests of `committed`."""
        self._timestamp = 0
        """The latest of them."""
        self._boundaries: deque[Boundary] = deque()
        """Those to come."""
        self._image_length = 0
        self._undigested: list[Request] = []
        """What was settled since the last digest."""

    def advance(self, learner: Learner) -> None:
        """Note the boundary, if CAB stands at one, and settle what is executed up to one."""
        boundaries = self._boundaries
        newest = boundaries[-1].instance if boundaries else self.instance
        if learner.delivered > newest and learner.at_boundary():
            boundaries.append(Boundary(learner.delivered, self._order.length))
        if boundaries:
            done = self._executing.executed_length()
            while boundaries and boundaries[0].length <= done:
                self._settle(boundaries.popleft())

    def take_image_due(self) -> bool:
        """Is it time for an image, for the first time?"""
        # A checkpoint costs as much as there are registers: so many requests pay for it. A draft,
        # which holds up nobody, is worth it earlier: each request may bring a register or two.
        since_image = self.length - self._image_length
        if since_image < self._settings.checkpoint_every:
            return False
        count = self._executing.register_count()
        if since_image < (count // 2 if self._settings.drafts else count):
            return False
        self._image_length = self.length
        return True

    def checkpoint(self) -> Checkpoint:
        settled = tuple(self._executing.settled_state())
        return msgspec.structs.replace(
            self._bare_checkpoint(),
            state=tuple([item for item in settled if item[1] is not ABSENT]),
            deleted=tuple([key for key, value in settled if value is ABSENT]),
        )

    def draft(self) -> Draft:
        registers = self._executing.registers()
        return (
            draft_of(self.checkpoint())
            if registers is None
            else Draft(self._bare_checkpoint(), registers)
        )

    def begin_with(self, checkpoint: Checkpoint) -> None:
        """What it holds is settled, and loaded."""
        self._boundaries.clear()
        self.instance, self.length = checkpoint.instance, checkpoint.length
        self._timestamp = max(self._timestamp, checkpoint.timestamp)
        self._image_length = checkpoint.length
        self._undigested = []
        self._note_digest(checkpoint.length)

    def _bare_checkpoint(self) -> Checkpoint:
        return Checkpoint(
            instance=self.instance,
            length=self.length,
            ids=self._order.ids_before(self.length),
            timestamp=self._timestamp,
            state=(),
            outcomes=self._answers.untold.outcomes(),
        )

    def _settle(self, boundary: Boundary) -> None:
        order, executing = self._order, self._executing
        first = order.first
        settled = order.committed[self.length - first : boundary.length - first]
        every = self._settings.digest_every
        for length, request in enumerate(settled, self.length + 1):
            outcome = executing.settle_request(request)
            if every:
                self._undigested.append(request)
                if length % every == 0 or length == boundary.length:
                    self._note_digest(length)
            self._timestamp = max(self._timestamp, request.timestamp)
            self._answers.settled(boundary.instance, request, outcome)
        self.instance, self.length = boundary
        # Lists lose their beginning in large pieces, so that a request's share of it is small.
        spare = boundary.length - first
        if spare >= SUM_UP_AT_LEAST and spare * 2 >= len(order.committed):
            executing.sum_up(boundary.length)
            order.sum_up(boundary.length)

    def _note_digest(self, length: int) -> None:
        digest = self._executing.digest()
        if digest is not None:
            requests, self._undigested = tuple(self._undigested), []
            self._outbox.digests.append(Digest(length, digest, requests))
        elif len(self._undigested) > UNDIGESTED_LIMIT:
            self._undigested = []
