"""Replicas that begin with an empty disk, in a cluster that may have known them before."""

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
    Snapshot,
    Vote,
    encode,
)
from creekdb.protocol.validation import UNAPPROVED_MEMBERS
from creekdb.schemes.basic import BasicReplica
from tests.unit.schemes.bench import Bench

PATIENCE_TICKS = 400


def new_bench(size: int = 3, **settings: int) -> Bench:
    return Bench(size, begin_anew=1, **settings)


def running_bench(size: int = 3, **settings: int) -> Bench:
    bench = new_bench(size, **settings)
    bench.tick(60)
    assert all(replica.awaited_members() is None for replica in bench.replicas.values())
    return bench


def lose_disk(bench: Bench, index: int, careful: bool = True, drafts: int = 0) -> None:
    """What it has sent arrived, or will not: a driver sees to that."""
    settings = msgspec.structs.replace(bench.settings, begin_anew=int(careful), drafts=drafts)
    bench.journals[index].clear()
    bench.replicas[index] = BasicReplica(index, settings, KV)
    bench.network = type(bench.network)(
        [each for each in bench.network if index not in (each[0], each[1])]
    )


def leader_of(bench: Bench) -> int:
    (leader,) = {replica.leader() for replica in bench.replicas.values()}
    assert leader is not None
    return leader


def decided_by_two(bench: Bench) -> tuple[int, int, int, Dot]:
    """The leader, who voted with it, who knows nothing of it, and what they decided."""
    leader = leader_of(bench)
    voter, unaware = (each for each in bench.replicas if each != leader)
    bench.isolate(unaware)
    id = bench.invoke(leader, "put", "a", "first", strong=True)
    bench.deliver()
    assert bench[leader].is_committed(id)
    assert not bench[unaware].is_committed(id)
    bench.cut.clear()
    return leader, voter, unaware, id


def hear_no_votes(bench: Bench, voter: int) -> bool:
    """It hears what is proposed, and nobody hears anything else. Has it voted?"""
    has_voted = False
    while bench.network:
        sender, receiver, message = bench.network.popleft()
        has_voted |= isinstance(message, Vote) and sender == voter
        if receiver == voter and isinstance(message, Cast | Accept):
            bench.receive(receiver, sender, message)
    return has_voted


# --- the beginning --------------------------------------------------------------------------------


def test_a_new_cluster_begins_when_all_are_there() -> None:
    bench = new_bench()
    bench.crash(2)
    bench.tick(PATIENCE_TICKS)
    assert bench[0].awaited_members() == bench[1].awaited_members() == (2,)
    assert bench[0].leader() is None
    bench.restart(2)
    bench.tick(60)
    assert all(replica.awaited_members() is None for replica in bench.replicas.values())
    id = bench.invoke(leader_of(bench), "put", "a", 1, strong=True)
    bench.tick(20)
    assert all(replica.is_committed(id) for replica in bench.replicas.values())


def test_alone_nobody_is_waited_for() -> None:
    assert new_bench(1)[0].awaited_members() is None


def test_who_takes_part_does_so_again_after_a_restart() -> None:
    bench = running_bench()
    bench.crash(2)
    bench.crash(1)
    bench.restart(1)
    assert bench[1].awaited_members() is None


def test_who_waits_neither_votes_nor_leads_nor_is_heard() -> None:
    bench = running_bench()
    bench.crash(1)
    lose_disk(bench, 2)
    bench.sent.clear()
    bench.invoke(0, "put", "a", 1, strong=True)
    bench.tick(PATIENCE_TICKS)
    assert bench[2].awaited_members() == (1,)
    said = {type(message) for sender, _, message in bench.sent if sender == 2}
    assert {each.__name__ for each in said} <= {"Anew", "Summary", "Progress", "Pull", "CatchUp"}
    assert bench[2].has_request(Dot(0, 1)), "but it listens"
    with pytest.raises(AssertionError, match="which are taken"):
        bench.invoke(2, "put", "b", 1)


# --- what was promised and voted for --------------------------------------------------------------


def test_what_it_voted_for_before_it_lost_its_disk_stays_decided() -> None:
    """Else the two who do not remember are a majority, and decide otherwise."""
    bench = running_bench()
    leader, voter, unaware, id = decided_by_two(bench)
    lose_disk(bench, voter)
    bench.isolate(leader)
    other = bench.invoke(unaware, "put", "a", "second", strong=True)
    bench.tick(PATIENCE_TICKS)
    assert bench[voter].awaited_members() == (leader,)
    assert not bench[unaware].is_committed(other)
    bench.cut.clear()
    bench.tick(PATIENCE_TICKS)
    for replica in bench.replicas.values():
        assert replica.awaited_members() is None
        assert replica.is_committed(id)
        assert replica.is_committed(other)
        assert replica.state() == {"a": "second"}, "which came second"


def test_without_that_care_it_would_be_decided_otherwise() -> None:
    """That the test above can fail."""
    bench = running_bench()
    leader, voter, unaware, id = decided_by_two(bench)
    lose_disk(bench, voter, careful=False)
    bench.isolate(leader)
    other = bench.invoke(unaware, "put", "a", "second", strong=True)
    bench.tick(PATIENCE_TICKS)
    assert bench[unaware].is_committed(other)
    assert not bench[unaware].is_committed(id)


def test_what_it_voted_for_and_nobody_heard_of_is_decided_in_time() -> None:
    bench = running_bench()
    leader = leader_of(bench)
    voter = next(each for each in bench.replicas if each != leader)
    id = bench.invoke(leader, "put", "a", "first", strong=True)
    assert hear_no_votes(bench, voter)
    lose_disk(bench, voter)
    bench.isolate(leader)
    bench.tick(PATIENCE_TICKS)
    assert bench[voter].awaited_members() == (leader,)
    bench.cut.clear()
    bench.tick(PATIENCE_TICKS)
    orders = [replica.committed_ids() for replica in bench.replicas.values()]
    assert orders[0] == orders[1] == orders[2]
    assert id in orders[0]


def test_what_others_have_accepted_is_accepted_and_kept() -> None:
    bench = running_bench()
    leader = leader_of(bench)
    voter, lost = (each for each in bench.replicas if each != leader)
    bench.invoke(leader, "put", "a", 1, strong=True)
    assert hear_no_votes(bench, voter)  # so nothing is decided
    lose_disk(bench, lost)
    bench.replicas[lost].tick(bench.now)  # asks
    bench.carry_out(lost)
    for _ in range(6):  # and asks again, with a ballot that is high enough
        waiting = [each for each in bench.network if lost in (each[0], each[1])]
        bench.network.clear()
        for sender, receiver, message in waiting:
            bench.receive(receiver, sender, message)
    assert bench[lost].awaited_members() == ()
    (request,) = bench[leader]._stack.reliable_broadcast._retained[leader].values()
    bench.receive(lost, leader, Cast((request,)))
    acceptor = bench[lost]._stack.cab.acceptor
    assert bench[lost].awaited_members() is None
    assert [value.batch for value in acceptor.accepted.values()] == [(Dot(leader, 1),)]
    promised, accepted = acceptor.promised, dict(acceptor.accepted)
    bench.crash(lost)
    bench.restart(lost)
    assert bench[lost].awaited_members() is None
    assert bench[lost]._stack.cab.acceptor.promised == promised
    assert bench[lost]._stack.cab.acceptor.accepted == accepted


# --- what was issued ------------------------------------------------------------------------------


def test_numbers_of_requests_are_not_used_twice() -> None:
    bench = running_bench()
    for number in range(4):
        bench.invoke(1, "put", f"key {number}", number)
    bench.deliver()
    bench.cut.add((1, 0))
    last = bench.invoke(1, "put", "last", 5)  # only replica 2 hears of it
    bench.deliver()
    bench.cut.clear()
    lose_disk(bench, 1)
    bench.tick(PATIENCE_TICKS)
    assert bench[1].awaited_members() is None
    new = bench.invoke(1, "put", "new", 6)
    assert new.event > last.event
    bench.tick(PATIENCE_TICKS)
    states = [replica.state() for replica in bench.replicas.values()]
    assert states[0] == states[1] == states[2]
    assert states[0]["last"] == 5
    assert states[0]["new"] == 6


def numbered_puts(bench: Bench, index: int, lost: set[int], last: int) -> None:
    """Of the requests that it issues nobody hears of those that are lost, and one of the rest."""
    for number in range(1, last + 1):
        bench.invoke(index, "put", f"key {number}", number, strong=number == last)
        arriving = [each for each in bench.network if isinstance(each[2], Cast) and each[1] == 0]
        bench.network.clear()
        bench.network.extend([] if number in lost else arriving)
        bench.deliver()


def test_what_it_issued_after_what_is_lost_counts_and_so_does_what_comes_then() -> None:
    bench = running_bench()
    numbered_puts(bench, 2, lost={2, 3, 5}, last=7)
    assert not bench[0].has_request(Dot(2, 4)), "it comes after one that is not there"
    lose_disk(bench, 2)
    bench.tick(PATIENCE_TICKS)
    assert bench[2].awaited_members() is None
    news = [bench.invoke(2, "put", f"new {strong}", 8, strong=strong) for strong in (False, True)]
    bench.tick(PATIENCE_TICKS)
    for replica in bench.replicas.values():
        assert all(replica.is_committed(id) for id in news)
        assert not replica._stack.reliable_broadcast.held_back()
        old = {f"key {number}": number for number in (1, 4, 6, 7)}
        assert replica.state() == {**old, "new False": 8, "new True": 8}
    orders = [replica.committed_ids() for replica in bench.replicas.values()]
    assert orders[0] == orders[1] == orders[2]
    assert [id.event for id in orders[0] if id.replica == 2][:7] == [1, 2, 3, 4, 5, 6, 7]


def test_what_stands_in_for_what_is_lost_is_on_disk_before_it_takes_part() -> None:
    """Else it would take part again, and what it issues be held back."""
    bench = running_bench()
    numbered_puts(bench, 2, lost={1}, last=3)
    lose_disk(bench, 2)
    bench.tick(PATIENCE_TICKS)
    records = bench.records(2)
    began = next(at for at, each in enumerate(records) if isinstance(each, Promised))
    assert Dot(2, 1) in {each.request.id for each in records[:began] if isinstance(each, Received)}


@pytest.mark.parametrize("checkpoint_every", [4, 4096])
def test_it_gets_back_what_everybody_had_and_had_forgotten(checkpoint_every: int) -> None:
    bench = running_bench(checkpoint_every=checkpoint_every, noop_ticks=10_000)
    for number in range(30):
        bench.invoke(number % 3, "put", f"key {number % 7}", number, strong=number % 4 == 0)
        bench.tick(4)
    for number in range(5):  # stays tentative
        bench.invoke(number % 3, "put", "weak", number)
    bench.tick(PATIENCE_TICKS)
    assert not any(bench[0]._stack.reliable_broadcast._retained.values())
    expected = bench[0].state(), bench[0].tentative_ids(), bench[0].committed_length()
    assert expected[1]
    lose_disk(bench, 2)
    bench.tick(PATIENCE_TICKS)
    found = bench[2].state(), bench[2].tentative_ids(), bench[2].committed_length()
    assert found == expected
    assert bench[2].awaited_members() is None


def test_who_is_killed_before_it_takes_part_begins_anew() -> None:
    bench = running_bench(checkpoint_every=4)
    for number in range(12):
        bench.invoke(0, "put", "a", number, strong=True)
        bench.tick(2)
    bench.isolate(1)
    lose_disk(bench, 2)
    bench.tick(40)
    assert bench[2].awaited_members() == (1,)
    assert bench[2].state() == {"a": 11}, "it has caught up"
    assert bench.journals[2]
    bench.crash(2)
    bench.restart(2)
    assert bench[2].awaited_members() == (0, 1)
    bench.cut.clear()
    bench.tick(PATIENCE_TICKS)
    assert bench[2].awaited_members() is None


def test_what_a_snapshot_told_is_on_disk_before_it_takes_part() -> None:
    """Also where images are drawn in time, and it is killed before this one is finished. Else it
    would take part again without knowing which numbers it has used."""
    bench = running_bench(checkpoint_every=4)
    for number in range(12):
        last = bench.invoke(2, "put", "a", number, strong=True)
        bench.tick(2)
    bench.tick(PATIENCE_TICKS)
    lose_disk(bench, 2, drafts=1)  # of which none is ever finished
    bench.tick(PATIENCE_TICKS)
    assert bench[2].awaited_members() is None
    bench.crash(2)
    bench.restart(2)
    assert bench[2].awaited_members() is None
    assert bench[2].state() == {"a": 11}
    new = bench.invoke(2, "put", "a", 12)
    assert new.event > last.event
    bench.settle()
    assert bench[0].state() == {"a": 12}


def test_who_has_a_checkpoint_is_not_sent_the_same_again() -> None:
    bench = running_bench(checkpoint_every=4)
    for number in range(12):
        bench.invoke(0, "put", "a", number, strong=True)
        bench.tick(2)
    bench.tick(PATIENCE_TICKS)
    kept = bench[1].checkpoint()
    lose_disk(bench, 2)
    bench.journals[2].append(encode(CheckpointRecord(kept, NO_BALLOT, (), (), ())))
    bench.restart(2)
    bench.sent.clear()
    bench.tick(PATIENCE_TICKS)
    assert bench[2].awaited_members() is None
    assert bench[2].state() == {"a": 11}
    asked = [message for _, _, message in bench.sent if isinstance(message, RecoveryQuery)]
    assert {each.delivered for each in asked} == {kept.instance}
    assert not any(isinstance(message, Snapshot) for _, _, message in bench.sent)


def test_a_question_that_is_asked_twice_is_answered_alike() -> None:
    bench = running_bench()
    bench.invoke(0, "put", "a", 1, strong=True)
    bench.tick(20)
    ballot = bench[0]._stack.omega.max_ballot
    for _ in range(2):
        bench.receive(0, 2, RecoveryQuery(ballot._replace(round=ballot.round + 1, replica=2)))
    known = [message for sender, _, message in bench.sent if type(message).__name__ == "Known"]
    assert known[-1] == known[-2]
    assert not any(isinstance(message, PullResponse) for _, _, message in bench.network)


# --- one that was added ---------------------------------------------------------------------------


def joiner(bench: Bench, *records: Record) -> None:
    """The fourth, as it finds what is on its disk."""
    bench.journals[3] = [encode(record) for record in records]
    bench.events[3] = []
    bench.replicas[3] = BasicReplica(3, bench.settings, KV)
    bench.replicas[3].recover(bench.records(3))


def let_in(bench: Bench) -> None:
    operation = bench[0].configuration().add_operation(3, "d")
    bench.invoke(0, operation.name, *operation.arguments, strong=True)
    bench.tick(60)
    assert 3 in bench[3].configuration().replica_ids


def test_who_is_added_takes_part_when_it_is_let_in() -> None:
    bench = running_bench()
    joiner(bench, Promised(JOINED_BALLOT))
    let_in(bench)
    assert bench[3].awaited_members() is None
    bench.crash(2)
    id = bench.invoke(3, "put", "a", 1, strong=True)
    bench.tick(PATIENCE_TICKS)
    assert bench[0].is_committed(id), "three of four, and one of them is new"


@pytest.mark.parametrize("again", [False, True])
def test_who_was_added_and_lost_its_disk_never_takes_part_again(again: bool) -> None:
    bench = running_bench(checkpoint_every=1)
    joiner(bench, Promised(JOINED_BALLOT))
    let_in(bench)
    bench.sent.clear()
    joiner(bench)
    bench.tick(PATIENCE_TICKS)
    assert any(isinstance(record, CheckpointRecord) for record in bench.records(3)), (
        "it got a snapshot"
    )
    if again:
        bench.crash(3)
        bench.restart(3)
    bench.crash(2)
    id = bench.invoke(0, "put", "a", 1, strong=True)
    bench.tick(PATIENCE_TICKS)
    assert bench[3].has_request(id), "it listens"
    assert bench[3].awaited_members() is not None
    assert not bench[0].is_committed(id), "three of four are needed, and it has no vote"
    said = {type(message).__name__ for sender, _, message in bench.sent if sender == 3}
    assert not said & {"Vote", "Promise", "Prepare", "Heartbeat"}


@pytest.mark.parametrize("calls", range(8))
def test_who_let_all_others_in_and_lost_its_disk_is_not_one_of_them_any_more(calls: int) -> None:
    """However much it was asked for meanwhile, as one that is alone."""
    bench = running_bench(1, checkpoint_every=1)
    for new in (1, 2):
        bench.journals[new] = [encode(Promised(JOINED_BALLOT))]
        bench.events[new] = []
        bench.restart(new)
        operation = bench[0].configuration().add_operation(new, "e")
        bench.invoke(0, operation.name, *operation.arguments, strong=True)
        bench.tick(60)
        bench.invoke(new, "put", "a", new, strong=True)
        bench.tick(20)
    lose_disk(bench, 0)
    for call in range(calls):
        bench.invoke(0, "put", "a", call, strong=call % 2 == 0)
    bench.tick(PATIENCE_TICKS)
    assert bench[0].rejected[UNAPPROVED_MEMBERS]
    assert bench[0].configuration().replica_ids == (0,)
    for each in (1, 2):
        assert bench[each].configuration().replica_ids == (0, 1, 2)
        assert bench[each].leader() in (1, 2)
