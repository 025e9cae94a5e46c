"""A client whose replica goes away: its session goes on, and what it is told stays true."""

import asyncio
import shutil
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from creekdb import NotDone, Unknown
from creekdb.client.call_router import IN_FLIGHT_MAX
from creekdb.client.database import RETRY_AFTER_REJECTION_S, Database
from creekdb.protocol.ids.version_vector import Dot
from creekdb.server.runtime.config import SecurityConfig
from creekdb.wire import messages
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from tests.cluster.house import PATIENCE_S, House, house, run


def test_a_session_reads_its_writes_at_any_replica_however_many_they_were(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client() as db:
            session = db.session()
            writes = 0
            for _ in range(6):  # there and back again: what was done at the first counts, too
                for _ in range(100):
                    writes += 1
                    await session.weak.increment("n")
                assert db._router.connection is not None
                db._router.connection.abort()
                assert await session.weak.get("n") == writes
            assert all(len(seen) <= 3 for seen in db._router._session_contexts.values())

    run(story())


def test_a_client_that_is_not_wanted_any_more_does_not_come_again_and_again(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        tokens = {"ann": "secret"}
        async with (
            house(tmp_path, 1, security=SecurityConfig(tokens=tokens)) as cluster,
            cluster.client(token="secret") as db,
        ):
            await db.weak.put("a", 1)
            await cluster.stop()
            await cluster.start(security=SecurityConfig(tokens={"ann": "another"}))
            refused = cluster.servers[0].rejections
            async with asyncio.timeout(PATIENCE_S):
                while not refused["token"]:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(RETRY_AFTER_REJECTION_S / 2)
            assert refused["token"] <= 2
            with pytest.raises(NotDone, match="the token is missing, or none"):
                await db.weak.put("a", 2)

    run(story())


def test_a_session_does_not_go_on_where_its_writes_are_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client() as db:
            session = db.session()
            assert db.replica == 0
            await session.strong.put("a", 1)
            await cluster.stop(1, 2)
            await session.weak.put("a", 2)  # that only replica 0 has
            await cluster.stop(0)
            await cluster.start(1, 2)
            with pytest.raises(NotDone, match="did not arrive here in time") as refused:
                await session.weak.within(1).get("a")
            assert refused.value.reason == "deadline"
            assert await db.session().weak.get("a") == 1  # others may
            call = session.weak.get("a")
            await cluster.start(0)
            assert await call == 2

    run(story())


class Stub:
    """A replica that says what a test wants."""

    def __init__(
        self, say: Callable[["Stub", messages.ClientMessage], None], replica: int = 0
    ) -> None:
        self._say = say
        self._replica = replica
        self.heard: list[messages.CallRequest] = []
        self.names: list[str] = []
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> "Stub":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for each in self._serving:
            each.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def say(self, message: messages.ServerMessage) -> None:
        assert self._writer is not None
        self._writer.write(messages.encode_frame(message))

    def hang_up(self) -> None:
        assert self._writer is not None
        self._writer.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.create_task(self._serve_and_close(reader, writer)))

    async def _serve_and_close(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writer = writer
        with closing(writer), suppress(OSError):
            await self._serve(reader)

    async def _serve(self, reader: asyncio.StreamReader) -> None:
        frames = messages.FrameDecoder(messages.CLIENT_FRAME_BYTES_MAX)
        while data := await reader.read(65536):
            for payload in frames.feed(data):
                message = messages.decode_client_message(payload)
                if isinstance(message, messages.ClientHello):
                    self.names.append(message.client)
                    self.say(messages.Welcome(1, "creek", self._replica, "kv", (("put", False),)))
                else:
                    if isinstance(message, messages.CallRequest):
                        self.heard.append(message)
                    self._say(self, message)


def hang_up(stub: Stub, message: messages.ClientMessage) -> None:
    stub.hang_up()


def busy(stub: Stub, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.say(messages.Rejected(message.number, "busy", "try later"))


def stopping(stub: Stub, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.say(messages.Rejected(message.number, "stopping", "being stopped"))
    stub.hang_up()


def disk(stub: Stub, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.say(messages.Rejected(message.number, "disk", "no space left"))


def alone(stub: Stub, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.say(messages.Rejected(message.number, "no_majority", "reaches 0 of 2 others"))


def issuing(stub: Stub, message: messages.ClientMessage) -> None:
    """And not answering: it may not be on disk."""
    assert isinstance(message, messages.CallRequest)
    stub.say(messages.CallIssued(message.number, Dot(0, 7)))
    stub.hang_up()


def silent(stub: Stub, message: messages.ClientMessage) -> None:
    pass


def answering(stub: Stub, message: messages.ClientMessage) -> None:
    assert isinstance(message, messages.CallRequest)
    stub.say(messages.CallResponse(message.number, "tentative", "done"))


def asked(first: Any, second: Any) -> tuple[Any, Stub, Stub]:
    """What comes of a call that meets the one, and then perhaps the other."""
    from creekdb import connect  # noqa: PLC0415

    async def story() -> tuple[Any, Stub, Stub]:
        async with Stub(first, 0) as one, Stub(second, 1) as other:
            async with connect((one.address, other.address), patience=0.5) as db:
                try:
                    came = await db.weak.put("a", 1)
                except (NotDone, Unknown) as error:
                    came = error
            return came, one, other

    return asyncio.run(story())


def test_a_call_that_was_sent_is_asked_for_again_under_its_number() -> None:
    came, one, other = asked(hang_up, answering)
    assert came == "done"
    assert [call.number for call in one.heard] == [call.number for call in other.heard]


def test_nothing_waits_for_what_may_be_lost_with_its_replica() -> None:
    came, _, other = asked(issuing, answering)
    assert came == "done"
    assert [call.after for call in other.heard] == [()]


def test_what_is_refused_by_the_only_replica_that_heard_it_was_not_done() -> None:
    came, _, other = asked(busy, answering)
    assert isinstance(came, NotDone)
    assert came.reason == "busy"
    assert not other.heard


@pytest.mark.parametrize("reason", ["busy", "bad_arguments", "unknown_operation"])
def test_what_is_refused_by_a_second_replica_may_have_been_done_by_the_first(reason: str) -> None:
    def refusing(stub: Stub, message: messages.ClientMessage) -> None:
        assert isinstance(message, messages.CallRequest)
        stub.say(messages.Rejected(message.number, reason, "not like this"))

    came, _, _ = asked(hang_up, refusing)
    assert isinstance(came, Unknown)  # members change by it, and replicas may be of two releases


def test_a_replica_that_is_being_stopped_sends_clients_to_another() -> None:
    came, _, _ = asked(stopping, answering)
    assert came == "done"
    came, _, _ = asked(stopping, busy)
    assert isinstance(came, NotDone)  # neither has done it


@pytest.mark.parametrize("unwell", [disk, alone])
def test_what_a_replica_cannot_do_now_goes_on_at_another(unwell: Any) -> None:
    came, one, other = asked(unwell, answering)
    assert came == "done"
    assert [call.number for call in one.heard] == [call.number for call in other.heard]
    came, _, _ = asked(hang_up, unwell)
    assert isinstance(came, Unknown)  # the first may have done it, and is gone


def test_when_all_refuse_the_last_reason_is_told() -> None:
    came, one, other = asked(alone, disk)
    assert isinstance(came, NotDone)
    assert came.reason == "no_majority"  # that one was asked twice, before and after the other
    assert (len(one.heard), len(other.heard)) == (2, 1)


def test_when_there_is_no_time_to_ask_another_the_reason_is_told() -> None:
    from creekdb import connect  # noqa: PLC0415

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as hanging:  # it accepts nobody
            nowhere = f"127.0.0.1:{hanging.getsockname()[1]}"
            async with Stub(disk) as one, connect((one.address, nowhere)) as db:
                with pytest.raises(NotDone, match="no space left") as refused:
                    await db.weak.within(0.2).put("a", 1)
                assert refused.value.reason == "disk"

    asyncio.run(story())


def test_calls_that_are_refused_together_go_on_together() -> None:
    from creekdb import connect  # noqa: PLC0415

    async def story() -> None:
        async with Stub(disk) as one, Stub(answering, 1) as other:
            async with connect((one.address, other.address)) as db:
                calls = [db.weak.put("a", each) for each in range(50)]
                assert [await call for call in calls] == ["done"] * 50
                assert db.replica == 1
            assert [call.arguments[1] for call in other.heard] == list(range(50))

    asyncio.run(story())


def test_a_replica_that_falls_silent_is_left() -> None:
    came, one, other = asked(silent, answering)
    assert came == "done"
    assert len(one.heard) == len(other.heard) == 1


@pytest.mark.parametrize(
    "said", [messages.frame_payload(b"\xc1"), b"\xff\xff\xff\xff", b"220 mail"]
)
def test_a_server_that_speaks_another_language_is_named(said: bytes) -> None:
    from creekdb import connect  # noqa: PLC0415

    async def story() -> None:
        async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(said)
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(
            NotDone, match=f"tried for 0.1 s: {address}: what answers there is no replica"
        ):
            async with connect(address, patience=0.1):
                pass
        server.close()

    asyncio.run(story())


def test_a_call_is_done_once_however_many_follow_before_its_first_replica_is_back(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client() as db:
            assert await _asked_of_two(cluster, db) == 1
            for _ in range(3):
                await asyncio.gather(*(_answer(db.weak.put("m", each)) for each in range(500)))
            await db.strong.put("m", 0)  # so all of them are committed
            await cluster.start(0)
            await cluster.until_connected()
            await cluster.until_settled()
            assert await db.strong.get("n") == 1

    run(story())


def test_a_call_is_done_once_however_late_its_first_replica_is_back(tmp_path: Path) -> None:
    forget_after = 0.6

    async def story() -> None:
        async with house(tmp_path, forget_after=forget_after) as cluster, cluster.client() as db:
            assert await _asked_of_two(cluster, db) == 1
            await asyncio.sleep(4 * forget_after)
            await cluster.start(0)
            await cluster.until_connected()
            await cluster.until_settled()
            assert await db.strong.get("n") == 1

    run(story())


async def _asked_of_two(cluster: House, db: Database) -> Any:
    """A call that replica 0 has on disk when it stops, and nobody heard of; the client, who was not
    answered, has asked another one."""
    first = cluster.servers[0]
    assert db.replica == 0
    first.peers.disconnect((1, 2))
    first.dispatcher.respond = lambda response: None  # type: ignore[method-assign]
    call = db.weak.increment("n")
    async with asyncio.timeout(PATIENCE_S):
        while not first.driver.executions or first.driver.backlog:
            await asyncio.sleep(0.01)
    await cluster.stop(0)
    return await call


async def _answer(call: Any) -> Any:
    return await call


def test_no_call_takes_the_place_of_one_that_was_asked_for_again() -> None:
    from creekdb import connect  # noqa: PLC0415

    together = 600  # more than are sent at once

    def first_silent(stub: Stub, message: messages.ClientMessage) -> None:
        if len(stub.heard) == IN_FLIGHT_MAX:
            stub.hang_up()

    async def story() -> None:
        async with Stub(first_silent) as one, Stub(answering, 1) as other:
            async with connect((one.address, other.address)) as db:
                calls = [db.weak.put("a", each) for each in range(together)]
                assert [await call for call in calls] == ["done"] * together
                for each in range(2 * CALLS_PER_CLIENT_MAX):
                    assert await db.weak.put("b", each) == "done"
            again, more = other.heard[:IN_FLIGHT_MAX], other.heard[IN_FLIGHT_MAX:]
            assert again == one.heard
            assert len(more) == together - IN_FLIGHT_MAX + 2 * CALLS_PER_CLIENT_MAX
            assert [call.arguments[1] for call in more[: together - IN_FLIGHT_MAX]] == list(
                range(IN_FLIGHT_MAX, together)
            )
            numbers = [call.number for call in more]
            assert numbers == sorted(set(numbers))
            places = {call.number % CALLS_PER_CLIENT_MAX for call in again}
            assert places.isdisjoint(number % CALLS_PER_CLIENT_MAX for number in numbers)

    asyncio.run(story())


def test_where_too_many_were_asked_for_again_later_calls_have_another_name() -> None:
    from creekdb import connect  # noqa: PLC0415

    together = 2 * IN_FLIGHT_MAX
    taken: list[tuple[str, int]] = []

    def dying(stub: Stub, message: messages.ClientMessage) -> None:
        if len(stub.heard) == IN_FLIGHT_MAX:
            stub.hang_up()

    def answering_half(stub: Stub, message: messages.ClientMessage) -> None:
        if len(stub.heard) <= IN_FLIGHT_MAX:
            answering(stub, message)
        elif len(stub.heard) == 2 * IN_FLIGHT_MAX:
            stub.hang_up()

    def noting(stub: Stub, message: messages.ClientMessage) -> None:
        assert isinstance(message, messages.CallRequest)
        taken.append((stub.names[-1], message.number))
        answering(stub, message)

    async def story() -> None:
        async with (
            Stub(dying) as one,
            Stub(answering_half, 1) as other,
            Stub(noting, 2) as third,
            connect((one.address, other.address, third.address)) as db,
        ):
            calls = [db.weak.put("a", each) for each in range(together)]
            assert [await call for call in calls] == ["done"] * together
            for each in range(2 * CALLS_PER_CLIENT_MAX):
                assert await db.weak.put("b", each) == "done"
            again = [call.number for call in (*one.heard, *other.heard)][: 3 * IN_FLIGHT_MAX]
            later = [number for name, number in taken if name == one.names[0]]
            places = {number % CALLS_PER_CLIENT_MAX for number in again}
            assert places.isdisjoint(
                number % CALLS_PER_CLIENT_MAX for number in later if number not in again
            )

    asyncio.run(story())


def test_a_client_that_owes_nothing_takes_another_name_when_it_moves_on() -> None:
    from creekdb import connect  # noqa: PLC0415

    def answering_once(stub: Stub, message: messages.ClientMessage) -> None:
        answering(stub, message)
        stub.hang_up()

    async def story() -> None:
        async with Stub(hang_up) as one, Stub(answering_once, 1) as other:
            async with connect((one.address, other.address)) as db:
                assert await db.weak.put("a", 1) == "done"
                async with asyncio.timeout(PATIENCE_S):
                    while len(one.names) < 2:  # it goes round
                        await asyncio.sleep(0.01)
            assert one.names[0] == other.names[0], "what is asked for again has its name"
            assert one.names[1] != one.names[0]

    asyncio.run(story())


def test_who_asks_how_it_is_while_no_replica_is_at_hand_waits_for_the_next_one() -> None:
    from creekdb import connect  # noqa: PLC0415

    def telling(stub: Stub, message: messages.ClientMessage) -> None:
        assert isinstance(message, messages.StatusRequest)
        stub.say(messages.StatusResponse(message.number, {"replica": 1}))

    async def story() -> None:
        async with (
            Stub(hang_up) as one,
            Stub(telling, 1) as other,
            connect((one.address, other.address)) as db,
        ):
            one.hang_up()
            async with asyncio.timeout(PATIENCE_S):
                while db._router.connection is not None:
                    await asyncio.sleep(0)
            assert await db.status() == {"replica": 1}
            assert len(other.names) == 1, "there is one connection, which is looked after"
        with pytest.raises(NotDone, match="not connected"):
            await db.status()

    asyncio.run(story())


def test_a_client_goes_past_a_replica_that_takes_no_part_yet(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster:
            await cluster.stop(0, 2)
            shutil.rmtree(tmp_path / "0")
            await cluster.start(0)  # it waits for replica 2
            async with cluster.client(0, 1) as db:
                await db.weak.put("lamp", 3)
                assert db.replica == 1
            async with cluster.client(0) as alone:
                with pytest.raises(NotDone, match="does not take part: its journal was empty"):
                    await alone.weak.within(0.5).get("lamp")
                await cluster.start(2)
                await alone.strong.put("lamp", 4)
                assert await alone.weak.get("lamp") == 4

    run(story())
