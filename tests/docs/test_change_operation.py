"""The steps of the page on changed operations, on a cluster with old and new modules."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import creekdb
from creekdb.server.observability.metrics import metric_families, render_metrics
from creekdb.server.runtime.server import Server
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import InProcessCluster, running_cluster
from tests.docs.pages import DOCS, files

PAGE = "change-an-operation.md"
BEFORE, AFTER, IN_PLACE = (f"page_{name}:shop" for name in ("before", "after", "in_place"))
"""Import paths of the modules. Replicas of one process cannot have two modules with one name."""


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before, after = files(PAGE).values()
    in_place = before.replace("tx.get(item, 3)", "tx.get(item, 2)")
    texts = {BEFORE: before, AFTER: after, IN_PLACE: in_place}
    for name, text in texts.items():
        (tmp_path / f"{name.partition(':')[0]}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in texts:
        sys.modules.pop(name.partition(":")[0], None)


async def restart(cluster: InProcessCluster, replica: int, datatype: str) -> None:
    await cluster.stop(replica)
    await cluster.start(replica, datatype=datatype)
    await cluster.until_connected()


def differing(servers: dict[int, Server]) -> dict[int, dict[str, list[str]]]:
    statuses = {replica: server.status() for replica, server in servers.items()}
    return {
        replica: status["differing_operations"]
        for replica, status in statuses.items()
        if status["differing_operations"]
    }


async def test_a_new_version_is_rolled_out_replica_by_replica(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "data", datatype=BEFORE) as cluster:
        await cluster.until_connected()
        async with cluster.client(0) as db:
            assert await db.strong.buy("lamp") == 2
        for replica in range(3):
            await restart(cluster, replica, AFTER)
            assert differing(cluster.servers) == {}
            async with cluster.client(replica) as db:
                if replica < 2:  # step 3
                    with pytest.raises(creekdb.NotDone, match=r"replica \d does not") as raised:
                        await db.strong.buy_2("lamp", 2)
                    assert raised.value.reason == RejectReason.UNKNOWN_OPERATION
        async with cluster.client(0) as db:
            assert await db.strong.buy("lamp") == 1  # clients that are not changed yet
            assert await db.strong.buy_2("lamp", 1) == 0
        await cluster.until_quiescent()


async def test_a_change_in_place_is_reported(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "data", datatype=BEFORE) as cluster:
        await cluster.until_connected()
        await restart(cluster, 1, IN_PLACE)
        assert differing(cluster.servers) == {
            0: {"1": ["buy"]},
            1: {"0": ["buy"], "2": ["buy"]},
            2: {"1": ["buy"]},
        }
        metrics = render_metrics(metric_families(cluster.servers[0].sources))
        assert 'creek_differing_operations{peer="1"} 1\n' in metrics
        assert 'creek_differing_operations{peer="2"} 0\n' in metrics
        async with cluster.client(2) as db:
            assert await db.weak.buy("chair") in (1, 2)  # reported only


async def test_a_change_in_place_is_rejected_by_option(tmp_path: Path) -> None:
    cluster_of = partial(running_cluster, datatype=AFTER, require_equal_operations=True)
    async with cluster_of(tmp_path / "data") as cluster:
        await cluster.until_connected()
        await restart(cluster, 1, IN_PLACE)
        for replica in range(3):
            async with cluster.client(replica) as db:
                with pytest.raises(creekdb.NotDone, match="has other code for 'buy'") as raised:
                    await db.weak.buy("lamp")
                assert raised.value.reason == RejectReason.DIFFERENT_CODE
                with pytest.raises(creekdb.NotDone) as raised:
                    await db.batch([("buy", "lamp")])
                assert raised.value.reason == RejectReason.DIFFERENT_CODE
        async with cluster.client(0) as db:
            assert await db.strong.noop() is None  # an operation with equal code


def test_the_page_names_the_fields_and_the_option() -> None:
    text = (DOCS / PAGE).read_text()
    for name in ("differing_operations", "creek_differing_operations", "require_equal_operations"):
        assert name in text
