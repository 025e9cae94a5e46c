"""Values of which only a few fit into one message between replicas."""

from pathlib import Path

import pytest

from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast, Progress, PullResponse
from creekdb.protocol.request import Operation, Request
from creekdb.server.runtime.server import ServerLimits
from creekdb.server.transport.peer_link import PeerLimits
from creekdb.wire import protocol_frames
from creekdb.wire.messages import FrameDecoder, decode_peer_message, encode_frame
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import running_cluster

VALUE = "x" * 5000


@pytest.mark.parametrize("kind", [Cast, PullResponse])
def test_large_messages_are_split_by_request(kind: type[Cast | PullResponse]) -> None:
    sizes = (1, 5000, 5000, 5000, 30_000, 2, 3)
    requests = tuple(
        Request(each, Dot(0, each), Operation("put", ("k", "x" * size)), False)
        for each, size in enumerate(sizes, 1)
    )
    frames = protocol_frames.message_frames(kind(requests), 12_000)

    received = [
        decode_peer_message(payload) for payload in FrameDecoder(2**20).feed(b"".join(frames))
    ]
    assert [len(each.requests) for each in received if isinstance(each, kind)] == [3, 1, 1, 2]
    assert [
        request for each in received if isinstance(each, kind) for request in each.requests
    ] == list(requests)


def test_other_messages_are_not_split() -> None:
    assert protocol_frames.message_frames(Progress(1, 1), 1) == [encode_frame(Progress(1, 1))]


async def test_a_replica_catches_up_with_more_than_one_frame(tmp_path: Path) -> None:
    peer_limits = PeerLimits(request_bytes_max=12_000, frame_bytes_max=20_000)
    limits = ServerLimits(peers=peer_limits)
    async with running_cluster(tmp_path, limits=limits) as cluster, cluster.client(0) as db:
        await db.strong.put("a", 1)
        await cluster.stop(1, 2)
        for each in range(20):
            await db.weak.put(f"k{each}", VALUE)
        await cluster.start(1, 2)
        await cluster.until_connected()
        await cluster.until_quiescent()
        calls = [
            db.weak.put(f"l{each}", VALUE) for each in range(20)
        ]  # in one turn of the event loop
        for call in calls:
            await call.final
        async with cluster.client(2) as other:
            assert await other.strong.get("k19") == VALUE
            assert await other.strong.get("l19") == VALUE
        for server in cluster.servers.values():
            assert RejectReason.MALFORMED not in server.rejections
