"""A replica that receives a snapshot without all responses that its clients await."""

import asyncio
from pathlib import Path

from creekdb.client.calls import FinalOutcome
from creekdb.protocol.probes import Probe
from creekdb.schemes.creek import CreekReplica
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster


async def test_calls_without_a_retained_outcome_are_retried(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, checkpoint_every=16) as cluster,
        cluster.client(0) as db,
        cluster.client(1) as other,
    ):
        for server in cluster.servers.values():
            replica = server.driver.replica
            assert isinstance(replica, CreekReplica)
            replica._responses.retained._count_max = 2
        await db.strong.put("n", 0)
        first = cluster.servers[0]
        receive = first.peers.receive
        first.peers.receive = lambda *_: None  # sends messages, but receives none
        weak = [db.weak.increment("n") for _ in range(10)]
        for call in weak:
            await call
        strong = [db.strong.increment("n") for _ in range(10)]
        async with asyncio.timeout(TIMEOUT_S):
            while (await other.strong.get("n")) < 20:
                await asyncio.sleep(0.01)
        for each in range(60):
            await other.strong.put("m", each)
        first.peers.receive = receive

        assert sorted([await call for call in strong]) == list(range(11, 21))
        assert [await call.final for call in weak] == [
            FinalOutcome(each, changed=False) for each in range(1, 11)
        ]
        assert first.driver.replica.view.probes.counts[Probe.SNAPSHOT_INSTALLED]
        assert first.rejections[RejectReason.UNKNOWN_OUTCOME] >= 16
        assert await db.strong.get("n") == 20
        assert not first.dispatcher.in_flight
        assert not len(first.admission.pending_strong)
