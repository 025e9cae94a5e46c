"""Values so large that many of them do not fit into one message between replicas."""

from pathlib import Path

import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast, Progress, PullResponse
from creekdb.protocol.request import Operation, Request
from creekdb.server.transport import peers
from creekdb.wire import protocol_frames
from creekdb.wire.messages import FrameDecoder, decode_peer_message, encode_frame
from tests.cluster.house import house, run

VALUE = "x" * 5000


@pytest.mark.parametrize("kind", [Cast, PullResponse])
def test_requests_are_sent_in_as_many_messages_as_it_takes(
    kind: type[Cast | PullResponse], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_frames, "MESSAGE_BYTES", 12_000)
    sizes = (1, 5000, 5000, 5000, 30_000, 2, 3)
    requests = tuple(
        Request(each, Dot(0, each), Operation("put", ("k", "x" * size)), False)
        for each, size in enumerate(sizes, 1)
    )
    frames = protocol_frames.message_frames(kind(requests))

    told = [decode_peer_message(payload) for payload in FrameDecoder(2**20).feed(b"".join(frames))]
    assert [len(each.requests) for each in told if isinstance(each, kind)] == [3, 1, 1, 2]
    assert [one for each in told if isinstance(each, kind) for one in each.requests] == list(
        requests
    )


def test_other_messages_are_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol_frames, "MESSAGE_BYTES", 1)
    assert protocol_frames.message_frames(Progress(1, 1)) == [encode_frame(Progress(1, 1))]


def test_who_was_away_catches_up_with_more_than_a_frame_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_frames, "MESSAGE_BYTES", 12_000)
    monkeypatch.setattr(peers, "PEER_FRAME_MAX", 20_000)

    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db:
            await db.strong.put("a", 1)
            await cluster.stop(1, 2)
            for each in range(20):
                await db.weak.put(f"k{each}", VALUE)
            await cluster.start(1, 2)
            await cluster.until_connected()
            await cluster.until_settled()
            calls = [db.weak.put(f"l{each}", VALUE) for each in range(20)]  # in one turn
            for call in calls:
                await call.final
            async with cluster.client(2) as other:
                assert await other.strong.get("k19") == VALUE
                assert await other.strong.get("l19") == VALUE
            for server in cluster.servers.values():
                assert "malformed" not in server.rejections

    run(story())
