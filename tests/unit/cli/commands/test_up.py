"""Fault injection into the replicas of `creek up`."""

from collections.abc import Callable
from typing import cast

import pytest

from creekdb.cli.commands.up import LocalFaultInjector
from creekdb.errors import UsageError
from creekdb.load.local_cluster import LocalCluster
from creekdb.wire.dev_control import decode_dev_control


class ControlledReplicas:
    """Stub of a cluster of two replicas that records the latest cut links of each."""

    def __init__(self) -> None:
        self.http_addresses = ["127.0.0.1:1", "127.0.0.1:2"]
        self.control_line: Callable[[int], bytes] = lambda replica: b""
        self.cut: dict[int, tuple[int, ...]] = {}

    def send_control_line(self, replica: int) -> None:
        self.cut[replica] = decode_dev_control(self.control_line(replica)).cut


async def test_links_to_replicas_that_joined_later_can_be_cut() -> None:
    cluster, events = ControlledReplicas(), list[str]()
    injector = LocalFaultInjector(cast(LocalCluster, cluster), events.append)
    async with injector.serve_control():
        injector.cut([(1, 0), (0, 7)])
        assert cluster.cut == {0: (1, 7), 1: (0,)}
        injector.heal([(0, 1)])
        assert cluster.cut == {0: (7,), 1: ()}
        for link, message in (((7, 8), "unknown replica 7"), ((0, 0), "no link to itself")):
            with pytest.raises(UsageError, match=message):
                injector.heal([(0, 7), link])
        assert cluster.cut == {0: (7,), 1: ()}
    assert events[:2] == ["the link between 0 and 1 is cut", "the link between 0 and 7 is cut"]
