"""Execution of a replica's order, as its stable prefix and its observers require it.

A scheme wires one of the executions to the ordering: `SequentialExecution` with the undo log of
Algorithm 2, or `VersionedExecution` with the version store of Section 4.4. The interface has no
state. It is a class and not a `Protocol`, whose methods would be slower to call when compiled.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from creekdb.execution.mvcc.pinned_state import PinnedState
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.transaction import View
from creekdb.protocol.checkpoint.stream import RegisterCursor, RegisterLoader
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.order import RequestOrder
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables
from creekdb.protocol.values import Key
from creekdb.schemes.core.responses import Responses


class ReplicaVariables(SharedVariables):
    """Variables that the parts of one replica share."""

    def __init__(self, index: int, settings: Settings) -> None:
        super().__init__(index, settings)
        self.order = RequestOrder()  # line 6
        self.responses = Responses(self)  # line 9


StableWrites: TypeAlias = tuple[Outcome, dict[Key, Any], dict[Key, Any] | None]
"""Outcome of a request that became stable; values of the registers that it wrote, `ABSENT` for the
deleted ones; and their values before, `ABSENT` for registers without one. The last is None if it
was not requested. A plain tuple, which compiled modules return without an object."""


class UnstableWrites(NamedTuple):
    """Request that is not stable, with its current outcome and the registers that it wrote."""

    request: Request
    outcome: Outcome | None
    """None if the request awaits its execution, or its next one."""
    writes: dict[Key, Any]
    """Selected values after the request, `ABSENT` for deleted registers."""


class Execution(ABC):
    @abstractmethod
    def executed_length(self) -> int:
        """Return the length of the longest prefix of the order that is executed in place."""

    @abstractmethod
    def executed_before(self, request: Request, stable_length: int) -> Iterator[Dot]:
        """Return the executed requests between the stable prefix and the request."""

    @abstractmethod
    def stabilise_request(self, request: Request) -> Outcome:
        """Discard the undo information of a request whose position is final. Return its outcome."""

    @abstractmethod
    def stabilise_with_writes(self, request: Request, with_before: bool) -> StableWrites:
        """Like `stabilise_request`, for replicas that report changes."""

    @abstractmethod
    def truncate_prefix(self, length: int) -> None:
        """Prepare for the truncation of the first `length` requests of `committed`."""

    @abstractmethod
    def stable_items(self) -> Iterable[tuple[Key, Any]]:
        """Return the registers that differ from the base of the data type after the stable prefix.
        They are in key order, with `ABSENT` for deleted registers."""

    def checkpoint_cursor(self) -> RegisterCursor | None:
        """Return a lazy cursor over `stable_items`, or None if there are only the latter."""
        return None

    def pin_state(self) -> PinnedState | None:
        """Return the stable state for reads by key range, or None if the execution has none."""
        return None

    @abstractmethod
    def register_count(self) -> int: ...

    def digest(self) -> int | None:
        """Return the digest of the state after the stable prefix, or None if there is none now."""
        return None

    @abstractmethod
    def new_state_loader(self) -> StateLoader: ...

    def loader_of(self, checkpoint: Checkpoint, loader: RegisterLoader | None) -> StateLoader:
        """Return the loader with the registers of a checkpoint."""
        if loader is None:
            loader = self.new_state_loader()
            loader.add(checkpoint.state, checkpoint.deleted)
        assert isinstance(loader, StateLoader)
        return loader

    # --- for observers ------------------------------------------------------------------------

    @abstractmethod
    def unstable_writes(
        self, stable_length: int, has_key: Callable[[Key], bool]
    ) -> Iterator[UnstableWrites]:
        """Iterate over the requests after the stable prefix, in their order. `has_key` selects the
        registers. The iterator is valid until the next input."""

    @abstractmethod
    def is_idle(self) -> bool:
        """True if everything on `committed · tentative` is executed."""

    @abstractmethod
    def state(self) -> dict[Key, Any]: ...

    @abstractmethod
    def committed_view(self, length: int) -> View:
        """Return the state after the first `length` requests of `committed`."""

    def readable_length(self, stable_length: int) -> int:
        """Return the largest length of `committed` whose state can be read."""
        return stable_length

    def is_visible(self, id: Dot) -> bool:
        """True if all later responses depend on the request, which has a position. Sequential
        executions follow the order."""
        return True
