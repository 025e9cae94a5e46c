"""Interfaces between the broadcasts and the replication scheme above them."""

from collections.abc import Iterable
from typing import Protocol

from creekdb.protocol.checkpoint.stream import LazyCheckpoint, RegisterLoader
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Batch, Request


class Application(Protocol):
    """Receiver of deliveries."""

    def rb_deliver(self, request: Request) -> None: ...

    def insert(self, request: Request) -> None:
        """Process a request that took its position on `tentative`."""

    def cab_deliver(self, ids: list[Dot], instance: int) -> None:
        """CAB-deliver `ids` in this order. All belong to `instance`; more of it may follow. Weak
        ones are not delivered themselves: they are the cut of the next strong one."""

    def on_proposed(self, instance: int, batch: Batch) -> None:
        """Process a proposal for `instance`: an optimistic delivery, which may be wrong."""

    def install(self, checkpoint: Checkpoint, loader: RegisterLoader | None = None) -> None:
        """Replace the prefix that the checkpoint covers. If `loader` is given, it holds the
        registers."""


class CheckpointSource(Protocol):
    """Checkpoint of this replica, and the requests after it."""

    @property
    def instance(self) -> int:
        """Instance of the checkpoint that `checkpoint` would return."""

    def checkpoint(self) -> Checkpoint:
        """Return the longest executed prefix of `committed` that ends with an instance."""

    def lazy_checkpoint(self) -> LazyCheckpoint:
        """Return the same checkpoint with a cursor instead of the registers."""

    def live_requests(self) -> Iterable[Request]:
        """Return every delivered request that the checkpoint does not cover."""


class DeliveredRequests(Protocol):
    """Requests that the application has received, as the broadcasts query them."""

    has_contexts: bool
    """True if a strong request commits the weak requests of its causal context too."""

    def missing_dependency(self, id: Dot) -> Dot | None:
        """Return None if `checkDep` (lines 10-14) holds, or else a dot whose arrival may make it
        hold. Once it holds, it must hold for ever (eventual stable evaluation). For a weak request,
        which a batch names as part of a cut, it holds once the request is delivered."""

    def timestamp_of(self, id: Dot) -> int:
        """Return the timestamp of a received request that is not committed."""

    def cut_before(self, id: Dot) -> tuple[Dot, ...]:
        """Return the cut (`creekdb.protocol.broadcast.cuts`) of a received strong request that is
        not committed."""

    def fill_lost_request(self, id: Dot, timestamp: int) -> Request:
        """Issue a no-op under the identifier of a lost request of this replica."""

    def is_committed(self, id: Dot) -> bool: ...

    def is_weak(self, id: Dot) -> bool:
        """True if the request is known to be weak. May turn False once it is committed."""

    def can_install(self, checkpoint: Checkpoint) -> bool:
        """True if the checkpoint covers every request that is committed here."""
