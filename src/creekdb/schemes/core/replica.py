"""The contract between a replica and its driver: the simulator or a live server.

A replica is a deterministic state machine without I/O. A driver feeds it inputs, one at a time,
takes the effects after each, and carries them out (`creekdb.protocol.effects` says with which
obligations). Nothing else passes between the two, so a replica cannot tell which driver it has.

`now` is the local wall clock in microseconds. It may be wrong, drift and jump: it only ever
influences the timestamps of requests. `tick` comes at a steady beat, however the clock behaves.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from creekdb.execution.keys import CollationKey
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import IncomingMessage, LazyCheckpoint, RegisterLoader
from creekdb.protocol.effects import Effects, Task
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Record
from creekdb.protocol.probes import Probes
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key


class Replica(Protocol):
    index: int
    guarantees: SchemeGuarantees
    """The same at every replica."""
    probes: Probes
    rejected: dict[str, int]
    """Malformed or foreign inputs, counted by reason; none of them changed any other state."""
    drift_us: dict[int, int]
    """How far ahead each replica's clock has been seen, where that exceeded the limit."""

    def recover(self, records: Iterable[Record]) -> None:
        """Take up where the durable `records` left off. At most once, before any other input."""

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        """`after`: requests that have arrived here. A tentative answer rests on them, as on what
        the session did before."""

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        """Does it need neither records nor messages to be answered?"""

    def new_state_loader(self) -> RegisterLoader:
        """Where to put the registers of a snapshot that comes in parts: it is received as
        `AssembledSnapshot` when all are there. In the end it holds what they replaced."""

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None: ...

    def tick(self, now: int) -> None: ...

    def run(self, task: Task) -> ExecutionResult:
        """Carry out a task without changing the replica: between its hand-out and `completed`."""

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None: ...

    def take_tasks(self) -> tuple[Task, ...]:
        """Before the other effects: for a driver that has time for one more, and carries out the
        rest with what comes of it."""

    def take_effects(self) -> Effects: ...

    def has_request(self, id: Dot) -> bool:
        """Has the request arrived here, and has it taken its place?"""

    def is_visible(self, id: Dot) -> bool:
        """Has it, and does whatever is issued here from now on, and answered, rest on it?"""

    def last_issued(self) -> Dot:
        """The last request that was issued here, in whichever life; number 0 if none was."""

    def has_pending_response(self, id: Dot) -> bool:
        """Will there be more answers to this request, which was issued here?"""

    def committed_length(self) -> int: ...

    def awaited_members(self) -> tuple[int, ...] | None:
        """None when it takes part. One that began with nothing does not, and must not be asked to
        `invoke`, until these members have told what they know; or, if there are none, until it has
        caught up with what they told."""

    def leader(self) -> int | None:
        """Whom this replica trusts to lead at the moment."""

    def tentative_length(self) -> int: ...

    def configuration(self) -> Configuration:
        """The members, as far as this replica knows."""

    def can_shut_down(self) -> bool:
        """Was it removed, and is it no longer needed to tell the others? Then it can be stopped."""

    def tentative_ids(self) -> tuple[Dot, ...]: ...

    def committed_ids(self) -> tuple[Dot, ...]:
        """The part of `committed` that is not summed up in a checkpoint."""

    def last_committed(self, most: int) -> tuple[Request, ...]:
        """The end of that part: at most so many."""

    def last_tentative(self, most: int) -> tuple[Request, ...]:
        """The end of `tentative`: at most so many."""

    def readable_lengths(self) -> range:
        """After how many requests of `committed` the state can be read; the last is the newest."""

    def committed_items(
        self, length: int, start: CollationKey, stop: CollationKey
    ) -> Iterator[tuple[Key, object]]:
        """The registers that hold something after the first `length` requests of `committed`, from
        one place to another, in the order of their keys. To be read before the next input."""

    def lazy_checkpoint(self) -> LazyCheckpoint:
        """The longest executed prefix of `committed` that ends with an instance, summed up; with
        the registers left for later."""

    def stable_instances(self) -> dict[int, int]:
        """The instances that each replica has settled, as far as this one knows."""

    def state(self) -> dict[Key, object]:
        """The registers as `committed · tentative` left them, once everything is executed."""

    def queue_delay_ticks(self) -> int:
        """For how many ticks the oldest of the requests issued here that were never executed has
        waited for that; counting those in which others were."""

    def is_idle(self) -> bool:
        """Is everything on `committed · tentative` executed?"""
