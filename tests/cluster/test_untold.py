"""A replica that is given the state by others, without all the answers that clients wait for."""

import asyncio
from pathlib import Path

import pytest

from creekdb.client.calls import FinalOutcome
from creekdb.protocol.probes import Probe
from creekdb.schemes.core import responses
from tests.cluster.house import PATIENCE_S, house, run


def test_what_the_others_do_not_tell_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "UNTOLD_LIMIT", 2)

    async def story() -> None:
        async with (
            house(tmp_path, checkpoint_every=16) as cluster,
            cluster.client(0) as db,
            cluster.client(1) as other,
        ):
            await db.strong.put("n", 0)
            first = cluster.servers[0]
            receive = first.peers.receive
            first.peers.receive = lambda *_: None  # it is heard, and hears nothing
            weak = [db.weak.increment("n") for _ in range(10)]
            for call in weak:
                await call
            strong = [db.strong.increment("n") for _ in range(10)]
            async with asyncio.timeout(PATIENCE_S):
                while (await other.strong.get("n")) < 20:
                    await asyncio.sleep(0.01)
            for each in range(60):
                await other.strong.put("m", each)
            first.peers.receive = receive

            assert sorted([await call for call in strong]) == list(range(11, 21))
            assert [await call.final for call in weak] == [
                FinalOutcome(each, changed=False) for each in range(1, 11)
            ]
            assert first.driver.replica.probes.counts[Probe.SNAPSHOT_INSTALLED]
            assert first.rejections["untold"] >= 16
            assert await db.strong.get("n") == 20
            assert not first.dispatcher.in_flight
            assert not len(first.pending_strong_calls)

    run(story())
