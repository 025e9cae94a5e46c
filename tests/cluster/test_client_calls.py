"""What a client can be told: answers in their order, and failures that tell what they mean."""

import asyncio
from pathlib import Path
from typing import NoReturn

import pytest

import creekdb
from creekdb import BadValue, NotDone, OperationFailed, Unknown, UsageError
from creekdb.client import Database
from creekdb.client.call_router import IN_FLIGHT_MAX
from creekdb.datatypes import get_datatype
from creekdb.protocol.ids.version_vector import Dot
from tests.cluster.house import House, house, run

KV = get_datatype("kv")


def nothing_is_left(db: Database) -> bool:
    exchange = db._router
    return not (exchange._open_calls or exchange._in_flight or exchange._queue)


def test_a_typo_is_told_with_the_name_that_was_meant(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster:
            for datatype in ("", KV):
                async with cluster.client(datatype=datatype) as db:
                    with pytest.raises(NotDone, match=r"did you mean 'increment'\?") as refused:
                        await db.weak.incremet("n")
                    assert refused.value.reason == "unknown_operation"
                    assert nothing_is_left(db)

    run(story())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("only one",), "put"),
        (("a", {1, 2}), "cannot be sent"),
        (("a", 2**64), "cannot be sent"),
        (("a", object()), "cannot be sent"),
    ],
)
def test_arguments_that_cannot_be_are_told_before_they_are_sent(
    arguments: tuple[object, ...], says: str, tmp_path: Path
) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster:
            async with cluster.client(datatype=KV) as db:
                with pytest.raises(NotDone, match=says) as refused:
                    await db.weak.put(*arguments)
                assert refused.value.reason == "bad_arguments"
            assert not cluster.servers[0].rejections

    run(story())


def test_a_value_that_is_too_large_is_not_sent(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            with pytest.raises(NotDone, match="at most 4194304 can be sent") as refused:
                await db.weak.put("a", b"x" * 5_000_000)
            assert refused.value.reason == "too_large"
            assert await db.strong.get("a") is None
            assert nothing_is_left(db)

    run(story())


def test_an_answer_that_is_too_large_is_told_as_such(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            for key in "ab":
                await db.weak.put(key, b"x" * 3_000_000)
            with pytest.raises(OperationFailed, match="too long to be sent"):
                await db.weak.scan("")
            assert await db.weak.get("a") == b"x" * 3_000_000  # on the same connection
            assert cluster.servers[0].rejections["answer too large"] == 1

    run(story())


def test_calls_that_time_out_leave_nothing_behind_and_do_not_block_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster:
            await cluster.stop(1, 2)
            async with cluster.client(0) as db:
                calls = [db.strong.within(0.3).put("a", n) for n in range(IN_FLIGHT_MAX + 200)]
                ends = await asyncio.gather(*calls, return_exceptions=True)
                sent = [each for each in ends if isinstance(each, Unknown)]
                waited = [each for each in ends if isinstance(each, NotDone)]
                assert len(sent) + len(waited) == len(calls)
                assert len(sent) >= IN_FLIGHT_MAX
                assert {each.reason for each in waited} <= {"deadline"}
                assert nothing_is_left(db)
                assert await db.weak.get("b") is None
                assert (await db.status())["under_way"] == 0

    run(story())


def test_a_call_after_a_request_that_never_comes_is_refused_in_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            never = Dot(0, 1_000_000)
            with pytest.raises((NotDone, Unknown)):
                await db.weak.after(never).within(0.1).put("a", 1)
            db.weak.after(never).put("a", 2)  # nobody waits for it
            call = db.weak.after(never).put("a", 3)
            desk = cluster.servers[0].dispatcher
            while len(desk.dependency_queue) < 2:
                await asyncio.sleep(0.01)
            db._router._time_out(call)
            while len(desk.dependency_queue) > 1:
                await asyncio.sleep(0.01)
            await db.strong.noop()
            assert desk.in_flight == 1
            await db.__aexit__()
            while desk.connections:
                await asyncio.sleep(0.01)
            assert len(desk.dependency_queue) == desk.in_flight == 0

    run(story())


def test_a_call_comes_after_what_another_client_did_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            house(tmp_path) as cluster,
            cluster.client(0) as ann,
            cluster.client(1) as bob,
        ):
            for number in range(50):
                call = ann.weak.put("n", number)
                await call
                assert await bob.weak.after(call).get("n") == number
            with pytest.raises(BadValue, match="wait for its answer first"):
                bob.weak.after(ann.weak.put("n", 0)).get("n")

    run(story())


def test_a_weak_read_has_one_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            call = db.weak.get("a")
            assert [answer.kind async for answer in call] == ["tentative"]
            with pytest.raises(UsageError, match="get only reads"):
                await call.final

    run(story())


def test_a_stream_that_breaks_off_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster:
            await cluster.stop(1, 2)
            async with cluster.client(0) as db:
                answers = aiter(db.strong.within(0.2).put("a", 1))
                assert (await anext(answers)).kind == "tentative"
                with pytest.raises(Unknown, match=r"no stable answer in 0\.2 s"):
                    await anext(answers)

    run(story())


def test_operations_with_names_that_mean_something_here_can_be_called(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, cluster.client() as db:
            assert await db.weak("put", "a", 1) is None
            with pytest.raises(NotDone, match="unknown operation of kv 'after'"):
                await db.weak("after", 1)

    run(story())


def test_calls_after_the_end_are_not_done(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster:
            async with cluster.client() as db:
                pass
            with pytest.raises(NotDone, match="not connected"):
                await db.weak.put("a", 1)

    run(story())


def test_replicas_that_cannot_be_reached_are_named() -> None:
    async def story() -> None:
        with pytest.raises(NotDone, match=r"no replica can be reached, tried .*: 127.0.0.1:1"):
            async with creekdb.connect("127.0.0.1:1", patience=0.1):
                pass

    run(story())
    for wrong in ("here", "here:there", "here:99999"):
        with pytest.raises(BadValue, match="write HOST:PORT"):
            creekdb.connect(wrong)
    with pytest.raises(BadValue, match="or its name, not module"):
        creekdb.connect("127.0.0.1:1", creekdb.datatypes)  # type: ignore[arg-type]
    with pytest.raises(BadValue, match="no address"):
        creekdb.connect([])
    with pytest.raises(UsageError, match="authority nowhere: No such file"):
        creekdb.connect("127.0.0.1:1", authority="nowhere")


def test_calls_are_given_up_when_all_replicas_are_gone(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path, replicas=3)
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
            assert await db.strong.put("a", 3) in (None, 1)  # whoever comes back is found
        await cluster.stop()

    run(story())


def test_a_replica_that_was_removed_just_now_says_so(tmp_path: Path) -> None:
    def removed(*_: object) -> NoReturn:
        raise UsageError("replica 0 was removed from its cluster: ask another one")

    async def story() -> None:
        async with house(tmp_path, 1) as cluster, cluster.client() as db:
            cluster.servers[0].dispatcher.invoke = removed
            with pytest.raises(NotDone, match="ask another one") as refused:
                await db.weak.put("a", 1)
            assert refused.value.reason == "stopping"
            assert not cluster.servers[0].dispatcher.in_flight

    run(story())
