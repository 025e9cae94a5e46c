"""Replicas on real sockets and disks, with clients that are answered."""

import asyncio
import re
import socket
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from creekdb.client import NotDone, OperationFailed, Unknown, connect
from creekdb.errors import UsageError
from creekdb.load.local_cluster import free_port
from creekdb.wire import messages
from creekdb.wire.framing import UNEXPECTED_HTTP, UNEXPECTED_TLS
from tests.cluster.house import PATIENCE_S, House, house


def run(story: object) -> None:
    asyncio.run(story)  # type: ignore[arg-type]


def test_weak_and_strong_calls_are_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db:
            assert await db.weak.put("lamp", 3) is None
            assert await db.weak.get("lamp") == 3
            call = db.strong.put("lamp", 2)
            assert await call.tentative == 3
            assert await call.stable == 3
            ended = await db.weak.increment("visits").final
            assert (ended.value, ended.changed) == (1, False)
            kinds = [answer.kind async for answer in db.strong.put("lamp", 1)]
            assert kinds[-1] == "stable"
            assert set(kinds[:-1]) <= {"tentative"}

    run(story())


def test_every_replica_comes_to_the_same_state(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster:
            async with cluster.client(0) as first, cluster.client(1) as second:
                calls = [each.weak.increment("n") for each in (first, second) for _ in range(50)]
                for call in calls:
                    await call
                assert await first.strong.get("n") <= 100
                finals = [await call.final for call in calls]
                assert sorted(each.value for each in finals) == list(range(1, 101))
            await cluster.until_settled()
            states = [server.driver.replica.state() for server in cluster.servers.values()]
            assert states[0] == states[1] == states[2]
            assert states[0]["n"] == 100

    run(story())


def test_a_call_that_is_asked_again_is_executed_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db:
            call = db.weak.increment("n")
            assert await call == 1
            async with cluster.client(1) as other:
                other._hello = db._hello  # the same client, at another replica
                other._router._last_number = call.message.number - 1
            await cluster.until_settled()
            again = cluster.client(2)
            again._hello = db._hello
            again._router._last_number = call.message.number - 1
            async with again:
                assert await again.strong.increment("n") == 1
                assert await again.strong.get("n") == 1

    run(story())


def test_a_client_goes_on_at_another_replica(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client() as db:
            session = db.session()
            assert await session.weak.increment("n") == 1
            first = db.replica
            assert first is not None
            await cluster.stop(first)
            assert await session.weak.increment("n") == 2  # it sees what it did elsewhere
            assert db.replica != first
            assert await db.strong.get("n") == 2

    run(story())


def test_what_was_answered_is_there_after_a_restart_of_all(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path)
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

    run(story())


def test_a_minority_answers_weakly_and_never_stably(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster:
            await cluster.stop(1, 2)
            async with cluster.client(0) as db:
                assert await db.weak.put("a", 1) is None
                call = db.strong.within(0.5).put("a", 2)
                assert await call.tentative == 1
                with pytest.raises(Unknown, match="no stable answer"):
                    await call.stable
                await cluster.start(1)
                assert await db.strong.get("a") in (1, 2)

    run(story())


def test_calls_that_cannot_be_are_refused_and_nothing_is_done(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            for call, reason in (
                (db.weak.frobnicate(1), "unknown_operation"),
                (db.weak.put("only one"), "bad_arguments"),
                (getattr(db.weak, "creek.once")("me", 1, "put", ()), "unknown_operation"),
            ):
                with pytest.raises(NotDone) as refused:
                    await call
                assert refused.value.reason == reason
            with pytest.raises(OperationFailed, match="can only add an int"):
                await db.weak.increment("n", "many")
            assert (await db.status())["refused"]["bad_arguments"] == 1
            assert await db.strong.scan("") == ()

    run(story())


def test_tokens_versions_and_data_types_are_asked_for(tmp_path: Path) -> None:
    async def story() -> None:
        from creekdb.server.runtime.config import SecurityConfig  # noqa: PLC0415

        security = SecurityConfig(tokens={"ann": "secret"})
        async with house(tmp_path, replicas=1, security=security) as cluster:
            address = cluster.addresses()
            for wrong in ("", "guess"):
                with pytest.raises(UsageError, match="token"):
                    async with connect(address, token=wrong):
                        pass
            with pytest.raises(UsageError, match="'kv' is replicated, not 'bank'"):
                async with connect(address, "bank", token="secret"):
                    pass
            async with connect(address, "kv", token="secret") as db:
                assert await db.weak.put("a", 1) is None
            refused = cluster.servers[0].rejections
            assert (refused["token"], refused["datatype"]) == (2, 1)

    run(story())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\xff" * 100, "too_large"),
        (b"\x16\x03\x01\x02\x00\x01\x00", UNEXPECTED_TLS),
        (messages.frame_payload(b"\xc1garbage"), "malformed"),
        (messages.frame_payload(b""), "malformed"),
        (messages.encode_frame(messages.StatusRequest(1)), "malformed"),
        (messages.encode_frame(messages.ClientHello(99, "me")), "version"),
        (messages.encode_frame(messages.ClientHello(messages.WIRE_VERSION, "")), "malformed"),
        (messages.encode_frame(messages.ClientHello(messages.WIRE_VERSION, "x" * 99)), "malformed"),
    ],
)
def test_garbage_on_the_port_is_answered_counted_and_changes_nothing(
    said: bytes, reason: str, tmp_path: Path
) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster:
            host, _, port = cluster.addresses()[0].partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(said)
            heard = await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.close()
            (payload,) = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX).feed(heard)
            denied = messages.decode_server_message(payload)
            assert isinstance(denied, messages.ConnectionRejected)
            assert denied.reason == reason
            assert cluster.servers[0].rejections[reason] == 1
            async with cluster.client() as db:
                assert await db.weak.put("a", 1) is None

    run(story())


@pytest.mark.parametrize("page", ["127.0.0.1:7399", ""])
def test_a_browser_at_the_port_for_clients_is_told_where_the_page_is(
    page: str, tmp_path: Path
) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1, http=page) as cluster:
            host, _, port = cluster.addresses()[0].partition(":")
            with pytest.raises(HTTPError) as told:
                await asyncio.to_thread(urlopen, f"http://{host}:{port}/")
            assert told.value.code == HTTPStatus.BAD_REQUEST
            where = f"at http://{page}/" if page else "where 'creek serve --http HOST:PORT' says"
            assert told.value.read().decode().endswith(f"HTTP is spoken {where}\n")
            assert cluster.servers[0].rejections == {UNEXPECTED_HTTP: 1}

    run(story())


def test_addresses_of_ipv6_are_told_as_they_are_written(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")

    async def story() -> None:
        cluster = House(tmp_path, 2)
        for addresses in (cluster._members, cluster._clients):
            addresses.update({each: f"[::1]:{free_port()}" for each in addresses})
        await cluster.start()
        await cluster.until_connected()
        here, there = cluster.addresses()
        async with cluster.client(0) as db:
            await db.strong.put("a", 1)
            assert (await db.status())["addresses"] == {"0": here, "1": there}
        await cluster.stop(1)
        with pytest.raises(NotDone, match=re.escape(f"{there}: Connection refused")):
            await cluster.client(1, patience=0.1).__aenter__()
        for_peers = cluster.config(0).members[0]
        with pytest.raises(UsageError, match=re.escape(f"{for_peers} is not for clients")):
            await connect(for_peers).__aenter__()
        await cluster.stop()

    run(story())


def test_a_peer_of_another_cluster_is_left_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=2) as cluster:
            host, _, port = cluster._members[0].partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            stranger = messages.PeerHello(messages.WIRE_VERSION, "another", 1, (0, 1), "kv")
            writer.write(messages.encode_frame(stranger))
            await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.close()
            assert cluster.servers[0].rejections["cluster"] == 1

    run(story())
