"""Replicas that start with an empty disk, in a cluster of which they may have been members."""

import msgspec
import pytest

from creekdb.datatypes.kv import KV
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.disk_loss_recovery import JOINED_BALLOT
from creekdb.protocol.messages import (
    Accept,
    Cast,
    CheckpointRecord,
    Promised,
    PullResponse,
    Received,
    Record,
    RecoveryQuery,
    RecoveryResponse,
    Snapshot,
    Vote,
    encode,
)
from creekdb.protocol.validation import MessageRejection
from creekdb.schemes.basic import BasicReplica
from tests.unit.schemes.replica_harness import ReplicaHarness

PATIENCE_TICKS = 400


def empty_harness(size: int = 3, **settings: int) -> ReplicaHarness:
    return ReplicaHarness(size, begin_anew=1, **settings)


def running_harness(size: int = 3, **settings: int) -> ReplicaHarness:
    harness = empty_harness(size, **settings)
    harness.tick(60)
    assert all(replica.view.awaited_members() is None for replica in harness.replicas.values())
    return harness


def lose_disk(
    harness: ReplicaHarness, index: int, waits_for_reports: bool = True, drafts: int = 0
) -> None:
    """Restart a replica with an empty disk. Messages in transit are lost, as a driver ensures."""
    settings = msgspec.structs.replace(
        harness.settings, begin_anew=int(waits_for_reports), drafts=drafts
    )
    harness.journals[index].clear()
    harness.replicas[index] = BasicReplica(index, settings, KV)
    harness.network = type(harness.network)(
        [each for each in harness.network if index not in (each[0], each[1])]
    )


def leader_of(harness: ReplicaHarness) -> int:
    (leader,) = {replica.view.leader() for replica in harness.replicas.values()}
    assert leader is not None
    return leader


def decide_without_third(harness: ReplicaHarness) -> tuple[int, int, int, Dot]:
    """Decide a request with two votes. Return leader, voter, unaware replica and request."""
    leader = leader_of(harness)
    voter, uninformed = (each for each in harness.replicas if each != leader)
    harness.isolate(uninformed)
    id = harness.invoke(leader, "put", "a", "first", strong=True)
    harness.deliver()
    assert harness[leader]._ordering.is_committed(id)
    assert not harness[uninformed]._ordering.is_committed(id)
    harness.cut_links.clear()
    return leader, voter, uninformed, id


def drop_all_but_proposals(harness: ReplicaHarness, voter: int) -> bool:
    """Deliver only the proposals to `voter`. Return True if it has voted."""
    has_voted = False
    while harness.network:
        sender, receiver, message = harness.network.popleft()
        has_voted |= isinstance(message, Vote) and sender == voter
        if receiver == voter and isinstance(message, Cast | Accept):
            harness.receive(receiver, sender, message)
    return has_voted


# --- startup --------------------------------------------------------------------------------------


def test_a_new_cluster_starts_once_all_members_are_present() -> None:
    harness = empty_harness()
    harness.crash(2)
    harness.tick(PATIENCE_TICKS)
    assert harness[0].view.awaited_members() == harness[1].view.awaited_members() == (2,)
    assert harness[0].view.leader() is None
    harness.restart(2)
    harness.tick(60)
    assert all(replica.view.awaited_members() is None for replica in harness.replicas.values())
    id = harness.invoke(leader_of(harness), "put", "a", 1, strong=True)
    harness.tick(20)
    assert all(replica._ordering.is_committed(id) for replica in harness.replicas.values())


def test_a_single_replica_waits_for_no_reports() -> None:
    assert empty_harness(1)[0].view.awaited_members() is None


def test_a_joined_replica_stays_joined_after_a_restart() -> None:
    harness = running_harness()
    harness.crash(2)
    harness.crash(1)
    harness.restart(1)
    assert harness[1].view.awaited_members() is None


def test_a_recovering_replica_neither_votes_nor_leads_nor_issues_requests() -> None:
    harness = running_harness()
    harness.crash(1)
    lose_disk(harness, 2)
    harness.sent.clear()
    harness.invoke(0, "put", "a", 1, strong=True)
    harness.tick(PATIENCE_TICKS)
    assert harness[2].view.awaited_members() == (1,)
    sent_types = {type(message) for sender, _, message in harness.sent if sender == 2}
    assert {each.__name__ for each in sent_types} <= {
        "RecoveryQuery",
        "Summary",
        "Progress",
        "Pull",
        "CatchUp",
    }
    assert harness[2].view.has_request(Dot(0, 1)), "it receives requests"
    with pytest.raises(AssertionError, match="used event numbers are unknown"):
        harness.invoke(2, "put", "b", 1)


# --- promises and votes ---------------------------------------------------------------------------


def test_a_decision_survives_the_disk_loss_of_one_of_its_voters() -> None:
    """Otherwise the two replicas without the decision form a majority and decide another value."""
    harness = running_harness()
    leader, voter, uninformed, id = decide_without_third(harness)
    lose_disk(harness, voter)
    harness.isolate(leader)
    other = harness.invoke(uninformed, "put", "a", "second", strong=True)
    harness.tick(PATIENCE_TICKS)
    assert harness[voter].view.awaited_members() == (leader,)
    assert not harness[uninformed]._ordering.is_committed(other)
    harness.cut_links.clear()
    harness.tick(PATIENCE_TICKS)
    for replica in harness.replicas.values():
        assert replica.view.awaited_members() is None
        assert replica._ordering.is_committed(id)
        assert replica._ordering.is_committed(other)
        assert replica.view.state() == {"a": "second"}, "the second request is ordered second"


def test_without_recovery_a_lost_vote_breaks_a_decision() -> None:
    """Check that the test above can fail."""
    harness = running_harness()
    leader, voter, uninformed, id = decide_without_third(harness)
    lose_disk(harness, voter, waits_for_reports=False)
    harness.isolate(leader)
    other = harness.invoke(uninformed, "put", "a", "second", strong=True)
    harness.tick(PATIENCE_TICKS)
    assert harness[uninformed]._ordering.is_committed(other)
    assert not harness[uninformed]._ordering.is_committed(id)


def test_a_value_whose_vote_was_lost_with_the_disk_is_decided() -> None:
    harness = running_harness()
    leader = leader_of(harness)
    voter = next(each for each in harness.replicas if each != leader)
    id = harness.invoke(leader, "put", "a", "first", strong=True)
    assert drop_all_but_proposals(harness, voter)
    lose_disk(harness, voter)
    harness.isolate(leader)
    harness.tick(PATIENCE_TICKS)
    assert harness[voter].view.awaited_members() == (leader,)
    harness.cut_links.clear()
    harness.tick(PATIENCE_TICKS)
    orders = [replica.view.committed_ids() for replica in harness.replicas.values()]
    assert orders[0] == orders[1] == orders[2]
    assert id in orders[0]


def test_values_accepted_by_other_members_are_recovered_durably() -> None:
    harness = running_harness()
    leader = leader_of(harness)
    voter, lost = (each for each in harness.replicas if each != leader)
    harness.invoke(leader, "put", "a", 1, strong=True)
    assert drop_all_but_proposals(harness, voter)  # nothing is decided
    lose_disk(harness, lost)
    harness.replicas[lost].tick(harness.now)  # sends its query
    harness.process_effects(lost)
    for _ in range(6):  # repeats it with a sufficiently high ballot
        waiting = [each for each in harness.network if lost in (each[0], each[1])]
        harness.network.clear()
        for sender, receiver, message in waiting:
            harness.receive(receiver, sender, message)
    assert harness[lost].view.awaited_members() == ()
    (request,) = harness[leader]._stack.reliable_broadcast._retained[leader].values()
    harness.receive(lost, leader, Cast((request,)))
    acceptor = harness[lost]._stack.cab.acceptor
    assert harness[lost].view.awaited_members() is None
    assert [value.batch for value in acceptor.accepted.values()] == [(Dot(leader, 1),)]
    promised, accepted = acceptor.promised, dict(acceptor.accepted)
    harness.crash(lost)
    harness.restart(lost)
    assert harness[lost].view.awaited_members() is None
    assert harness[lost]._stack.cab.acceptor.promised == promised
    assert harness[lost]._stack.cab.acceptor.accepted == accepted


# --- issued requests ------------------------------------------------------------------------------


def test_event_numbers_are_not_reused_after_a_disk_loss() -> None:
    harness = running_harness()
    for number in range(4):
        harness.invoke(1, "put", f"key {number}", number)
    harness.deliver()
    harness.cut_links.add((1, 0))
    last = harness.invoke(1, "put", "last", 5)  # only replica 2 receives it
    harness.deliver()
    harness.cut_links.clear()
    lose_disk(harness, 1)
    harness.tick(PATIENCE_TICKS)
    assert harness[1].view.awaited_members() is None
    new = harness.invoke(1, "put", "new", 6)
    assert new.event > last.event
    harness.tick(PATIENCE_TICKS)
    states = [replica.view.state() for replica in harness.replicas.values()]
    assert states[0] == states[1] == states[2]
    assert states[0]["last"] == 5
    assert states[0]["new"] == 6


def numbered_puts(harness: ReplicaHarness, index: int, lost: set[int], last: int) -> None:
    """Issue requests that replica 0 alone receives, except those in `lost`."""
    for number in range(1, last + 1):
        harness.invoke(index, "put", f"key {number}", number, strong=number == last)
        arriving = [each for each in harness.network if isinstance(each[2], Cast) and each[1] == 0]
        harness.network.clear()
        harness.network.extend([] if number in lost else arriving)
        harness.deliver()


def test_requests_after_lost_ones_are_committed() -> None:
    harness = running_harness()
    numbered_puts(harness, 2, lost={2, 3, 5}, last=7)
    assert not harness[0].view.has_request(Dot(2, 4)), "it waits for a missing predecessor"
    lose_disk(harness, 2)
    harness.tick(PATIENCE_TICKS)
    assert harness[2].view.awaited_members() is None
    news = [harness.invoke(2, "put", f"new {strong}", 8, strong=strong) for strong in (False, True)]
    harness.tick(PATIENCE_TICKS)
    for replica in harness.replicas.values():
        assert all(replica._ordering.is_committed(id) for id in news)
        assert not replica._stack.reliable_broadcast.held_back()
        old = {f"key {number}": number for number in (1, 4, 6, 7)}
        assert replica.view.state() == {**old, "new False": 8, "new True": 8}
    orders = [replica.view.committed_ids() for replica in harness.replicas.values()]
    assert orders[0] == orders[1] == orders[2]
    assert [id.event for id in orders[0] if id.replica == 2][:7] == [1, 2, 3, 4, 5, 6, 7]


def test_replacements_of_lost_requests_are_durable_before_the_replica_joins() -> None:
    """Otherwise a restarted replica would have joined while its requests are held back."""
    harness = running_harness()
    numbered_puts(harness, 2, lost={1}, last=3)
    lose_disk(harness, 2)
    harness.tick(PATIENCE_TICKS)
    records = harness.records(2)
    began = next(at for at, each in enumerate(records) if isinstance(each, Promised))
    assert Dot(2, 1) in {each.request.id for each in records[:began] if isinstance(each, Received)}


@pytest.mark.parametrize("checkpoint_every", [4, 4096])
def test_a_recovering_replica_receives_truncated_requests_as_a_snapshot(
    checkpoint_every: int,
) -> None:
    harness = running_harness(checkpoint_every=checkpoint_every, noop_ticks=10_000)
    for number in range(30):
        harness.invoke(number % 3, "put", f"key {number % 7}", number, strong=number % 4 == 0)
        harness.tick(4)
    for number in range(5):  # tentative requests
        harness.invoke(number % 3, "put", "weak", number)
    harness.tick(PATIENCE_TICKS)
    assert not any(harness[0]._stack.reliable_broadcast._retained.values())
    expected = (
        harness[0].view.state(),
        harness[0].view.tentative_ids(),
        harness[0].view.committed_length(),
    )
    assert expected[1]
    lose_disk(harness, 2)
    harness.tick(PATIENCE_TICKS)
    actual = (
        harness[2].view.state(),
        harness[2].view.tentative_ids(),
        harness[2].view.committed_length(),
    )
    assert actual == expected
    assert harness[2].view.awaited_members() is None


def test_a_replica_that_crashes_before_joining_restarts_its_recovery() -> None:
    harness = running_harness(checkpoint_every=4)
    for number in range(12):
        harness.invoke(0, "put", "a", number, strong=True)
        harness.tick(2)
    harness.isolate(1)
    lose_disk(harness, 2)
    harness.tick(40)
    assert harness[2].view.awaited_members() == (1,)
    assert harness[2].view.state() == {"a": 11}, "the state has caught up"
    assert harness.journals[2]
    harness.crash(2)
    harness.restart(2)
    assert harness[2].view.awaited_members() == (0, 1)
    harness.cut_links.clear()
    harness.tick(PATIENCE_TICKS)
    assert harness[2].view.awaited_members() is None


def test_a_recovery_snapshot_is_durable_before_the_replica_joins() -> None:
    """Also with streamed checkpoints, if the replica crashes before the checkpoint is complete.
    Otherwise it would join without its used event numbers."""
    harness = running_harness(checkpoint_every=4)
    for number in range(12):
        last = harness.invoke(2, "put", "a", number, strong=True)
        harness.tick(2)
    harness.tick(PATIENCE_TICKS)
    lose_disk(harness, 2, drafts=1)  # this checkpoint is never completed
    harness.tick(PATIENCE_TICKS)
    assert harness[2].view.awaited_members() is None
    harness.crash(2)
    harness.restart(2)
    assert harness[2].view.awaited_members() is None
    assert harness[2].view.state() == {"a": 11}
    new = harness.invoke(2, "put", "a", 12)
    assert new.event > last.event
    harness.run_until_quiescent()
    assert harness[0].view.state() == {"a": 12}


def test_a_replica_with_a_checkpoint_is_not_sent_the_same_snapshot() -> None:
    harness = running_harness(checkpoint_every=4)
    for number in range(12):
        harness.invoke(0, "put", "a", number, strong=True)
        harness.tick(2)
    harness.tick(PATIENCE_TICKS)
    checkpoint = harness[1]._stable_prefix.checkpoint()
    lose_disk(harness, 2)
    harness.journals[2].append(encode(CheckpointRecord(checkpoint, NO_BALLOT, (), (), ())))
    harness.restart(2)
    harness.sent.clear()
    harness.tick(PATIENCE_TICKS)
    assert harness[2].view.awaited_members() is None
    assert harness[2].view.state() == {"a": 11}
    queries = [message for _, _, message in harness.sent if isinstance(message, RecoveryQuery)]
    assert {each.delivered for each in queries} == {checkpoint.instance}
    assert not any(isinstance(message, Snapshot) for _, _, message in harness.sent)


def test_a_repeated_recovery_query_gets_the_same_response() -> None:
    harness = running_harness()
    harness.invoke(0, "put", "a", 1, strong=True)
    harness.tick(20)
    ballot = harness[0]._stack.omega.max_ballot
    for _ in range(2):
        harness.receive(0, 2, RecoveryQuery(ballot._replace(round=ballot.round + 1, replica=2)))
    responses = [message for _, _, message in harness.sent if isinstance(message, RecoveryResponse)]
    assert responses[-1] == responses[-2]
    assert not any(isinstance(message, PullResponse) for _, _, message in harness.network)


# --- added replicas -------------------------------------------------------------------------------


def start_joiner(harness: ReplicaHarness, *records: Record) -> None:
    """Start a fourth replica with these records on its disk."""
    harness.journals[3] = [encode(record) for record in records]
    harness.events[3] = []
    harness.replicas[3] = BasicReplica(3, harness.settings, KV)
    harness.replicas[3].recover(harness.records(3))


def add_joiner(harness: ReplicaHarness) -> None:
    operation = harness[0].view.configuration().add_operation(3, "d")
    harness.invoke(0, operation.name, *operation.arguments, strong=True)
    harness.tick(60)
    assert 3 in harness[3].view.configuration().replica_ids


def test_an_added_replica_joins_with_the_membership_change() -> None:
    harness = running_harness()
    start_joiner(harness, Promised(JOINED_BALLOT))
    add_joiner(harness)
    assert harness[3].view.awaited_members() is None
    harness.crash(2)
    id = harness.invoke(3, "put", "a", 1, strong=True)
    harness.tick(PATIENCE_TICKS)
    assert harness[0]._ordering.is_committed(id), "three of four members, including the new one"


@pytest.mark.parametrize("restarted", [False, True])
def test_an_added_replica_that_lost_its_disk_never_joins_again(restarted: bool) -> None:
    harness = running_harness(checkpoint_every=1)
    start_joiner(harness, Promised(JOINED_BALLOT))
    add_joiner(harness)
    harness.sent.clear()
    start_joiner(harness)
    harness.tick(PATIENCE_TICKS)
    assert any(isinstance(record, CheckpointRecord) for record in harness.records(3)), (
        "it received a snapshot"
    )
    if restarted:
        harness.crash(3)
        harness.restart(3)
    harness.crash(2)
    id = harness.invoke(0, "put", "a", 1, strong=True)
    harness.tick(PATIENCE_TICKS)
    assert harness[3].view.has_request(id), "it receives requests after the disk loss"
    assert harness[3].view.awaited_members() is not None
    assert harness[3].view.must_be_replaced()
    assert not harness[0].view.must_be_replaced(), "it has its disk"
    assert not harness[0]._ordering.is_committed(id), (
        "three of four votes are required, and it has none"
    )
    sent_types = {type(message).__name__ for sender, _, message in harness.sent if sender == 3}
    assert not sent_types & {"Vote", "Promise", "Prepare", "Heartbeat"}


@pytest.mark.parametrize("calls", range(8))
def test_a_founding_replica_that_lost_its_disk_is_not_a_member_any_more(calls: int) -> None:
    """The number of calls it accepted as a single replica in the meantime does not matter."""
    harness = running_harness(1, checkpoint_every=1)
    for new in (1, 2):
        harness.journals[new] = [encode(Promised(JOINED_BALLOT))]
        harness.events[new] = []
        harness.restart(new)
        operation = harness[0].view.configuration().add_operation(new, "e")
        harness.invoke(0, operation.name, *operation.arguments, strong=True)
        harness.tick(60)
        harness.invoke(new, "put", "a", new, strong=True)
        harness.tick(20)
    lose_disk(harness, 0)
    for call in range(calls):
        harness.invoke(0, "put", "a", call, strong=call % 2 == 0)
    harness.tick(PATIENCE_TICKS)
    assert harness[0].view.rejected[MessageRejection.UNAPPROVED_MEMBERS]
    assert harness[0].view.configuration().replica_ids == (0,)
    for each in (1, 2):
        assert harness[each].view.configuration().replica_ids == (0, 1, 2)
        assert harness[each].view.leader() in (1, 2)
