"""Release rule: which messages, responses and snapshots leave a replica, and when."""

import msgspec
import pytest

from creekdb.driver.release import ReleaseRule
from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    EncodedCheckpoint,
    EncodedSnapshot,
    StreamedCheckpoint,
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
    Prepare,
    Progress,
    Promised,
    Received,
    Record,
    Snapshot,
    Vote,
)
from creekdb.protocol.request import Operation, Outcome, Request

OWN, READ = Dot(0, 1), Dot(0, -1)
REQUEST = Request(1, OWN, Operation("noop"), True, Dots())
BALLOT = Ballot(1, 0)
PREPARE = Send((1,), Prepare(BALLOT, 0))
PROPOSAL = Send((1,), Accept(BALLOT, 0, (OWN,)))
OTHER_PROPOSAL = Send((1,), Accept(BALLOT, 1, (Dot(1, 1),)))
VOTE = Send((1,), Vote(BALLOT, 0))
CAST = Send((1,), Cast((REQUEST,)))
PROGRESS = Send((1,), Progress(1))
RECEIVED, PROMISED = Received(REQUEST), Promised(BALLOT)
ACCEPTED = Accepted(AcceptedValue(0, BALLOT, (OWN,)))
DECIDED = Decided(0, (OWN,))
BARE = Checkpoint(0, 0, Dots(), 0, (), ())


def response(kind: ResponseKind = ResponseKind.TENTATIVE, id: Dot = OWN) -> Response:
    return Response(id, 7, kind, Outcome(None))


TENTATIVE, STABLE = response(), response(ResponseKind.STABLE)
READ_RESPONSE = response(id=READ)


class Outlet:
    """A rule, and everything that has left it."""

    def __init__(self, responds_before_durable: bool = False) -> None:
        self.rule = ReleaseRule(OWN.replica, 0, responds_before_durable)
        self.durable = 0
        self.is_failing = False
        self.sent: list[Send] = []
        self.responded: list[Response] = []
        self.snapshots: list[EncodedSnapshot] = []

    def offer(
        self, *records: Record, send: tuple[Send, ...] = (), respond: tuple[Response, ...] = ()
    ) -> None:
        self.offer_effects(Effects(persist=records, send=send, respond=respond))

    def offer_effects(self, effects: Effects) -> None:
        sent, responded = self.rule.offer(effects, self.durable, self.is_failing)
        self.sent += sent
        self.responded += responded

    def release(self, durable: int) -> None:
        self.durable = durable
        sent, responded, snapshots = self.rule.release(durable)
        self.sent += sent
        self.responded += responded
        self.snapshots += snapshots

    def fail(self) -> None:
        self.is_failing = True
        self.responded += self.rule.release_reads()


# --- rule 1 -----------------------------------------------------------------------------------


def test_a_batch_without_records_leaves_at_once() -> None:
    outlet = Outlet()
    outlet.offer(send=(VOTE,), respond=(TENTATIVE,))
    assert (outlet.sent, outlet.responded) == ([VOTE], [TENTATIVE])
    assert outlet.rule.held_count == 0


@pytest.mark.parametrize(
    ("record", "output"),
    [(RECEIVED, CAST), (ACCEPTED, VOTE), (PROMISED, PREPARE), (DECIDED, PROGRESS)],
)
def test_a_message_waits_for_its_record(record: Record, output: Send) -> None:
    outlet = Outlet()
    outlet.offer(record, send=(output,))
    assert outlet.sent == []
    outlet.release(1)
    assert outlet.sent == [output]


def test_a_batch_waits_for_the_records_of_earlier_batches() -> None:
    outlet = Outlet()
    outlet.offer(RECEIVED, ACCEPTED)
    outlet.offer(send=(VOTE,), respond=(TENTATIVE,))
    outlet.release(1)
    assert (outlet.sent, outlet.responded) == ([], [])
    outlet.release(2)
    assert (outlet.sent, outlet.responded) == ([VOTE], [TENTATIVE])


def test_no_output_overtakes_a_held_one_that_has_just_become_durable() -> None:
    outlet = Outlet()
    outlet.offer(RECEIVED, respond=(TENTATIVE,))
    outlet.durable = 1  # set by the writer thread, before `release` is called
    outlet.offer(respond=(STABLE,), send=(VOTE,))
    assert (outlet.responded, outlet.sent) == ([], [])
    outlet.release(1)
    assert (outlet.responded, outlet.sent) == ([TENTATIVE, STABLE], [VOTE])


def test_nothing_leaves_after_a_clear() -> None:
    outlet = Outlet()
    outlet.offer(RECEIVED, respond=(TENTATIVE,), send=(CAST,))
    outlet.rule.clear()
    outlet.release(1)
    assert (outlet.responded, outlet.sent) == ([], [])


# --- rule 2: proposals ------------------------------------------------------------------------


def test_only_the_proposal_leaves_before_the_records_of_its_batch() -> None:
    outlet = Outlet()
    outlet.offer(ACCEPTED, send=(PROPOSAL, VOTE))
    assert outlet.sent == [PROPOSAL]
    outlet.release(1)
    assert outlet.sent == [PROPOSAL, VOTE]


def test_a_proposal_stays_with_the_casts_of_its_batch() -> None:
    outlet = Outlet()
    outlet.offer(RECEIVED, send=(CAST, PROPOSAL))
    assert outlet.sent == []
    outlet.release(1)
    assert outlet.sent == [CAST, PROPOSAL]


@pytest.mark.parametrize(("durable", "is_immediate"), [(0, False), (1, True), (2, True)])
def test_a_proposal_waits_until_its_ballot_is_durable(durable: int, is_immediate: bool) -> None:
    outlet = Outlet()
    outlet.offer(PROMISED, send=(PREPARE,))
    outlet.release(durable)
    outlet.offer(RECEIVED, ACCEPTED, send=(OTHER_PROPOSAL,))
    assert (OTHER_PROPOSAL in outlet.sent) is is_immediate


def test_a_proposal_waits_for_a_ballot_of_the_same_batch() -> None:
    """One acceptor is a majority, so the replica leads at once."""
    outlet = Outlet()
    outlet.offer(PROMISED, ACCEPTED, send=(PREPARE, PROPOSAL))
    outlet.release(1)
    assert outlet.sent == []
    outlet.release(2)
    assert outlet.sent == [PREPARE, PROPOSAL]


def test_a_proposal_waits_for_the_requests_of_its_replica() -> None:
    """A later request may reuse the event number of one that a crash has lost."""
    outlet = Outlet()
    outlet.offer(RECEIVED, send=(CAST,))
    outlet.offer(ACCEPTED, send=(PROPOSAL, OTHER_PROPOSAL))
    assert outlet.sent == [OTHER_PROPOSAL]
    assert outlet.rule.held_count == 2
    outlet.release(1)
    assert outlet.sent == [OTHER_PROPOSAL, CAST, PROPOSAL]
    outlet.offer(ACCEPTED, send=(PROPOSAL,))
    assert outlet.sent == [OTHER_PROPOSAL, CAST, PROPOSAL, PROPOSAL]
    assert outlet.rule.held_count == 0


def test_a_proposal_waits_for_a_request_of_its_replica_that_is_cast_to_nobody() -> None:
    """All peers are so far behind that they would drop the cast."""
    outlet = Outlet()
    outlet.offer(RECEIVED, ACCEPTED, send=(PROPOSAL,))
    assert outlet.sent == []
    outlet.release(2)
    assert outlet.sent == [PROPOSAL]


def test_a_proposal_waits_for_no_later_request_of_its_replica() -> None:
    outlet = Outlet()
    outlet.offer(RECEIVED)
    outlet.offer(Received(msgspec.structs.replace(REQUEST, id=Dot(0, 2))), ACCEPTED)
    outlet.offer(ACCEPTED, send=(PROPOSAL,))
    outlet.release(1)
    assert outlet.sent == [PROPOSAL]
    outlet.offer(ACCEPTED, send=(PROPOSAL,))
    assert outlet.sent == [PROPOSAL, PROPOSAL]


def test_a_held_proposal_does_not_leave_after_a_clear() -> None:
    outlet = Outlet()
    outlet.offer(RECEIVED, ACCEPTED, send=(PROPOSAL,))
    outlet.rule.clear()
    outlet.release(2)
    assert outlet.sent == []


# --- rule 3: trailing decisions ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "required"),
    [
        ((DECIDED, DECIDED), 0),
        ((ACCEPTED, DECIDED), 1),
        ((DECIDED, ACCEPTED), 2),
        ((RECEIVED, PROMISED, DECIDED, ACCEPTED, DECIDED), 4),
    ],
)
def test_a_response_waits_for_all_but_trailing_decisions(
    records: tuple[Record, ...], required: int
) -> None:
    outlet = Outlet()
    outlet.offer(*records, send=(PROGRESS,), respond=(STABLE,))
    for durable in range(len(records) + 1):
        outlet.release(durable)
        assert (outlet.responded == [STABLE]) is (durable >= required)
        assert (outlet.sent == [PROGRESS]) is (durable >= len(records))


def test_a_response_waits_for_earlier_records_after_a_batch_of_decisions() -> None:
    outlet = Outlet()
    outlet.offer(ACCEPTED)
    outlet.offer(DECIDED, respond=(STABLE,))
    assert outlet.responded == []
    outlet.release(1)
    assert outlet.responded == [STABLE]


def test_a_response_waits_for_a_checkpoint_among_the_records() -> None:
    bare, registers = lazy_checkpoint_of(BARE)
    record = CheckpointRecord(bare, BALLOT, (), (), ())
    for checkpoint in (
        StreamedCheckpoint(1, record, registers),
        EncodedCheckpoint(1, record, ArrayEncoder(), ArrayEncoder()),
    ):
        outlet = Outlet()
        outlet.offer_effects(
            Effects(persist=(RECEIVED, DECIDED), respond=(STABLE,), checkpoints=(checkpoint,))
        )
        assert outlet.rule.end_position == 3
        outlet.release(2)
        assert outlet.responded == []
        outlet.release(3)
        assert outlet.responded == [STABLE]


# --- rule 4: responses before they are durable ------------------------------------------------


def test_only_tentative_responses_leave_before_they_are_durable() -> None:
    outlet = Outlet(responds_before_durable=True)
    outlet.offer(RECEIVED, respond=(TENTATIVE, STABLE), send=(CAST,))
    assert (outlet.responded, outlet.sent) == ([TENTATIVE], [])
    outlet.release(1)
    assert (outlet.responded, outlet.sent) == ([TENTATIVE, STABLE], [CAST])


def test_durable_responses_keep_their_order() -> None:
    outlet = Outlet(responds_before_durable=True)
    outlet.offer(DECIDED, respond=(STABLE, TENTATIVE))
    assert outlet.responded == [STABLE, TENTATIVE]


# --- rule 5: failing disks --------------------------------------------------------------------


def test_only_reads_leave_while_the_disk_fails() -> None:
    outlet = Outlet()
    outlet.offer(RECEIVED, respond=(READ_RESPONSE, TENTATIVE))
    assert outlet.responded == []
    outlet.fail()
    assert outlet.responded == [READ_RESPONSE]
    outlet.offer(ACCEPTED, respond=(TENTATIVE, READ_RESPONSE), send=(PROPOSAL,))
    assert (outlet.responded, outlet.sent) == ([READ_RESPONSE, READ_RESPONSE], [])
    outlet.is_failing = False
    outlet.release(2)
    assert outlet.responded == [READ_RESPONSE, READ_RESPONSE, TENTATIVE, TENTATIVE]
    assert outlet.sent == [PROPOSAL]


def test_reads_wait_for_the_disk_while_it_works() -> None:
    outlet = Outlet()
    outlet.offer(RECEIVED, respond=(READ_RESPONSE,))
    assert outlet.responded == []
    outlet.release(1)
    assert outlet.responded == [READ_RESPONSE]


def test_reads_wait_while_a_request_issued_here_is_volatile() -> None:
    outlet = Outlet()
    outlet.rule.record_issue()
    volatile = [outlet.rule.has_volatile_request]
    outlet.offer(RECEIVED, respond=(READ_RESPONSE,))
    outlet.fail()
    outlet.offer(ACCEPTED, respond=(READ_RESPONSE,))
    volatile.append(outlet.rule.has_volatile_request)
    assert outlet.responded == []
    outlet.release(1)
    volatile.append(outlet.rule.has_volatile_request)
    outlet.fail()
    assert outlet.responded == [READ_RESPONSE, READ_RESPONSE]
    assert volatile == [True, True, False]


def test_no_request_is_volatile_if_responses_need_not_be_durable() -> None:
    outlet = Outlet(responds_before_durable=True)
    outlet.rule.record_issue()
    outlet.offer(RECEIVED)
    assert not outlet.rule.has_volatile_request


# --- rule 6: snapshots ------------------------------------------------------------------------


def test_a_snapshot_waits_for_its_position_and_for_held_outputs() -> None:
    outlet = Outlet()
    snapshot = EncodedSnapshot(1, Snapshot(BARE), ArrayEncoder(), ArrayEncoder())
    assert outlet.rule.offer_snapshot(snapshot, 0, 0)
    outlet.offer(RECEIVED)
    assert not outlet.rule.offer_snapshot(snapshot, 1, 0)
    outlet.offer(ACCEPTED, respond=(TENTATIVE,))
    outlet.release(1)
    assert outlet.snapshots == [snapshot]
    assert not outlet.rule.offer_snapshot(snapshot, 1, 1)
    outlet.release(2)
    assert outlet.snapshots == [snapshot, snapshot]
