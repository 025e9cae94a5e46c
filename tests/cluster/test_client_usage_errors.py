"""Common usage errors of client programs."""

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
from tests.cluster.in_process_cluster import running_cluster


async def test_invalid_arguments_are_rejected(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        with pytest.raises(NotDone, match="has no parameter 'worth'"):
            await db.weak.put("a", worth=1)
        with pytest.raises(NotDone, match="received the argument 'key' twice"):
            await db.weak("put", "a", key=1)
        with pytest.raises(BadValue, match="within must be a number of seconds"):
            db.weak.within("2")  # type: ignore[arg-type]
        with pytest.raises(BadValue, match="'after' takes calls"):
            await db.weak.after(5).put("a", 1)  # type: ignore[arg-type]
        too_deep: Any = 1
        for _ in range(300):
            too_deep = [too_deep]
        with pytest.raises(NotDone, match="levels of nesting"):
            await db.weak.put("a", too_deep)
        assert await db.strong.get("a") is None


async def test_unknown_names_raise_with_the_list_of_operations(tmp_path: Path) -> None:
    kv = "operations are .*get, .*put"
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        begin: Any = db.weak.begin
        with pytest.raises(AttributeError, match=rf"'begin' has no 'put': .*asyncio.*{kv}"):
            begin.put("a", 1)
        unknown: Any = db.weak.gett
        with pytest.raises(
            AttributeError, match=rf"'gett' has no 'final': it is not an operation; {kv}"
        ):
            unknown.final  # noqa: B018
        put: Any = db.strong.put
        with pytest.raises(AttributeError, match=r"it is an operation; .* as put\(…\)"):
            put.stable  # noqa: B018
        with pytest.raises(UsageError, match=r"'put' was not called: .* as put\(…\)"):
            await put
        caller: Any = db.weak.within(2)
        with pytest.raises(UsageError, match=f"no operation was called; {kv}"):
            await caller
        with pytest.raises(BadValue, match=f"the name of the operation is missing; {kv}"):
            db.weak()
        with pytest.raises(
            BadValue, match=f"the name of the operation must be a string, not 5; {kv}"
        ):
            db.weak(5, "a")  # type: ignore[call-overload]
        with pytest.raises(BadValue, match=r"called as db\.weak\('after', …\)"):
            db.weak.after("lamp")
        with pytest.raises(BadValue, match=r"called as db\.weak\('within', …\)"):
            db.weak.within("lamp")  # type: ignore[arg-type]
        session: Any = db.session()
        with pytest.raises(AttributeError, match=r"as session\.weak\.put\(…\)"):
            session.put("a", 1)
        assert not hasattr(put, "__wrapped__")
        assert not hasattr(put, "_is_coroutine")


async def test_connections_and_calls_have_a_useful_repr(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        assert repr(db) == f"<Creek at {cluster.addresses()[0]}: replica 0 of 'kv'>"
        call = db.weak.put("lamp", 3)
        assert repr(call) == "<weak call put('lamp', 3): no response yet>"
        await call
        assert repr(call) == "<weak call put('lamp', 3): None, tentative>"
        await db.strong.after(str(call.id)).get("lamp")
        await call.final
        assert repr(call) == "<weak call put('lamp', 3): None, final>"
        wrong = db.weak.putt("lamp")
        assert "putt('lamp'): NotDone: unknown operation" in repr(wrong)


@asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    yield
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def connection_error(greeting: bytes) -> BaseException:
    """Return the error of a client whose server sends these bytes first."""

    async def send_greeting(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with closing(writer):
            writer.write(greeting)

    server = await asyncio.start_server(send_greeting, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    try:
        await creekdb.connect(f"127.0.0.1:{port}", patience=0.1).__aenter__()
    except creekdb.CreekError as error:
        return error
    finally:
        server.close()
    raise AssertionError


async def test_a_port_of_another_protocol_is_reported_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=2) as cluster:
        peer_address = dict(cluster.config(0).members)[0]
        with pytest.raises(
            UsageError, match=f"{peer_address} is not a client port: it serves other replicas"
        ):
            await creekdb.connect(peer_address).__aenter__()
    error = await connection_error(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert isinstance(error, UsageError)
    assert "is not a client port: it serves HTTP" in str(error)


async def test_closing_during_a_status_request_logs_no_error() -> None:
    """The replica never responds to the status request of the failure detector."""
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    status_requested, disconnected = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)
        welcome = messages.Welcome(messages.WIRE_VERSION, "creek", 0, "kv", (("put", False),))
        async with closing(writer):
            while data := await reader.read(65_536):
                for message in map(messages.decode_client_message, frames.feed(data)):
                    if isinstance(message, messages.ClientHello):
                        writer.write(messages.encode_frame(welcome))
                    elif isinstance(message, messages.StatusRequest):
                        status_requested.set()
        disconnected.set()

    server = await asyncio.start_server(silent, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    async with creekdb.connect(f"127.0.0.1:{port}", patience=1) as db:
        call = db.weak.put("lamp", 3)
        await status_requested.wait()
    assert "closed before a response arrived" in repr(call)
    await disconnected.wait()
    server.close()
    gc.collect()
    assert not errors
