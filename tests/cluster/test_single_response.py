"""Calls with `is_single_response`."""

from pathlib import Path

from creekdb.wire import messages
from tests.cluster.in_process_cluster import running_cluster
from tests.cluster.wire_client import wire_client


async def test_a_single_response_call_receives_only_the_awaited_response(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, wire_client(cluster) as client:
        client.send(messages.CallRequest(1, "put", ("a", 1), is_single_response=True))
        assert await client.receive() == messages.CallResponse(1, "tentative")
        dispatcher = cluster.servers[0].dispatcher
        assert (dispatcher.open_calls(), dispatcher.in_flight) == ((), 0)
        client.send(messages.CallRequest(2, "put", ("a", 2), strong=True, is_single_response=True))
        assert await client.receive() == messages.CallResponse(2, "stable", 1)
        client.send(messages.CallRequest(3, "get", ("a",), is_single_response=True))
        assert await client.receive() == messages.CallResponse(3, "tentative", 2)
        # The first call is stable as well by now, and its final response was not sent.
        assert (dispatcher.open_calls(), dispatcher.in_flight) == ((), 0)
        client.send(messages.StatusRequest(4))
        assert isinstance(await client.receive(), messages.StatusResponse)


async def test_a_single_response_call_can_be_retried(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, wire_client(cluster) as client:
        for _ in range(2):
            client.send(messages.CallRequest(1, "increment", ("a",), is_single_response=True))
            assert await client.receive() == messages.CallResponse(1, "tentative", 1)
