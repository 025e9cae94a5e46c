"""Invalid input from clients, peers and configuration files.

The sender receives the reason, the server counts the rejection, and no state changes.
"""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest

from creekdb.errors import UsageError
from creekdb.load.local_cluster import free_port
from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.calls.dispatcher import CallLimits
from creekdb.server.runtime.config import read_config
from creekdb.server.runtime.server import Server, ServerLimits
from creekdb.server.transport.client_connection import ConnectionLimits
from creekdb.wire import messages
from creekdb.wire.counters import ServerCounter
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster
from tests.cluster.wire_client import wire_client

MALFORMED = RejectReason.MALFORMED
BAD_ARGUMENTS = RejectReason.BAD_ARGUMENTS
UNKNOWN_OPERATION = RejectReason.UNKNOWN_OPERATION
VERSION = RejectReason.VERSION


@pytest.mark.parametrize(
    ("call", "reason", "expected"),
    [
        (messages.CallRequest(1, "putt", ("a", 1)), UNKNOWN_OPERATION, "did you mean 'put'?"),
        (messages.CallRequest(1, "creek.forget", (9**9,)), UNKNOWN_OPERATION, "creek.forget"),
        (messages.CallRequest(1, "put", ("a",)), BAD_ARGUMENTS, "requires the argument 'value'"),
        (messages.CallRequest(1, "put", ("a", float("nan"))), BAD_ARGUMENTS, "cannot be sent"),
        (
            messages.CallRequest(1, "put", ("a", 1), after=(Dot(0, 9),) * 65),
            BAD_ARGUMENTS,
            "at most 64",
        ),
        (
            messages.CallRequest(1, "put", ("a", 1), after=(Dot(0, 9),), wait_ms=1),
            RejectReason.DEADLINE,
            "dependency 0.9",
        ),
    ],
)
async def test_an_invalid_call_is_rejected_with_its_own_reason(
    call: messages.CallRequest, reason: str, expected: str, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, wire_client(cluster) as client:
        client.send(call)
        rejection = await client.receive_rejection()
        assert (rejection.reason, rejection.is_certain) == (reason, True)
        assert expected in rejection.message
        status = cluster.servers[0].status()
        assert status["refused"] == {reason: 1}
        assert (status["committed"], status["tentative"], status["under_way"]) == (0, 0, 0)
        client.send(messages.CallRequest(2, "get", ("a",)))  # the connection stays usable
        assert isinstance(await client.receive(), messages.CallIssued)


async def test_calls_that_wait_for_dependencies_are_bounded_in_number(tmp_path: Path) -> None:
    limits = ServerLimits(calls=CallLimits(queued_max=3))
    async with (
        running_cluster(tmp_path, replicas=1, limits=limits) as cluster,
        wire_client(cluster) as client,
    ):
        for number in range(1, 5):
            client.send(messages.CallRequest(number, "put", ("a", 1), after=(Dot(0, 9),)))
        rejection = await client.receive_rejection()
        assert (rejection.number, rejection.reason) == (4, RejectReason.BUSY)
        call_dispatcher = cluster.servers[0].dispatcher
        assert (call_dispatcher.queued_count, call_dispatcher.in_flight) == (3, 3)
        client.send(messages.CancelResponses(2))
        client.send(messages.StatusRequest(9))
        await client.receive()
        assert (call_dispatcher.queued_count, call_dispatcher.in_flight) == (2, 2)


async def test_a_client_that_does_not_read_is_disconnected(tmp_path: Path) -> None:
    limits = ServerLimits(connections=ConnectionLimits(unread_bytes_max=1_000_000))
    async with running_cluster(tmp_path, 1, limits) as cluster, cluster.client() as db:
        await db.weak.put("a", b"x" * 3_000_000)
        server = cluster.servers[0]
        async with wire_client(cluster) as client:
            client.send(*(messages.CallRequest(number, "get", ("a",)) for number in range(1, 30)))
            async with asyncio.timeout(TIMEOUT_S):
                while len(server.clients.connections) > 1 or server.dispatcher.in_flight:
                    await asyncio.sleep(0.01)
            assert server.rejections == {ServerCounter.SLOW_CLIENT: 1}
        assert await db.weak.get("b") is None


async def test_a_slow_client_receives_all_responses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        await db.weak.put("a", b"x" * 300_000)
        async with wire_client(cluster) as client:
            client.send(*(messages.CallRequest(number, "get", ("a",)) for number in range(1, 30)))
            await db.strong.noop()
            client.send(
                messages.CallRequest(30, "get", ("b",))
            )  # processed after the client has read the rest
            numbers: set[int] = set()
            while len(numbers) < 30:
                message = await client.receive()
                if isinstance(message, messages.CallResponse):
                    numbers.add(message.number)
        assert not cluster.servers[0].rejections


async def test_a_client_without_a_hello_is_rejected(tmp_path: Path) -> None:
    limits = ServerLimits(connections=ConnectionLimits(hello_timeout_s=0.05))
    async with running_cluster(tmp_path, replicas=1, limits=limits) as cluster:
        host, _, port = cluster.addresses(0)[0].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        received = await asyncio.wait_for(reader.read(), 20)
        (payload,) = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX).feed(received)
        rejected = messages.decode_server_message(payload)
        assert isinstance(rejected, messages.ConnectionRejected)
        assert "no hello within" in rejected.message
        assert cluster.servers[0].rejections[MALFORMED] == 1
        writer.close()


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (messages.encode_frame(messages.PeerHello(99, "creek", 1, (0, 1), "kv")), VERSION),
        (
            messages.encode_frame(
                messages.PeerHello(messages.WIRE_VERSION, "another", 1, (0, 1), "kv")
            ),
            "cluster",
        ),
        (
            messages.encode_frame(
                messages.PeerHello(messages.WIRE_VERSION, "creek", 1, (0, 1), "bank")
            ),
            RejectReason.DATATYPE,
        ),
        (
            messages.encode_frame(
                messages.PeerHello(messages.WIRE_VERSION, "creek", 7, (0, 7), "kv")
            ),
            "members",
        ),
        (
            messages.encode_frame(
                messages.PeerHello(messages.WIRE_VERSION, "creek", 0, (0, 1), "kv")
            ),
            "members",
        ),
        (
            messages.encode_frame(
                messages.PeerHello(
                    messages.WIRE_VERSION, "creek", 2, (0, 1), "kv", peer_address="a..b:7202"
                )
            ),
            "members",
        ),
        (messages.encode_frame(messages.ClientHello(messages.WIRE_VERSION, "me")), MALFORMED),
        (b"GET / HTTP/1.1\r\n\r\n", RejectReason.UNEXPECTED_HTTP),
        (messages.frame_payload(b"\xc1"), MALFORMED),
    ],
)
async def test_an_invalid_peer_hello_is_rejected(hello: bytes, reason: str, tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=2) as cluster:
        server = cluster.servers[0]
        before = server.rejections[reason]
        host, _, port = cluster._members[0].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        follow_up = messages.frame_payload(b"\xc1")  # must be ignored
        writer.write(hello + follow_up)
        received = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        (payload,) = messages.FrameDecoder(messages.PEER_FRAME_BYTES_MAX).feed(received)
        # The peer receives a hello, so that it can detect the mismatch itself.
        assert messages.decode_peer_hello(payload).replica == 0
        assert server.rejections[reason] == before + 1
        assert server.status()["committed"] == 0
        assert server.peers.connected_members() == [1]
        assert server.failure is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dta = 'x'", "unknown key in {path} 'dta': expected one of .*; did you mean 'data'\\?"),
        ("[security]\nautority = 'x'", "unknown key of security .*did you mean 'authority'"),
        ("data = 3", "Expected `str`, got `int` - at `\\$.data`"),
        ("replica = 7", "replica is 7, which is not a member; members are 0"),
        ("clients = 'here'", "'here' is not an address: write HOST:PORT"),
        ("clients = '0.0.0.0:7100'", "without encryption: set security.authority"),
        (
            "[security]\nkey = 'x'",
            "security is incomplete: set all of authority, certificate and key",
        ),
        ("[security]\ntokens = {ann = ''}", "the token of ann is empty, which admits everyone"),
        ("[security]\ntokens = {ann = 'x', bob = 'x'}", "ann and bob have the same token"),
        ("[security]\nadmins = ['ann']", "security.admins: ann has no token"),
        ("data = ", "Invalid value"),
    ],
)
def test_configuration_errors_name_the_key(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "replica.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=expected.format(path=re.escape(str(path)))):
        read_config(path, {"members": {0: "127.0.0.1:7200"}}, {})
    path.write_text("")
    with pytest.raises(UsageError, match="members are missing"):
        read_config(path, {}, {})


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster:
        address = cluster.addresses()[0]
        config = msgspec.structs.replace(
            cluster.servers[0].config,
            clients=address,
            members={0: f"127.0.0.1:{free_port()}"},
            data=str(tmp_path / "other"),
        )
        with pytest.raises(UsageError, match=f"cannot listen at {address}: Address already"):
            await Server(config).start()
