"""What the driver of a replica lets leave, and when."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from creekdb.errors import StorageFault
from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    EncodedCheckpoint,
    StreamedCheckpoint,
    StreamedSnapshot,
    lazy_checkpoint_of,
)
from creekdb.protocol.effects import Effects, Response, ResponseKind, Send
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    Cast,
    Checkpoint,
    CheckpointRecord,
    Decided,
    Message,
    Prepare,
    Progress,
    Promised,
    Received,
    Record,
    Snapshot,
    Vote,
    decode_record,
)
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.schemes.core.replica import Replica
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.executors import InlineExecutor, Watchdog
from creekdb.server.storage.checkpoint_writer import EncodedSnapshot
from creekdb.server.storage.segment_writer import CheckpointSlot
from creekdb.wire.event_log import EventLog

WEAK = Dot(0, 1)


class Disk:
    """Durable when a test says so."""

    def __init__(self) -> None:
        self.durable_position = 0
        self.fault: StorageFault | None = None
        self._end = 0
        self.records: list[Record] = []
        self.hurried = 0
        """Somebody waits for all before."""
        self.rooms: list[int] = []
        self.images: list[int] = []
        self.drawn: list[bytes] = []

    def append(self, records: Sequence[Record], hurry: bool = True) -> int:
        self._end += len(records)
        self.records += records
        if hurry:
            self.request_sync()
        return self._end

    def request_sync(self) -> None:
        self.hurried = self._end

    def append_checkpoint(self, pieces: Iterable[bytes]) -> int:
        self.drawn.append(b"".join(pieces))
        self._end += 1
        return self._end

    def reserve_checkpoint(self) -> CheckpointSlot:
        self._end += 1
        self.rooms.append(self._end - 1)
        return CheckpointSlot(self._end - 1)

    def write_checkpoint(
        self, room: CheckpointSlot, pieces: Iterable[bytes], over: Callable[[], None]
    ) -> None:
        self.images.append(room.position)


class Scripted:
    """A replica whose effects are given."""

    def __init__(self, *effects: Effects) -> None:
        self._effects = list(effects)

    def take_effects(self) -> Effects:
        return self._effects.pop(0)


def answer(kind: ResponseKind) -> Response:
    return Response(WEAK, 7, kind, Outcome(None))


def driven(
    replica: Scripted,
    disk: Disk,
    left: list[ResponseKind],
    snapshots: list[EncodedSnapshot] | None = None,
    sent: list[Message] | None = None,
) -> Driver:
    return Driver(
        cast(Replica, replica),
        disk,
        InlineExecutor(Watchdog(1.0, EventLog(0)), _raise),
        send=lambda _, message: None if sent is None else sent.append(message),
        send_snapshot=lambda drawn: None if snapshots is None else snapshots.append(drawn),
        respond=lambda responses: left.extend(each.kind for each in responses),
        observe=lambda _: None,
        compare=lambda _: None,
        broke=_raise,
    )


def test_no_answer_overtakes_one_that_the_disk_has_just_let_go() -> None:
    left: list[ResponseKind] = []
    disk = Disk()
    record = cast(Record, object())

    async def story() -> None:
        replica = Scripted(
            Effects(persist=(record,), respond=(answer(ResponseKind.TENTATIVE),)),
            Effects(respond=(answer(ResponseKind.FINAL),)),
        )
        driver = driven(replica, disk, left)
        driver.apply_effects()
        assert left == [], "it waits for the disk"
        disk.durable_position = 1  # as another thread finds out, before it says so
        driver.apply_effects()
        driver.release()

    asyncio.run(story())
    assert left == [ResponseKind.TENTATIVE, ResponseKind.FINAL]


def test_a_proposal_leaves_before_the_vote_of_who_makes_it_is_on_disk() -> None:
    disk, sent = Disk(), list[Message]()
    ballot = Ballot(1, 0)
    accept, vote = Accept(ballot, 0, (WEAK,)), Vote(ballot, 0)
    record = Accepted(AcceptedValue(0, ballot, (WEAK,)))

    async def story() -> None:
        effects = Effects(persist=(record,), send=(Send((1,), accept), Send((1,), vote)))
        driver = driven(Scripted(effects), disk, [], sent=sent)
        driver.apply_effects()
        assert sent == [accept]
        disk.durable_position = 1
        driver.release()
        assert sent == [accept, vote]

    asyncio.run(story())


def test_a_proposal_does_not_leave_before_the_ballot_that_it_is_made_in_is_on_disk() -> None:
    """Where one acceptor is a majority, it leads as soon as it wants to."""
    disk, sent = Disk(), list[Message]()
    ballot = Ballot(1, 0)
    prepare = Prepare(ballot, 0)
    first, second, third = (Accept(ballot, each, (WEAK,)) for each in range(3))

    async def story() -> None:
        votes = [Accepted(AcceptedValue(each, ballot, (WEAK,))) for each in range(3)]
        replica = Scripted(
            Effects(
                persist=(Promised(ballot), votes[0]), send=(Send((1,), prepare), Send((1,), first))
            ),
            Effects(persist=(votes[1],), send=(Send((1,), second),)),
            Effects(persist=(votes[2],), send=(Send((1,), third),)),
        )
        driver = driven(replica, disk, [], sent=sent)
        driver.apply_effects()
        driver.apply_effects()
        assert sent == []
        disk.durable_position = 2
        driver.release()
        driver.apply_effects()
        assert sent == [prepare, first, third]
        disk.durable_position = 4
        driver.release()
        assert sent == [prepare, first, third, second]

    asyncio.run(story())


def test_a_proposal_does_not_leave_before_the_requests_that_it_names() -> None:
    disk, sent = Disk(), list[Message]()
    request = Request(1, WEAK, Operation("noop"), True, Dots())
    cast_, accept = Cast((request,)), Accept(Ballot(1, 0), 0, (WEAK,))

    async def story() -> None:
        effects = Effects(
            persist=(Received(request),), send=(Send((1,), cast_), Send((1,), accept))
        )
        driver = driven(Scripted(effects), disk, [], sent=sent)
        driver.apply_effects()
        assert sent == []
        disk.durable_position = 1
        driver.release()
        assert sent == [cast_, accept]

    asyncio.run(story())


def test_an_answer_waits_for_all_records_but_decisions_at_the_end() -> None:
    left: list[ResponseKind] = []
    disk, sent = Disk(), list[Message]()
    value = AcceptedValue(0, Ballot(1, 0), (WEAK,))

    async def story() -> None:
        effects = Effects(
            persist=(Accepted(value), Decided(0, (WEAK,))),
            send=(Send((1,), Progress(1)),),
            respond=(answer(ResponseKind.STABLE),),
        )
        driver = driven(Scripted(effects), disk, left, sent=sent)
        driver.apply_effects()
        assert left == []
        disk.durable_position = 1
        driver.release()
        assert (left, sent) == ([ResponseKind.STABLE], [])
        disk.durable_position = 2
        driver.release()
        assert sent == [Progress(1)]

    asyncio.run(story())


def test_records_are_written_in_the_order_in_which_they_were_emitted() -> None:
    """What follows a decision may follow from it, such as a ballot of the members that it made."""
    disk = Disk()
    records = Decided(0, (WEAK,)), Promised(Ballot(2**40, 1)), Decided(1, ())

    async def story() -> None:
        effects = Effects(persist=records, respond=(answer(ResponseKind.STABLE),))
        left: list[ResponseKind] = []
        driver = driven(Scripted(effects), disk, left)
        driver.apply_effects()
        assert disk.records == list(records)
        disk.durable_position = 1
        driver.release()
        assert left == []
        disk.durable_position = 2
        driver.release()
        assert left == [ResponseKind.STABLE]

    asyncio.run(story())


def test_records_that_nothing_waits_for_are_in_no_hurry() -> None:
    disk = Disk()
    record = cast(Record, object())

    async def story() -> None:
        replica = Scripted(
            Effects(persist=(record,)),
            Effects(persist=(record,)),
            Effects(respond=(answer(ResponseKind.TENTATIVE),)),
        )
        driver = driven(replica, disk, [])
        driver.apply_effects()
        driver.apply_effects()
        assert disk.hurried == 0
        driver.apply_effects()
        assert disk.hurried == 2

    asyncio.run(story())


def test_room_is_left_for_an_image_among_the_records_and_nothing_waits_for_it() -> None:
    left: list[ResponseKind] = []
    disk = Disk()
    record = cast(Record, object())
    bare, registers = lazy_checkpoint_of(Checkpoint(0, 0, Dots(), 0, (("a", 1),), ()))
    image = StreamedCheckpoint(2, CheckpointRecord(bare, Ballot(0, 0), (), (), ()), registers)

    async def story() -> None:
        effects = Effects(
            persist=(record,) * 3, respond=(answer(ResponseKind.TENTATIVE),), checkpoints=(image,)
        )
        driver = driven(Scripted(effects), disk, left)
        driver.apply_effects()
        assert disk.rooms == [2], "between the second record and the third"
        disk.durable_position = 4
        driver.release()
        assert (left, disk.images) == ([ResponseKind.TENTATIVE], [])
        for _ in range(5):
            await asyncio.sleep(0)
        assert disk.images == [2]

    asyncio.run(story())


def test_what_rests_on_a_state_that_was_brought_waits_until_that_is_on_disk() -> None:
    disk = Disk()
    left: list[ResponseKind] = []
    record = cast(Record, object())
    checkpoint = Checkpoint(0, 0, Dots(), 0, (("a", 1),), ())
    image = CheckpointRecord(checkpoint, Ballot(0, 0), (), (), ())
    held = ArrayEncoder()
    held.extend(checkpoint.state)

    async def story() -> None:
        drawn = EncodedCheckpoint(1, image, held, ArrayEncoder())
        first = Effects(
            persist=(record,) * 2, respond=(answer(ResponseKind.TENTATIVE),), checkpoints=(drawn,)
        )
        driver = driven(Scripted(first, Effects(respond=(answer(ResponseKind.FINAL),))), disk, left)
        driver.apply_effects()
        driver.apply_effects()
        assert [decode_record(data) for data in disk.drawn] == [image]
        for durable in (1, 2):
            disk.durable_position = durable
            driver.release()
            assert left == []
        disk.durable_position = 3
        driver.release()
        assert left == [ResponseKind.TENTATIVE, ResponseKind.FINAL]

    asyncio.run(story())


def test_a_snapshot_leaves_when_what_came_before_it_is_durable() -> None:
    disk = Disk()
    left: list[EncodedSnapshot] = []
    record = cast(Record, object())
    bare, registers = lazy_checkpoint_of(Checkpoint(0, 0, Dots(), 0, (("a", 1),), ()))

    async def story() -> None:
        effects = Effects(
            persist=(record,), snapshots=(StreamedSnapshot(1, Snapshot(bare), registers),)
        )
        driver = driven(Scripted(effects), disk, [], left)
        driver.apply_effects()
        for _ in range(5):
            await asyncio.sleep(0)
        assert left == [], "it is drawn, and waits for the disk"
        disk.durable_position = 1
        driver.release()
        assert [each.to for each in left] == [1]

    asyncio.run(story())


def _raise(error: Exception) -> Any:
    raise error
