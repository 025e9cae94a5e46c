"""Links between the replicas of a cluster on this machine, cut and mended.

Replicas are told to do without them, on the pipe to the process that started them. So what passes a
link that is not cut makes no detour, and takes no longer than ever.
"""

from collections.abc import Sequence

from creekdb.load.local import LocalCluster
from creekdb.wire.dev_control import Trial, line_of


class Cuts:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._all = range(len(cluster.addresses))
        self._groups: list[frozenset[int]] = []
        cluster.tells = self._line

    def divide(self, groups: Sequence[Sequence[int]]) -> None:
        """Only replicas of one group reach each other; those not named form one more."""
        named = [frozenset(group) for group in groups]
        self._groups = [*named, frozenset(self._all).difference(*named)]
        self._tell()

    def mend(self) -> None:
        self._groups = []
        self._tell()

    def away(self, replica: int) -> tuple[int, ...]:
        """Those whom it does not reach."""
        mine = next((group for group in self._groups if replica in group), frozenset(self._all))
        return tuple(each for each in self._all if each not in mine)

    def _tell(self) -> None:
        for replica in self._all:
            self._cluster.tell(replica)

    def _line(self, replica: int) -> bytes:
        return line_of(Trial(control="", secret="", pages={}, cut=self.away(replica)))
