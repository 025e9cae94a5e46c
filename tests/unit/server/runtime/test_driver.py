"""Driver: messages and responses are sent in order, and after their records are durable."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from creekdb.errors import DiskFull, StorageFault
from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    EncodedCheckpoint,
    EncodedSnapshot,
    StreamedCheckpoint,
    StreamedSnapshot,
    lazy_checkpoint_of,
)
from creekdb.protocol.effects import (
    DataLossKind,
    DataLost,
    Effects,
    Event,
    Response,
    ResponseKind,
    Send,
)
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
from creekdb.server.runtime.driver import Driver, DriverPorts, merge_casts, wall_clock_us
from creekdb.server.runtime.executors import InlineExecutor, Watchdog
from creekdb.server.storage.segment_writer import CheckpointSlot
from creekdb.wire.event_log import EventLog

WEAK = Dot(0, 1)


class FakeJournal:
    """Journal whose durable position the test sets."""

    def __init__(self) -> None:
        self.durable_position = 0
        self.fault: StorageFault | None = None
        self._end = 0
        self.records: list[Record] = []
        self.requested_position = 0
        """Position up to which a sync was requested."""
        self.reserved: list[int] = []
        self.written: list[int] = []
        self.encoded: list[bytes] = []

    def append(self, records: Sequence[Record], sync: bool = True) -> int:
        self._end += len(records)
        self.records += records
        if sync:
            self.request_sync()
        return self._end

    def subscribe(self, on_durable: Callable[[], None]) -> None:
        pass

    def request_sync(self) -> None:
        self.requested_position = self._end

    def append_checkpoint(self, chunks: Iterable[bytes]) -> int:
        self.encoded.append(b"".join(chunks))
        self._end += 1
        return self._end

    def reserve_checkpoint(self) -> CheckpointSlot:
        self._end += 1
        self.reserved.append(self._end - 1)
        return CheckpointSlot(self._end - 1)

    def write_checkpoint(
        self, slot: CheckpointSlot, chunks: Iterable[bytes], on_done: Callable[[], None]
    ) -> None:
        self.written.append(slot.position)


class FakeReplica:
    """Replica with prepared effects."""

    view = SimpleNamespace(index=0)

    def __init__(self, *effects: Effects) -> None:
        self._effects = list(effects)

    def take_effects(self) -> Effects:
        return self._effects.pop(0)


def make_response(kind: ResponseKind) -> Response:
    return Response(WEAK, 7, kind, Outcome(None))


class FakeListener:
    """Listener that records the kinds of responses."""

    def __init__(self, responses: list[ResponseKind]) -> None:
        self._responses = responses

    def observe(self, events: tuple[Event, ...]) -> None:
        pass

    def respond(self, responses: Sequence[Response]) -> None:
        self._responses.extend(response.kind for response in responses)


def make_driver(
    replica: FakeReplica,
    journal: FakeJournal,
    responses: list[ResponseKind],
    snapshots: list[EncodedSnapshot] | None = None,
    sent: list[Message] | None = None,
    lost: list[DataLost] | None = None,
) -> Driver:
    def on_data_lost(loss: DataLost) -> None:
        assert lost is not None
        lost.append(loss)
        driver.halt()

    driver = Driver(
        cast(Replica, replica),
        journal,
        InlineExecutor(Watchdog(1.0, EventLog(0)), _raise),
        DriverPorts(
            send=lambda _, message: None if sent is None else sent.append(message),
            send_snapshot=lambda snapshot: (
                None if snapshots is None else snapshots.append(snapshot)
            ),
            compare=lambda _: None,
            on_data_lost=on_data_lost,
            on_internal_error=_raise,
        ),
    )
    driver.subscribe(FakeListener(responses))
    return driver


async def test_nothing_is_sent_after_a_loss_of_data() -> None:
    responses: list[ResponseKind] = []
    sent: list[Message] = []
    lost: list[DataLost] = []
    journal = FakeJournal()
    record, loss = cast(Record, object()), DataLost(DataLossKind.REQUESTS, 1)
    response, progress = make_response(ResponseKind.TENTATIVE), Send((1,), Progress(1, 0))
    replica = FakeReplica(
        Effects(persist=(record,), send=(progress,), respond=(response,)),
        Effects(data_lost=loss, persist=(record,), send=(progress,), respond=(response,)),
    )
    driver = make_driver(replica, journal, responses, sent=sent, lost=lost)
    driver.apply_effects()
    driver.apply_effects()
    journal.durable_position = 2
    driver.release()
    assert lost == [loss]
    assert journal.records == [record], "a record of the first batch only"
    assert (responses, sent) == ([], [])


async def test_a_replica_with_a_failed_disk_receives_no_messages_and_no_ticks() -> None:
    journal, inputs = FakeJournal(), list[str]()

    class ListeningReplica(FakeReplica):
        def receive(self, message: Message, sender: int, now: int) -> None:
            inputs.append("message")

        def tick(self, now: int) -> None:
            inputs.append("tick")

    driver = make_driver(ListeningReplica(Effects(), Effects()), journal, [])

    def input_both() -> None:
        driver.receive(Progress(1, 0), 1)
        driver.tick()

    journal.fault = DiskFull("no space left")
    input_both()
    assert inputs == []
    journal.fault = None
    input_both()
    assert inputs == ["message", "tick"]
    driver.halt()
    input_both()
    assert inputs == ["message", "tick"]


async def test_response_does_not_overtake_one_that_has_just_become_durable() -> None:
    responses: list[ResponseKind] = []
    journal = FakeJournal()
    record = cast(Record, object())
    replica = FakeReplica(
        Effects(persist=(record,), respond=(make_response(ResponseKind.TENTATIVE),)),
        Effects(respond=(make_response(ResponseKind.FINAL),)),
    )
    driver = make_driver(replica, journal, responses)
    driver.apply_effects()
    assert responses == [], "the response waits for the disk"
    journal.durable_position = 1  # set by the writer thread, before `release` is called
    driver.apply_effects()
    driver.release()
    assert responses == [ResponseKind.TENTATIVE, ResponseKind.FINAL]


async def test_proposal_is_sent_before_the_vote_of_its_proposer_is_durable() -> None:
    journal, sent = FakeJournal(), list[Message]()
    ballot = Ballot(1, 0)
    accept, vote = Accept(ballot, 0, (WEAK,)), Vote(ballot, 0)
    record = Accepted(AcceptedValue(0, ballot, (WEAK,)))
    effects = Effects(persist=(record,), send=(Send((1,), accept), Send((1,), vote)))
    driver = make_driver(FakeReplica(effects), journal, [], sent=sent)
    driver.apply_effects()
    assert sent == [accept]
    journal.durable_position = 1
    driver.release()
    assert sent == [accept, vote]


async def test_proposal_is_sent_after_the_promise_of_its_ballot_is_durable() -> None:
    """A single acceptor that is a majority leads as soon as it starts a ballot."""
    journal, sent = FakeJournal(), list[Message]()
    ballot = Ballot(1, 0)
    prepare = Prepare(ballot, 0)
    first, second, third = (Accept(ballot, instance, (WEAK,)) for instance in range(3))
    votes = [Accepted(AcceptedValue(instance, ballot, (WEAK,))) for instance in range(3)]
    replica = FakeReplica(
        Effects(
            persist=(Promised(ballot), votes[0]), send=(Send((1,), prepare), Send((1,), first))
        ),
        Effects(persist=(votes[1],), send=(Send((1,), second),)),
        Effects(persist=(votes[2],), send=(Send((1,), third),)),
    )
    driver = make_driver(replica, journal, [], sent=sent)
    driver.apply_effects()
    driver.apply_effects()
    assert sent == []
    journal.durable_position = 2
    driver.release()
    driver.apply_effects()
    assert sent == [prepare, first, third]
    journal.durable_position = 4
    driver.release()
    assert sent == [prepare, first, third, second]


async def test_proposal_is_sent_after_the_requests_that_it_names() -> None:
    journal, sent = FakeJournal(), list[Message]()
    request = Request(1, WEAK, Operation("noop"), True, Dots())
    cast_, accept = Cast((request,)), Accept(Ballot(1, 0), 0, (WEAK,))
    effects = Effects(persist=(Received(request),), send=(Send((1,), cast_), Send((1,), accept)))
    driver = make_driver(FakeReplica(effects), journal, [], sent=sent)
    driver.apply_effects()
    assert sent == []
    journal.durable_position = 1
    driver.release()
    assert sent == [cast_, accept]


async def test_response_waits_for_all_records_except_trailing_decisions() -> None:
    responses: list[ResponseKind] = []
    journal, sent = FakeJournal(), list[Message]()
    value = AcceptedValue(0, Ballot(1, 0), (WEAK,))
    effects = Effects(
        persist=(Accepted(value), Decided(0, (WEAK,))),
        send=(Send((1,), Progress(1)),),
        respond=(make_response(ResponseKind.STABLE),),
    )
    driver = make_driver(FakeReplica(effects), journal, responses, sent=sent)
    driver.apply_effects()
    assert responses == []
    journal.durable_position = 1
    driver.release()
    assert (responses, sent) == ([ResponseKind.STABLE], [])
    journal.durable_position = 2
    driver.release()
    assert sent == [Progress(1)]


async def test_records_are_written_in_the_order_of_emission() -> None:
    """A record after a decision may depend on it, such as a ballot of the members it installed."""
    journal = FakeJournal()
    records = Decided(0, (WEAK,)), Promised(Ballot(2**40, 1)), Decided(1, ())
    effects = Effects(persist=records, respond=(make_response(ResponseKind.STABLE),))
    responses: list[ResponseKind] = []
    driver = make_driver(FakeReplica(effects), journal, responses)
    driver.apply_effects()
    assert journal.records == list(records)
    journal.durable_position = 1
    driver.release()
    assert responses == []
    journal.durable_position = 2
    driver.release()
    assert responses == [ResponseKind.STABLE]


async def test_records_without_dependents_do_not_request_a_sync() -> None:
    journal = FakeJournal()
    record = cast(Record, object())
    replica = FakeReplica(
        Effects(persist=(record,)),
        Effects(persist=(record,)),
        Effects(respond=(make_response(ResponseKind.TENTATIVE),)),
    )
    driver = make_driver(replica, journal, [])
    driver.apply_effects()
    driver.apply_effects()
    assert journal.requested_position == 0
    driver.apply_effects()
    assert journal.requested_position == 2


async def test_checkpoint_reserves_a_slot_among_the_records_and_delays_nothing() -> None:
    responses: list[ResponseKind] = []
    journal = FakeJournal()
    record = cast(Record, object())
    bare, registers = lazy_checkpoint_of(Checkpoint(0, 0, Dots(), 0, (("a", 1),), ()))
    checkpoint = StreamedCheckpoint(2, CheckpointRecord(bare, Ballot(0, 0), (), (), ()), registers)
    effects = Effects(
        persist=(record,) * 3,
        respond=(make_response(ResponseKind.TENTATIVE),),
        checkpoints=(checkpoint,),
    )
    driver = make_driver(FakeReplica(effects), journal, responses)
    driver.apply_effects()
    assert journal.reserved == [2], "between the second record and the third"
    journal.durable_position = 4
    driver.release()
    assert (responses, journal.written) == ([ResponseKind.TENTATIVE], [])
    for _ in range(5):
        await asyncio.sleep(0)
    assert journal.written == [2]


async def test_responses_after_an_installed_checkpoint_wait_until_it_is_durable() -> None:
    journal = FakeJournal()
    responses: list[ResponseKind] = []
    record = cast(Record, object())
    checkpoint = Checkpoint(0, 0, Dots(), 0, (("a", 1),), ())
    checkpoint_record = CheckpointRecord(checkpoint, Ballot(0, 0), (), (), ())
    registers = ArrayEncoder()
    registers.extend(checkpoint.state)
    encoded = EncodedCheckpoint(1, checkpoint_record, registers, ArrayEncoder())
    first = Effects(
        persist=(record,) * 2,
        respond=(make_response(ResponseKind.TENTATIVE),),
        checkpoints=(encoded,),
    )
    second = Effects(respond=(make_response(ResponseKind.FINAL),))
    driver = make_driver(FakeReplica(first, second), journal, responses)
    driver.apply_effects()
    driver.apply_effects()
    assert [decode_record(data) for data in journal.encoded] == [checkpoint_record]
    for durable in (1, 2):
        journal.durable_position = durable
        driver.release()
        assert responses == []
    journal.durable_position = 3
    driver.release()
    assert responses == [ResponseKind.TENTATIVE, ResponseKind.FINAL]


async def test_snapshot_is_sent_after_the_records_before_it_are_durable() -> None:
    journal = FakeJournal()
    sent: list[EncodedSnapshot] = []
    record = cast(Record, object())
    bare, registers = lazy_checkpoint_of(Checkpoint(0, 0, Dots(), 0, (("a", 1),), ()))
    effects = Effects(
        persist=(record,), snapshots=(StreamedSnapshot(1, Snapshot(bare), registers),)
    )
    driver = make_driver(FakeReplica(effects), journal, [], sent)
    driver.apply_effects()
    for _ in range(5):
        await asyncio.sleep(0)
    assert sent == [], "the snapshot is encoded and waits for the disk"
    journal.durable_position = 1
    driver.release()
    assert [snapshot.to for snapshot in sent] == [1]


def _raise(error: Exception) -> Any:
    raise error


def test_casts_are_merged_only_for_the_same_replicas() -> None:
    requests = [Request(each, Dot(0, each), Operation("put"), False) for each in (1, 2, 3)]
    sends = [
        Send((1, 2), Cast((requests[0],))),
        Send((1,), Cast((requests[1],))),
        Send((1, 2), Cast((requests[2],))),
    ]

    assert list(merge_casts(sends)) == [
        Send((1, 2), Cast((requests[0], requests[2]))),
        Send((1,), Cast((requests[1],))),
    ]


async def test_a_halted_driver_applies_no_effects() -> None:
    journal, responses = FakeJournal(), list[ResponseKind]()
    effects = Effects(respond=(make_response(ResponseKind.TENTATIVE),))
    driver = make_driver(FakeReplica(effects), journal, responses)
    driver.halt()
    driver.apply_effects()

    assert responses == []


class WokenReplica(FakeReplica):
    """Replica that counts its wakes."""

    wakes = 0

    def wake(self, now: int) -> None:
        self.wakes += 1


async def test_a_replica_is_woken_when_it_asked_for_it() -> None:
    now = wall_clock_us()
    replica = WokenReplica(
        Effects(wake_at=now + 60_000_000), Effects(wake_at=now + 1_000), Effects(), Effects()
    )
    driver = make_driver(replica, FakeJournal(), [])
    driver.apply_effects()
    driver.apply_effects()  # replaces the first wake
    while not replica.wakes:
        await asyncio.sleep(0.001)
    assert wall_clock_us() >= now + 1_000
    driver.halt()


async def test_a_halted_replica_is_not_woken() -> None:
    replica = WokenReplica(Effects(wake_at=wall_clock_us()))
    driver = make_driver(replica, FakeJournal(), [])
    driver.apply_effects()
    driver.halt()
    await asyncio.sleep(0.01)
    assert replica.wakes == 0
