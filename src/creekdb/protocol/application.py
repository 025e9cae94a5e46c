"""What the broadcasts ask of the scheme above them."""

from collections.abc import Iterable
from typing import Protocol

from creekdb.protocol.checkpoint.stream import LazyCheckpoint, RegisterLoader
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Batch, Request


class Application(Protocol):
    def rb_deliver(self, request: Request) -> None: ...

    def fill_lost_request(self, id: Dot, timestamp: int) -> None:
        """Issue what does nothing, in the place of a request of this replica that is lost."""

    def cab_deliver(self, ids: list[Dot], instance: int) -> None:
        """In this order; all of one instance, and perhaps not all of it."""

    def missing_dependency(self, id: Dot) -> Dot | None:
        """`checkDep` (lines 10-14): None for true, or a dot that is missing."""

    def is_committed(self, id: Dot) -> bool: ...

    def is_weak(self, id: Dot) -> bool:
        """Is it known to be weak? It may forget that when the request is committed."""

    def can_install(self, checkpoint: Checkpoint) -> bool:
        """Does it hold everything that is committed here?"""

    def on_proposed(self, instance: int, batch: Batch) -> None:
        """A leader proposed it: perhaps it is what this instance will deliver."""

    def stable_instance(self) -> int:
        """The instance of what `checkpoint` would answer."""

    def checkpoint(self) -> Checkpoint:
        """The longest executed prefix of `committed` that ends with an instance."""

    def lazy_checkpoint(self) -> LazyCheckpoint:
        """The same, with the registers left for later."""

    def live_requests(self) -> Iterable[Request]:
        """Every delivered request that the checkpoint does not hold."""

    def on_reconfigured(self) -> None:
        """The members are others from now on."""

    def install(self, checkpoint: Checkpoint, intake: RegisterLoader | None = None) -> None:
        """Let the checkpoint take the place of everything it holds. With an `intake`, that is where
        its registers are."""
