"""Schemes that are wrong on purpose, for tests of what the commands say then."""

from itertools import count

from creekdb.execution.datatype import DataType
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.basic import BasicReplica


class Raising(BasicReplica):
    """A replica with a bug."""

    def tick(self, now: int) -> None:
        raise RuntimeError("a bug in the replica")


class Lying(BasicReplica):
    """A replica that shows another state than it has."""

    def state(self) -> dict[Key, object]:
        return {**super().state(), "lie": self.index}


_born = count()


class Moody(BasicReplica):
    """A replica that is not deterministic: the later it was made, the more it hurries at first."""

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._hurry = next(_born)

    def tick(self, now: int) -> None:
        super().tick(now)
        if self._hurry:
            self._hurry -= 1
            super().tick(now)
