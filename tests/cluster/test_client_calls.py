"""Responses and errors of client calls."""

import asyncio
import json
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

import creekdb
from creekdb import BadValue, NotDone, OperationFailed, Unknown, UsageError
from creekdb.cli import main
from creekdb.client import Database
from creekdb.client.call_router import IN_FLIGHT_MAX
from creekdb.datatypes import get_datatype
from creekdb.datatypes.kv import increment
from creekdb.execution.datatype import DataType
from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.runtime.driver import Driver
from creekdb.wire.counters import ServerCounter
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import InProcessCluster, running_cluster
from tests.http.http_cluster import http_cluster

KV = get_datatype("kv")


def is_idle(db: Database) -> bool:
    """True if no call is open, in flight or queued."""
    router = db._router
    return not (router._open_calls or router._in_flight or router._queue)


async def test_an_unknown_operation_suggests_a_name(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster:
        for datatype in ("", KV):
            async with cluster.client(datatype=datatype) as db:
                with pytest.raises(NotDone, match=r"did you mean 'increment'\?") as rejection:
                    await db.weak.incremet("n")
                assert rejection.value.reason == RejectReason.UNKNOWN_OPERATION
                assert is_idle(db)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("only one",), "put"),
        (("a", {1, 2}), "cannot be sent"),
        (("a", 2**64), "cannot be sent"),
        (("a", object()), "cannot be sent"),
    ],
)
async def test_invalid_arguments_are_rejected_before_they_are_sent(
    arguments: tuple[object, ...], expected: str, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster:
        async with cluster.client(datatype=KV) as db:
            with pytest.raises(NotDone, match=expected) as rejection:
                await db.weak.put(*arguments)
            assert rejection.value.reason == RejectReason.BAD_ARGUMENTS
        assert not cluster.servers[0].rejections


async def test_a_value_above_the_limit_is_not_sent(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        with pytest.raises(NotDone, match="the limit is 4194304 bytes") as rejection:
            await db.weak.put("a", b"x" * 5_000_000)
        assert rejection.value.reason == RejectReason.TOO_LARGE
        assert await db.strong.get("a") is None
        assert is_idle(db)


async def test_a_response_above_the_limit_is_reported(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        for key in "ab":
            await db.weak.put(key, b"x" * 3_000_000)
        with pytest.raises(OperationFailed, match="exceeds the limit of"):
            await db.weak.scan("")
        assert await db.weak.get("a") == b"x" * 3_000_000  # on the same connection
        assert cluster.servers[0].rejections[ServerCounter.RESPONSE_TOO_LARGE] == 1


async def test_calls_that_time_out_are_released_and_do_not_block_others(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.stop(1, 2)
        async with cluster.client(0) as db:
            calls = [db.strong.within(0.3).put("a", n) for n in range(IN_FLIGHT_MAX + 200)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            sent = [each for each in outcomes if isinstance(each, Unknown)]
            waited = [each for each in outcomes if isinstance(each, NotDone)]
            assert len(sent) + len(waited) == len(calls)
            assert len(sent) >= IN_FLIGHT_MAX
            assert {each.reason for each in waited} <= {RejectReason.DEADLINE}
            assert is_idle(db)
            assert await db.weak.get("b") is None
            assert (await db.status())["under_way"] == 0


async def test_a_call_after_an_unknown_request_is_rejected_in_time(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        never = Dot(0, 1_000_000)
        with pytest.raises((NotDone, Unknown)):
            await db.weak.after(never).within(0.1).put("a", 1)
        db.weak.after(never).put("a", 2)  # not awaited
        call = db.weak.after(never).put("a", 3)
        dispatcher = cluster.servers[0].dispatcher
        while dispatcher.queued_count < 2:
            await asyncio.sleep(0.01)
        db._router._time_out(call)
        while dispatcher.queued_count > 1:
            await asyncio.sleep(0.01)
        await db.strong.noop()
        assert dispatcher.in_flight == 1
        await db.__aexit__()
        while cluster.servers[0].clients.connections:
            await asyncio.sleep(0.01)
        assert dispatcher.queued_count == dispatcher.in_flight == 0


async def test_a_call_follows_a_call_of_another_client_at_another_replica(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        cluster.client(0) as ann,
        cluster.client(1) as bob,
    ):
        for number in range(50):
            call = ann.weak.put("n", number)
            await call
            assert await bob.weak.after(call).get("n") == number
        with pytest.raises(BadValue, match="the call has no id yet; await it first"):
            bob.weak.after(ann.weak.put("n", 0)).get("n")


async def test_a_weak_read_has_one_response(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        call = db.weak.get("a")
        assert [response.kind async for response in call] == ["tentative"]
        with pytest.raises(UsageError, match="get has no final response: a weak read"):
            await call.final


async def test_an_incomplete_response_stream_raises_unknown(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.stop(1, 2)
        async with cluster.client(0) as db:
            responses = aiter(db.strong.within(0.2).put("a", 1))
            assert (await anext(responses)).kind == "tentative"
            with pytest.raises(Unknown, match=r"no stable response within 0\.2 s"):
                await anext(responses)


async def test_operations_named_like_client_methods_can_be_called(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster, cluster.client() as db:
        assert await db.weak("put", "a", 1) is None
        with pytest.raises(NotDone, match="unknown operation of kv 'after'"):
            await db.weak("after", 1)


async def test_calls_after_close_are_rejected(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster:
        async with cluster.client() as db:
            pass
        with pytest.raises(NotDone, match="not connected"):
            await db.weak.put("a", 1)


async def test_unreachable_replicas_are_named() -> None:
    with pytest.raises(NotDone, match=r"no replica can be reached, tried .*: 127.0.0.1:1"):
        async with creekdb.connect("127.0.0.1:1", patience=0.1):
            pass
    for wrong in ("here", "here:there"):
        with pytest.raises(BadValue, match="write HOST:PORT"):
            creekdb.connect(wrong)
    with pytest.raises(BadValue, match="a port is at most 65535"):
        creekdb.connect("here:99999")
    with pytest.raises(BadValue, match="or its name, not module"):
        creekdb.connect("127.0.0.1:1", creekdb.datatypes)  # type: ignore[arg-type]
    with pytest.raises(BadValue, match="no address"):
        creekdb.connect([])
    with pytest.raises(UsageError, match="authority nowhere: No such file"):
        creekdb.connect("127.0.0.1:1", authority="nowhere")


async def test_calls_fail_when_all_replicas_are_down(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, replicas=3)
    await cluster.start()
    await cluster.until_connected()
    await cluster.stop(1, 2)
    async with cluster.client(0, patience=0.2) as db:
        sent = db.strong.put("a", 1)
        await sent.tentative
        await cluster.stop(0)
        with pytest.raises(Unknown, match="no replica can be reached"):
            await sent
        with pytest.raises(NotDone, match="no replica can be reached"):
            await db.strong.put("a", 2)
        await cluster.start()
        assert await db.strong.put("a", 3) in (
            None,
            1,
        )  # the client finds the restarted replicas
    await cluster.stop()


async def test_a_removed_replica_rejects_calls(tmp_path: Path) -> None:
    class RemovedReplica:
        def invoke(self, *_: object) -> NoReturn:
            raise UsageError(
                "call rejected: replica 0 was removed from its cluster; call another replica"
            )

    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as db:
        cluster.servers[0].dispatcher._driver = cast(Driver, RemovedReplica())
        with pytest.raises(NotDone, match="call another replica") as rejection:
            await db.weak.put("a", 1)
        assert rejection.value.reason == RejectReason.STOPPING
        assert not cluster.servers[0].dispatcher.in_flight


@pytest.mark.parametrize("datatype", ["kv", KV])
async def test_arguments_are_given_by_name_or_position(
    datatype: DataType | str, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client(datatype=datatype) as db:
        await db.weak.put("lamp", value=3)
        await db.strong("put", value=4, key="vase")
        assert await db.weak.scan(limit=1) == (("lamp", 3),)
        assert await db.strong(increment, "lamp", amount=2) == 5


async def test_a_connection_is_opened_and_closed_without_a_statement(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        db = await cluster.client()
        await db.weak.put("lamp", 3)
        await db.close()
        with pytest.raises(NotDone, match="not connected"):
            db.weak.get("lamp")

        blocking = await asyncio.to_thread(cluster.client().open)
        assert await asyncio.to_thread(blocking.weak.get, "lamp") == 3
        for _ in range(2):
            await asyncio.to_thread(blocking.close)


@pytest.mark.parametrize(
    ("operation", "named", "is_valid"),
    [
        ("increment", {"key": "n", "amount": "2"}, False),
        ("increment", {"key": "n", "amount": True}, False),
        ("increment", {"key": "n", "amount": 2.0}, True),
        ("increment", {"key": 3}, False),
        ("scan", {"limit": None}, True),
        ("scan", {"limit": "2"}, False),
        ("put", {"key": "n", "value": [1, "a"]}, True),
        ("put", {"key": "n"}, False),
    ],
)
async def test_python_the_command_and_http_accept_the_same_arguments(
    operation: str, named: dict[str, Any], is_valid: bool, tmp_path: Path
) -> None:
    positional = ["", *named.values()] if operation == "scan" else list(named.values())
    async with http_cluster(tmp_path, datatype="kv") as http:
        response = await http.post(f"/operations/{operation}", named)
        assert (response.status < 300) is is_valid, response.body
        for datatype in ("kv", KV):
            async with http.cluster.client(datatype=datatype) as db:
                for call in (
                    db.weak(operation, **named),
                    db.batch([(operation, *positional)]),
                ):
                    outcomes = await asyncio.gather(call.tentative, return_exceptions=True)
                    reason = getattr(outcomes[0], "reason", None)
                    assert reason == (None if is_valid else RejectReason.BAD_ARGUMENTS)
        words = [each if each == "" else json.dumps(each) for each in positional]
        at = ["--at", http.cluster.addresses()[0]]
        code = await asyncio.to_thread(main, ["call", operation, *words, *at])
        assert code == (0 if is_valid else 2)
