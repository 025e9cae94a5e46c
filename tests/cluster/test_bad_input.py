"""What comes from elsewhere and is wrong: told to whoever sent it, counted, and nothing changes."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest

from creekdb.errors import UsageError
from creekdb.load.local_cluster import free_port
from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.calls import dispatcher
from creekdb.server.runtime.config import read_config
from creekdb.server.runtime.server import Server
from creekdb.server.transport import client_connection, keepalive
from creekdb.wire import messages
from creekdb.wire.framing import UNEXPECTED_HTTP
from tests.cluster.house import house, run
from tests.cluster.talking import dialled


@pytest.mark.parametrize(
    ("call", "reason", "says"),
    [
        (messages.CallRequest(1, "putt", ("a", 1)), "unknown_operation", "did you mean 'put'?"),
        (messages.CallRequest(1, "creek.forget", (9**9,)), "unknown_operation", "creek.forget"),
        (messages.CallRequest(1, "put", ("a",)), "bad_arguments", "cannot take 1 argument"),
        (messages.CallRequest(1, "put", ("a", float("nan"))), "bad_arguments", "cannot be sent"),
        (
            messages.CallRequest(1, "put", ("a", 1), after=(Dot(0, 9),) * 65),
            "bad_arguments",
            "at most 64",
        ),
        (
            messages.CallRequest(1, "put", ("a", 1), after=(Dot(0, 9),), wait_ms=1),
            "deadline",
            "request 0.9",
        ),
    ],
)
def test_a_call_that_cannot_be_is_refused_for_its_own_reason(
    call: messages.CallRequest, reason: str, says: str, tmp_path: Path
) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, dialled(cluster) as line:
            line.say(call)
            refused = await line.refusal()
            assert (refused.reason, refused.is_certain) == (reason, True)
            assert says in refused.message
            status = cluster.servers[0].status()
            assert status["refused"] == {reason: 1}
            assert (status["committed"], status["tentative"], status["under_way"]) == (0, 0, 0)
            line.say(messages.CallRequest(2, "get", ("a",)))  # the connection is as good as before
            assert isinstance(await line.hear(), messages.CallIssued)

    run(story())


def test_calls_that_wait_for_others_are_bounded_in_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "WAITING_MAX", 3)

    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, dialled(cluster) as line:
            for number in range(1, 5):
                line.say(messages.CallRequest(number, "put", ("a", 1), after=(Dot(0, 9),)))
            refused = await line.refusal()
            assert (refused.number, refused.reason) == (4, "busy")
            desk = cluster.servers[0].dispatcher
            assert (len(desk.dependency_queue), desk.in_flight) == (3, 3)
            line.say(messages.CancelResponses(2))
            line.say(messages.StatusRequest(9))
            await line.hear()
            assert (len(desk.dependency_queue), desk.in_flight) == (2, 2)

    run(story())


def test_a_client_that_does_not_read_is_left_alone_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "UNREAD_MAX", 1_000_000)

    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            await db.weak.put("a", b"x" * 3_000_000)
            server = cluster.servers[0]
            async with dialled(cluster) as line:
                line.say(*(messages.CallRequest(number, "get", ("a",)) for number in range(1, 30)))
                async with asyncio.timeout(20):
                    while not server.rejections["slow client"]:
                        await asyncio.sleep(0.01)
                assert len(server.dispatcher.connections) == 1
                assert server.dispatcher.in_flight == 0
            assert await db.weak.get("b") is None

    run(story())


def test_a_client_that_reads_slowly_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            await db.weak.put("a", b"x" * 300_000)
            async with dialled(cluster) as line:
                line.say(*(messages.CallRequest(number, "get", ("a",)) for number in range(1, 30)))
                await db.strong.noop()
                line.say(messages.CallRequest(30, "get", ("b",)))  # heard when the rest was read
                numbers: set[int] = set()
                while len(numbers) < 30:
                    message = await line.hear()
                    if isinstance(message, messages.CallResponse):
                        numbers.add(message.number)
            assert not cluster.servers[0].rejections

    run(story())


def test_who_connects_and_says_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepalive, "HELLO_S", 0.05)

    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster:
            host, _, port = cluster.addresses(0)[0].partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            heard = await asyncio.wait_for(reader.read(), 20)
            (payload,) = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX).feed(heard)
            denied = messages.decode_server_message(payload)
            assert isinstance(denied, messages.ConnectionRejected)
            assert "nothing was said" in denied.message
            assert cluster.servers[0].rejections["malformed"] == 1
            writer.close()

    run(story())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (messages.encode_frame(messages.PeerHello(99, "creek", 1, (0, 1), "kv")), "version"),
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
            "datatype",
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
        (messages.encode_frame(messages.ClientHello(messages.WIRE_VERSION, "me")), "malformed"),
        (b"GET / HTTP/1.1\r\n\r\n", UNEXPECTED_HTTP),
        (messages.frame_payload(b"\xc1"), "malformed"),
    ],
)
def test_a_peer_that_is_none_is_left_alone(said: bytes, reason: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=2) as cluster:
            server = cluster.servers[0]
            before = server.rejections[reason]
            host, _, port = cluster._members[0].partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            follow_up = messages.frame_payload(b"\xc1")  # is not even looked at
            writer.write(said + follow_up)
            heard = await asyncio.wait_for(reader.read(), 20)
            writer.close()
            (payload,) = messages.FrameDecoder(messages.PEER_FRAME_BYTES_MAX).feed(heard)
            assert (
                messages.decode_peer_hello(payload).replica == 0
            )  # so it knows what is wrong itself
            assert server.rejections[reason] == before + 1
            assert server.status()["committed"] == 0
            assert server.peers.connected_members() == [1]

    run(story())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dta = 'x'", "unknown key in {path} 'dta': known are .*; did you mean 'data'\\?"),
        ("[security]\nautority = 'x'", "unknown key of security .*did you mean 'authority'"),
        ("data = 3", "Expected `str`, got `int` - at `\\$.data`"),
        ("replica = 7", "replica is 7: members are 0"),
        ("clients = 'here'", "'here' is not an address: write HOST:PORT"),
        ("clients = '0.0.0.0:7100'", "nothing is encrypted: set security.authority"),
        ("[security]\nkey = 'x'", "security needs all of authority, certificate and key"),
        ("[security]\ntokens = {ann = ''}", "that of ann is empty, and everybody could call"),
        ("[security]\ntokens = {ann = 'x', bob = 'x'}", "ann and bob have the same"),
        ("[security]\nadmins = ['ann']", "security.admins: ann has no token"),
        ("data = ", "Invalid value"),
    ],
)
def test_a_mistake_in_a_configuration_is_told_with_its_key(
    text: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "replica.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says.format(path=re.escape(str(path)))):
        read_config(path, {"members": {0: "127.0.0.1:7200"}}, {})
    path.write_text("")
    with pytest.raises(UsageError, match="members are missing"):
        read_config(path, {}, {})


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster:
            taken = cluster.addresses()[0]
            config = msgspec.structs.replace(
                cluster.servers[0].config,
                client_connection=taken,
                members={0: f"127.0.0.1:{free_port()}"},
                data=str(tmp_path / "other"),
            )
            with pytest.raises(UsageError, match=f"cannot listen at {taken}: Address already"):
                await Server(config).start()

    run(story())
