"""Fault injection into the replicas of `creek up`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from creekdb.cli.commands.up import LocalFaultInjector, up
from creekdb.errors import UsageError
from creekdb.load.local_cluster import LocalCluster


async def test_links_to_replicas_that_joined_later_can_be_cut(tmp_path: Path) -> None:
    cluster, events = LocalCluster(tmp_path, replicas=2, http=True), list[str]()
    injector = LocalFaultInjector(cluster, events.append)

    def cut() -> dict[int, tuple[int, ...]]:
        return {replica: cluster.unreachable_from(replica) for replica in range(2)}

    async with injector.serve_control():
        injector.cut([(1, 0), (0, 7)])
        assert cut() == {0: (1, 7), 1: (0,)}
        injector.heal([(0, 1)])
        assert cut() == {0: (7,), 1: ()}
        for link, message in (((7, 8), "unknown replica 7"), ((0, 0), "no link to itself")):
            with pytest.raises(UsageError, match=message):
                injector.heal([(0, 7), link])
        assert cut() == {0: (7,), 1: ()}
    assert events[:2] == ["the link between 0 and 1 is cut", "the link between 0 and 7 is cut"]


def test_values_before_changes_are_kept_only_with_changes() -> None:
    result = CliRunner().invoke(up, ["--before-images"])

    assert isinstance(result.exception, UsageError)
    assert "--before-images requires --keep-changes" in str(result.exception)
