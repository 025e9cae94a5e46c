"""Faulty schemes, for tests of the output of commands that find a violation."""

from itertools import count

from creekdb.execution.datatype import DataType
from creekdb.protocol.settings import Settings
from creekdb.schemes.basic import BasicReplica


class Raising(BasicReplica):
    """A replica with a bug."""

    def tick(self, now: int) -> None:
        raise RuntimeError("a bug in the replica")


class Diverging(BasicReplica):
    """A replica with a register that no request wrote, and whose value the others do not have."""

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._execution._state._write("lie", index)


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
