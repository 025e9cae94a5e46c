"""What people do to the replicas of `creek up`."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from creekdb.cli.commands.up import LocalFaultInjector
from creekdb.errors import UsageError
from creekdb.load.local_cluster import LocalCluster
from creekdb.wire.dev_control import decode_dev_control


class Told:
    """In place of two replicas: from whom each was told last that it is cut off."""

    def __init__(self) -> None:
        self.http = ["127.0.0.1:1", "127.0.0.1:2"]
        self.tells: Callable[[int], bytes] = lambda replica: b""
        self.cut: dict[int, tuple[int, ...]] = {}

    def tell(self, replica: int) -> None:
        self.cut[replica] = decode_dev_control(self.tells(replica)).cut


def test_links_are_cut_also_to_replicas_that_joined_later() -> None:
    cluster, happened = Told(), list[str]()
    breaking = LocalFaultInjector(cast(LocalCluster, cluster), happened.append)

    async def story() -> None:
        async with breaking.serve_control():
            breaking.cut([(1, 0), (0, 7)])
            assert cluster.cut == {0: (1, 7), 1: (0,)}
            breaking.heal([(0, 1)])
            assert cluster.cut == {0: (7,), 1: ()}
            for link, why in (((7, 8), "there is no replica 7"), ((0, 0), "no link to itself")):
                with pytest.raises(UsageError, match=why):
                    breaking.heal([(0, 7), link])
            assert cluster.cut == {0: (7,), 1: ()}

    asyncio.run(story())
    assert happened[:2] == ["the link between 0 and 1 is cut", "the link between 0 and 7 is cut"]
