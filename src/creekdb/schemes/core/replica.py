"""Contract between a replica and its driver, which is the simulator or a live server.

A replica is a deterministic state machine without I/O. A driver passes inputs to it, one at a time,
and takes and processes the effects of each input. `creekdb.protocol.effects` states the obligations
of each effect. Replica and driver share nothing else, so a replica cannot detect its driver.

`now` is the local wall clock in microseconds. It may be wrong, drift and jump: it only ever
influences the timestamps of requests. `tick` is called at a steady rate, independent of the clock.
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


class ReplicaView(Protocol):
    """State of a replica, as an observer may read it between two inputs."""

    index: int
    probes: Probes
    rejected: dict[str, int]
    """Number of malformed or foreign inputs by reason. None of them changed any other state."""
    drift_us: dict[int, int]
    """Observed lead of each replica's clock, in microseconds, where it exceeded the limit."""

    def has_request(self, id: Dot) -> bool:
        """True if the request has arrived here and has a position."""

    def is_visible(self, id: Dot) -> bool:
        """True if `has_request`, and all later responses to requests issued here depend on it."""

    def last_issued(self) -> Dot:
        """Return the last request issued here, including before restarts; event 0 if none was."""

    def has_pending_response(self, id: Dot) -> bool:
        """True if more responses to this request, which was issued here, will follow."""

    def committed_length(self) -> int: ...

    def awaited_members(self) -> tuple[int, ...] | None:
        """Return the members whose reports are missing until this replica joins; None if it has
        joined.

        A replica that started without state joins after every member has reported its state. An
        empty tuple means that the replica has yet to catch up with the reports. Until it joins,
        the driver must not call `invoke`.
        """

    def must_be_replaced(self) -> bool:
        """True if the replica lost its disk and can never join, since the members have changed."""

    def leader(self) -> int | None:
        """Return the replica that this replica currently trusts as the leader."""

    def tentative_length(self) -> int: ...

    def configuration(self) -> Configuration:
        """Return the members according to this replica."""

    def can_shut_down(self) -> bool:
        """True if the replica was removed and no member depends on its messages any more."""

    def tentative_ids(self) -> tuple[Dot, ...]: ...

    def committed_ids(self) -> tuple[Dot, ...]:
        """Return the part of `committed` that the checkpoint does not cover."""

    def last_committed(self, limit: int) -> tuple[Request, ...]:
        """Return the end of that part, at most `limit` requests."""

    def last_tentative(self, limit: int) -> tuple[Request, ...]:
        """Return the end of `tentative`, at most `limit` requests."""

    def readable_lengths(self) -> range:
        """Return the lengths of `committed` whose state can be read; the last is the newest."""

    def committed_items(
        self, length: int, start: CollationKey, stop: CollationKey
    ) -> Iterator[tuple[Key, object]]:
        """Iterate over the registers after the first `length` requests of `committed`.

        Yields present keys from `start` up to `stop`, in key order. The iterator is valid until
        the next input.
        """

    def stable_instances(self) -> dict[int, int]:
        """Return the number of stable instances of each replica, as last reported to this one."""

    def state(self) -> dict[Key, object]:
        """Return the registers after `committed · tentative`, once everything is executed."""

    def queue_delay_ticks(self) -> int:
        """Return the queueing time, in ticks, of the oldest request issued here and never executed.
        Counts only ticks in which other requests were executed."""

    def is_idle(self) -> bool:
        """True if everything on `committed · tentative` is executed."""


class Replica(Protocol):
    """Inputs of a replica, and the effects of those inputs."""

    index: int
    guarantees: SchemeGuarantees
    """Guarantees of the scheme, identical on every replica."""

    @property
    def view(self) -> ReplicaView:
        """Return the state for observers."""

    def recover(self, records: Iterable[Record]) -> None:
        """Resume from the durable `records`. Called at most once, before any other input."""

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        """Issue a request of the session and return its identifier.

        `after`: requests, already received, that must precede this one in its tentative response,
        like the session's earlier requests.
        """

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        """True if the operation gets its response without records and messages."""

    def new_state_loader(self) -> RegisterLoader:
        """Return the loader for the registers of a snapshot that arrives in parts.

        The complete snapshot is received as `AssembledSnapshot`. Afterwards the loader holds the
        registers that the snapshot replaced.
        """

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None: ...

    def tick(self, now: int) -> None: ...

    def run(self, task: Task) -> ExecutionResult:
        """Run a task without changing the replica, between its issue and `completed`."""

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None: ...

    def take_tasks(self) -> tuple[Task, ...]:
        """Take the tasks ahead of the other effects. A driver with capacity for one more task runs
        it first and processes the other effects together with the task's own."""

    def take_effects(self) -> Effects: ...

    def lazy_checkpoint(self) -> LazyCheckpoint:
        """Return a checkpoint of the longest executed prefix of `committed` that ends with an
        instance. Its registers are read later."""
