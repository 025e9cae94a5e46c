"""Calls, failover and rejections on real sockets and disks."""

import asyncio
import re
import socket
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from creekdb.client import NotDone, Unknown, connect
from creekdb.errors import UsageError
from creekdb.load.local_cluster import free_port
from creekdb.wire import messages
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster

MALFORMED = RejectReason.MALFORMED
UNKNOWN_OPERATION = RejectReason.UNKNOWN_OPERATION


async def test_weak_and_strong_calls_receive_responses(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client(0) as db:
        assert await db.weak.put("lamp", 3) is None
        assert await db.weak.get("lamp") == 3
        call = db.strong.put("lamp", 2)
        assert await call.tentative == 3
        assert await call.stable == 3
        outcome = await db.weak.increment("visits").final
        assert (outcome.value, outcome.changed) == (1, False)
        kinds = [response.kind async for response in db.strong.put("lamp", 1)]
        assert kinds[-1] == "stable"
        assert set(kinds[:-1]) <= {"tentative"}


async def test_all_replicas_converge(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        async with cluster.client(0) as first, cluster.client(1) as second:
            calls = [each.weak.increment("n") for each in (first, second) for _ in range(50)]
            for call in calls:
                await call
            assert await first.strong.get("n") <= 100
            finals = [await call.final for call in calls]
            assert sorted(each.value for each in finals) == list(range(1, 101))
        await cluster.until_quiescent()
        states = [server.driver.replica.view.state() for server in cluster.servers.values()]
        assert states[0] == states[1] == states[2]
        assert states[0]["n"] == 100


async def test_a_retried_call_is_executed_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client(0) as db:
        call = db.weak.increment("n")
        assert await call == 1
        async with cluster.client(1) as other:
            other._hello = db._hello  # the same client at another replica
            other._router._last_number = call.message.number - 1
        await cluster.until_quiescent()
        retrying = cluster.client(2)
        retrying._hello = db._hello
        retrying._router._last_number = call.message.number - 1
        async with retrying:
            assert await retrying.strong.increment("n") == 1
            assert await retrying.strong.get("n") == 1


async def test_a_session_continues_at_another_replica(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as db:
        session = db.session()
        assert await session.weak.increment("n") == 1
        replica = db.replica
        assert replica is not None
        await cluster.stop(replica)
        assert await session.weak.increment("n") == 2  # sees the write at the first replica
        assert db.replica != replica
        assert await db.strong.get("n") == 2


async def test_acknowledged_calls_survive_a_restart_of_all_replicas(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path)
    await cluster.start()
    async with cluster.client(0) as db:
        for number in range(20):
            await db.weak.put(f"weak {number}", number)
        await db.strong.put("strong", "yes")
    await cluster.stop()
    await cluster.start()
    async with cluster.client(2) as db:
        assert await db.strong.get("strong") == "yes"
        keys = [key for key, _ in await db.strong.scan("weak ")]
        assert len(keys) == 20
    await cluster.stop()


async def test_a_minority_serves_weak_calls_and_no_stable_ones(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.stop(1, 2)
        async with cluster.client(0) as db:
            assert await db.weak.put("a", 1) is None
            call = db.strong.within(0.5).put("a", 2)
            assert await call.tentative == 1
            with pytest.raises(Unknown, match="no stable response"):
                await call.stable
            await cluster.start(1)
            assert await db.strong.get("a") in (1, 2)


async def test_invalid_calls_are_rejected_and_not_executed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        for call, reason in (
            (db.weak.frobnicate(1), UNKNOWN_OPERATION),
            (db.weak.put("only one"), RejectReason.BAD_ARGUMENTS),
            (getattr(db.weak, "creek.once")("me", 1, "put", ()), UNKNOWN_OPERATION),
        ):
            with pytest.raises(NotDone) as rejection:
                await call
            assert rejection.value.reason == reason
        with pytest.raises(NotDone, match=r"argument 'amount' of increment.* must be an integer"):
            await db.weak.increment("n", "many")
        assert (await db.status())["refused"][RejectReason.BAD_ARGUMENTS] == 2
        assert await db.strong.scan("") == ()


async def test_tokens_and_data_types_are_checked(tmp_path: Path) -> None:
    from creekdb.server.runtime.config import SecurityConfig  # noqa: PLC0415

    security = SecurityConfig(tokens={"ann": "secret"})
    async with running_cluster(tmp_path, replicas=1, security=security) as cluster:
        address = cluster.addresses()
        for wrong in ("", "guess"):
            with pytest.raises(UsageError, match="token"):
                async with connect(address, token=wrong):
                    pass
        with pytest.raises(UsageError, match="replicates 'kv', not 'bank'"):
            async with connect(address, "bank", token="secret"):
                pass
        async with connect(address, "kv", token="secret") as db:
            assert await db.weak.put("a", 1) is None
        rejections = cluster.servers[0].rejections
        assert (rejections[RejectReason.TOKEN], rejections[RejectReason.DATATYPE]) == (2, 1)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"\xff" * 100, RejectReason.TOO_LARGE),
        (b"\x16\x03\x01\x02\x00\x01\x00", RejectReason.UNEXPECTED_TLS),
        (messages.frame_payload(b"\xc1garbage"), MALFORMED),
        (messages.frame_payload(b""), MALFORMED),
        (messages.encode_frame(messages.StatusRequest(1)), MALFORMED),
        (messages.encode_frame(messages.ClientHello(99, "me")), RejectReason.VERSION),
        (messages.encode_frame(messages.ClientHello(messages.WIRE_VERSION, "")), MALFORMED),
        (messages.encode_frame(messages.ClientHello(messages.WIRE_VERSION, "x" * 99)), MALFORMED),
    ],
)
async def test_garbage_on_the_client_port_is_rejected_and_counted(
    sent: bytes, reason: str, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster:
        host, _, port = cluster.addresses()[0].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        received = await asyncio.wait_for(reader.read(), TIMEOUT_S)
        writer.close()
        (payload,) = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX).feed(received)
        rejected = messages.decode_server_message(payload)
        assert isinstance(rejected, messages.ConnectionRejected)
        assert rejected.reason == reason
        assert cluster.servers[0].rejections[reason] == 1
        async with cluster.client() as db:
            assert await db.weak.put("a", 1) is None


@pytest.mark.parametrize("page", ["127.0.0.1:7399", ""])
async def test_a_browser_at_the_client_port_is_referred_to_the_http_address(
    page: str, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, replicas=1, http=page) as cluster:
        host, _, port = cluster.addresses()[0].partition(":")
        with pytest.raises(HTTPError) as error:
            await asyncio.to_thread(urlopen, f"http://{host}:{port}/")
        assert error.value.code == HTTPStatus.BAD_REQUEST
        unset = "at the address of 'creek serve --http HOST:PORT'"
        location = f"at http://{page}/" if page else unset
        assert error.value.read().decode().endswith(f"HTTP is served {location}\n")
        assert cluster.servers[0].rejections == {RejectReason.UNEXPECTED_HTTP: 1}


async def test_ipv6_addresses_are_reported_in_brackets(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("IPv6 is not available")
    cluster = InProcessCluster(tmp_path, 2)
    for addresses in (cluster._members, cluster._clients):
        addresses.update({each: f"[::1]:{free_port()}" for each in addresses})
    await cluster.start()
    await cluster.until_connected()
    first, second = cluster.addresses()
    async with cluster.client(0) as db:
        await db.strong.put("a", 1)
        assert (await db.status())["addresses"] == {"0": first, "1": second}
    await cluster.stop(1)
    with pytest.raises(NotDone, match=re.escape(f"{second}: Connection refused")):
        await cluster.client(1, patience=0.1).__aenter__()
    peer_address = cluster.config(0).members[0]
    with pytest.raises(UsageError, match=re.escape(f"{peer_address} is not a client port")):
        await connect(peer_address).__aenter__()
    await cluster.stop()


async def test_a_peer_of_another_cluster_is_rejected(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=2) as cluster:
        host, _, port = cluster._members[0].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        stranger = messages.PeerHello(messages.WIRE_VERSION, "another", 1, (0, 1), "kv")
        writer.write(messages.encode_frame(stranger))
        await asyncio.wait_for(reader.read(), TIMEOUT_S)
        writer.close()
        assert cluster.servers[0].rejections["cluster"] == 1
