"""What a load asks of a replica, and what of the answers it measures."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from creekdb.errors import UsageError
from creekdb.load.connection import LoadConnection, LoadTarget, dial
from creekdb.load.measurement import (
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK_FINAL,
    WEAK_TENTATIVE,
    LoadMeter,
)
from creekdb.load.workload import WorkloadCall
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire import messages as wire


class Transport:
    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return False

    @property
    def calls(self) -> list[wire.CallRequest]:
        """What was written but for the hello."""
        frames = wire.FrameDecoder(wire.CLIENT_FRAME_BYTES_MAX)
        said = [wire.decode_client_message(each) for each in frames.feed(b"".join(self.writes))]
        return [each for each in said if isinstance(each, wire.CallRequest)]


def said(*messages: wire.ServerMessage) -> bytes:
    return b"".join(wire.encode_frame(each) for each in messages)


def talk(
    story: Callable[[LoadConnection, Transport, LoadMeter, list[int]], None], again: bool = False
) -> None:
    """With a line on which nothing was asked yet, what counts, and who were done. `again`: each of
    them asks again at once."""

    async def on_a_loop() -> None:
        meter, transport, done = LoadMeter(0, 2**62), Transport(), list[int]()

        def note(line: LoadTarget, who: int) -> None:
            done.append(who)
            if again:
                line.call(WorkloadCall("get", ("a",), False), who)

        line = LoadConnection(meter, note)
        line.connection_made(cast(asyncio.Transport, transport))
        line.data_received(said(wire.Welcome(1, "creek", 0, "kv", ())))
        assert line.welcome.done()
        story(line, transport, meter, done)

    asyncio.run(on_a_loop())


def test_a_brief_line_asks_for_one_answer_and_measures_no_other() -> None:
    async def on_a_loop() -> None:
        meter, transport = LoadMeter(0, 2**62), Transport()
        line = LoadConnection(meter, lambda line, who: None, brief=True)
        line.connection_made(cast(asyncio.Transport, transport))
        line.call(WorkloadCall("put", ("a", 1), False), 0)
        await asyncio.sleep(0)
        assert [call.is_single_response for call in transport.calls] == [True]
        # Also where the replica is of an earlier version, and says all there is to say.
        line.data_received(said(wire.CallIssued(1, Dot(0, 1)), wire.CallResponse(1, "tentative")))
        line.data_received(said(wire.CallResponse(1, "final")))
        assert [each for each, count in enumerate(counts(meter)) if count] == [WEAK_TENTATIVE]

    asyncio.run(on_a_loop())


def counts(meter: LoadMeter) -> list[int]:
    return [len(each) for each in meter.latencies_ns]


def test_a_weak_call_is_done_with_its_first_answer_and_measured_to_the_last() -> None:
    def story(
        line: LoadConnection, transport: Transport, meter: LoadMeter, done: list[int]
    ) -> None:
        line.call(WorkloadCall("put", ("a", b"value"), False), 5)
        line.data_received(said(wire.CallIssued(1, Dot(0, 1))))
        assert (line.in_flight, done) == (1, [])
        line.data_received(said(wire.CallResponse(1, "tentative", {"any": (1, None)})))
        assert (line.in_flight, done, meter.weak_completed) == (0, [5], 1)
        line.data_received(said(wire.CallResponse(1, "final", None, "ValueError: no", True)))
        assert (done, meter.completed, meter.operation_errors) == ([5], 1, 0)
        assert [each for each, count in enumerate(counts(meter)) if count] == [
            WEAK_TENTATIVE,
            WEAK_FINAL,
        ]
        assert transport.calls == [wire.CallRequest(1, "put", ("a", b"value"), False, 5)]

    talk(story)


def test_a_strong_call_is_done_when_it_is_stable() -> None:
    def story(
        line: LoadConnection, transport: Transport, meter: LoadMeter, done: list[int]
    ) -> None:
        line.call(WorkloadCall("put", ("a", 1), True), 7)
        line.data_received(
            said(wire.CallIssued(1, Dot(0, 1)), wire.CallResponse(1, "tentative", None))
        )
        assert (line.in_flight, done) == (1, [])
        line.data_received(said(wire.CallResponse(1, "stable", None, "KeyError: 'a'")))
        assert (line.in_flight, done, meter.strong_completed, meter.operation_errors) == (
            0,
            [7],
            1,
            1,
        )
        assert [each for each, count in enumerate(counts(meter)) if count] == [
            STRONG_TENTATIVE,
            STRONG_STABLE,
        ]

    talk(story)


def test_of_a_strong_calls_tentative_answers_the_first_is_measured() -> None:
    def story(
        line: LoadConnection, transport: Transport, meter: LoadMeter, done: list[int]
    ) -> None:
        for who in range(2):
            line.call(WorkloadCall("put", ("a", 1), True), who)
        line.data_received(
            said(wire.CallResponse(1, "tentative", 1), wire.CallResponse(1, "tentative", 2))
        )
        line.data_received(
            said(wire.CallResponse(1, "stable", 2), wire.CallResponse(2, "stable", 1))
        )
        assert len(meter.latencies_ns[STRONG_TENTATIVE]) == 1
        assert len(meter.latencies_ns[STRONG_STABLE]) == len(done) == 2

    talk(story)


def test_all_that_is_asked_for_answers_that_came_together_leaves_in_one_piece() -> None:
    def story(
        line: LoadConnection, transport: Transport, meter: LoadMeter, done: list[int]
    ) -> None:
        for who in range(4):
            line.call(WorkloadCall("put", ("a", who), False), who)
        line.data_received(b"")
        before = len(transport.writes)
        answers = said(*[wire.CallResponse(number, "tentative", None) for number in range(1, 5)])
        line.data_received(answers[:-3])
        line.data_received(answers[-3:])
        assert len(transport.writes) == before + 2
        assert [each.number for each in transport.calls] == list(range(1, 9))
        assert [each.session for each in transport.calls[4:]] == done == [0, 1, 2, 3]

    talk(story, again=True)


def test_who_is_refused_is_done_as_well() -> None:
    def story(
        line: LoadConnection, transport: Transport, meter: LoadMeter, done: list[int]
    ) -> None:
        line.call(WorkloadCall("put", ("a", 1), True), 1)
        line.call(WorkloadCall("put", ("a", 1), False), 2)
        line.data_received(said(wire.CallResponse(2, "tentative", None)))
        line.data_received(
            said(wire.Rejected(1, "busy", "later"), wire.Rejected(2, "busy", "told"))
        )
        assert (line.in_flight, done, meter.errors) == (0, [2, 1], {"busy": 1})
        line.data_received(said(wire.CallResponse(2, "final", None)))
        assert not meter.latencies_ns[WEAK_FINAL]

    talk(story)


def test_who_waits_when_the_connection_is_lost_is_told() -> None:
    def story(
        line: LoadConnection, transport: Transport, meter: LoadMeter, done: list[int]
    ) -> None:
        for who in range(3):
            line.call(WorkloadCall("put", ("a", 1), False), who)
        line.connection_lost(None)
        assert (line.in_flight, done, meter.errors) == (0, [0, 1, 2], {"connection lost": 3})
        assert line.closed.done()

    talk(story)


def test_a_replica_that_refuses_a_load_says_why() -> None:
    async def on_a_loop() -> None:
        line = LoadConnection(LoadMeter(0, 1), lambda line, who: None)
        line.connection_made(cast(asyncio.Transport, Transport()))
        line.data_received(said(wire.ConnectionRejected("token", "the token is missing")))
        with pytest.raises(UsageError, match="the token is missing"):
            await line.welcome

    asyncio.run(on_a_loop())


def test_a_port_that_is_not_for_clients_is_told_so() -> None:
    complaints: list[object] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))

        async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1")
        at = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(UsageError, match=f"{at}: it speaks HTTP, which is for browsers"):
            await dial(at, LoadMeter(0, 2**62), lambda _line, _who: None)
        server.close()

    asyncio.run(story())
    assert not complaints
