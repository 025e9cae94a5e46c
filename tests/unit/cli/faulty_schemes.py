"""Faulty schemes, for tests of the output of commands that find a violation."""

from itertools import count
from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.replica import ReplicaView


class Raising(BasicReplica):
    """A replica with a bug."""

    def tick(self, now: int) -> None:
        raise RuntimeError("a bug in the replica")


class DivergingView:
    """View with a state that differs from the replica's own."""

    def __init__(self, view: ReplicaView) -> None:
        self._view = view

    def state(self) -> dict[Key, object]:
        return {**self._view.state(), "lie": self._view.index}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


class Diverging(BasicReplica):
    """A replica that reports a state that differs from its own."""

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        view: Any = DivergingView(self.view)
        self.view = view


_instances = count()


class Nondeterministic(BasicReplica):
    """A replica whose initial tick rate depends on the number of earlier instances."""

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._extra_ticks = next(_instances)

    def tick(self, now: int) -> None:
        super().tick(now)
        if self._extra_ticks:
            self._extra_ticks -= 1
            super().tick(now)
