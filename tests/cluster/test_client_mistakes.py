"""What programs do wrong when they talk to a cluster for the first time."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import creekdb
from creekdb import BadValue, NotDone, UsageError
from creekdb.wire import messages
from tests.cluster.house import house, run


def test_arguments_by_name_are_told_to_be_given_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            with pytest.raises(NotDone, match=r"in their order, without names, not as value=…"):
                await db.weak.put("a", value=1)
            with pytest.raises(NotDone, match="without names"):
                await db.weak("put", "a", value=1)
            with pytest.raises(BadValue, match="within is a number of seconds"):
                db.weak.within("2")  # type: ignore[arg-type]
            with pytest.raises(BadValue, match="'after' takes calls"):
                await db.weak.after(5).put("a", 1)  # type: ignore[arg-type]
            assert await db.strong.get("a") is None

    run(story())


def test_names_that_are_no_operation_are_told_what_there_is(tmp_path: Path) -> None:
    kv = "operations are .*get, .*put"

    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            begin: Any = db.weak.begin
            with pytest.raises(AttributeError, match=rf"'begin' has no 'put': .*asyncio.*{kv}"):
                begin.put("a", 1)
            got: Any = db.weak.gett
            with pytest.raises(AttributeError, match=rf"'gett' has no 'final': .* no .*{kv}"):
                got.final  # noqa: B018
            put: Any = db.strong.put
            with pytest.raises(AttributeError, match=r"it is an operation, .* as put\(…\)"):
                put.stable  # noqa: B018
            with pytest.raises(UsageError, match=r"'put' was not called: .* as put\(…\)"):
                await put
            caller: Any = db.weak.within(2)
            with pytest.raises(UsageError, match=f"nothing is called yet: {kv}"):
                await caller
            with pytest.raises(BadValue, match=f"comes first, and there is none: {kv}"):
                db.weak()
            with pytest.raises(BadValue, match=f"comes first, not 5: {kv}"):
                db.weak(5, "a")  # type: ignore[arg-type]
            with pytest.raises(BadValue, match=r"called as db\.weak\('after', …\)"):
                db.weak.after("lamp")
            with pytest.raises(BadValue, match=r"called as db\.weak\('within', …\)"):
                db.weak.within("lamp")  # type: ignore[arg-type]
            session: Any = db.session()
            with pytest.raises(AttributeError, match=r"as session\.weak\.put\(…\)"):
                session.put("a", 1)
            assert not hasattr(put, "__wrapped__")
            assert not hasattr(put, "_is_coroutine")

    run(story())


def test_connections_and_calls_show_what_they_are(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            assert repr(db) == f"<Creek at {cluster.addresses()[0]}: replica 0 of 'kv'>"
            call = db.weak.put("lamp", 3)
            assert repr(call) == "<weak call put('lamp', 3): no answer yet>"
            await call
            assert repr(call) == "<weak call put('lamp', 3): None, tentative>"
            await db.strong.after(str(call.id)).get("lamp")
            await call.final
            assert repr(call) == "<weak call put('lamp', 3): None, final>"
            wrong = db.weak.putt("lamp")
            assert "putt('lamp'): NotDone: unknown operation" in repr(wrong)

    run(story())


@asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    yield
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def refused_by(first: bytes) -> BaseException:
    """What a client raises where that is the first word."""

    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with closing(writer):
            writer.write(first)

    server = await asyncio.start_server(speak, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    try:
        await creekdb.connect(f"127.0.0.1:{port}", patience=0.1).__aenter__()
    except creekdb.CreekError as error:
        return error
    finally:
        server.close()
    raise AssertionError


def test_a_port_that_is_not_for_clients_is_told_so_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=2) as cluster:
            at = dict(cluster.config(0).members)[0]
            with pytest.raises(UsageError, match=f"{at} is not .* where replicas find each other"):
                await creekdb.connect(at).__aenter__()
        refused = await refused_by(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert isinstance(refused, UsageError)
        assert "it speaks HTTP, which is for browsers" in str(refused)

    run(story())


def test_who_leaves_a_silent_replica_hears_nothing_of_it_afterwards() -> None:
    """The client had asked it how it is, when the program ended."""
    complaints: list[Any] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
        asked, gone = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)
            welcome = messages.Welcome(messages.WIRE_VERSION, "creek", 0, "kv", (("put", False),))
            async with closing(writer):
                while data := await reader.read(65_536):
                    for message in map(messages.decode_client_message, frames.feed(data)):
                        if isinstance(message, messages.ClientHello):
                            writer.write(messages.encode_frame(welcome))
                        elif isinstance(message, messages.StatusRequest):
                            asked.set()
            gone.set()

        server = await asyncio.start_server(silent, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        async with creekdb.connect(f"127.0.0.1:{port}", patience=1) as db:
            call = db.weak.put("lamp", 3)
            await asked.wait()
        assert "closed before there was an answer" in repr(call)
        await gone.wait()
        server.close()

    run(story())
    gc.collect()
    assert not complaints
