"""Section 3.2: reliable broadcast."""

import pytest

from creekdb.checkers import Ok
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast, Pull, PullResponse, Received, Summary
from creekdb.protocol.request import Operation, Request
from tests.paper.harness import EXECUTE, Cluster
from tests.paper.schedules import SEEDS, run, verdicts

# --- validity ----------------------------------------------------------------------------------


def test_a_replica_delivers_its_own_message_at_once() -> None:
    """Validity: "if a correct replica RB-casts some message m, then the replica … delivers m"."""
    cluster = Cluster(with_leader=False)
    id = cluster.weak(0, "append", "a")

    assert cluster.tentative(0) == [id]
    assert cluster.state_values(0) == ["a"]


def test_a_restarted_replica_delivers_its_own_message() -> None:
    """Validity, where "correct" includes a replica that crashes and recovers from its disk."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "a")
    cluster.drop(Cast)
    cluster.crash(1)
    cluster.restart(1)
    assert cluster.rb_delivered(1) == [id]

    cluster.settle()

    assert [cluster.state_values(each) for each in cluster.members] == [["a"]] * 3


# --- uniform integrity -------------------------------------------------------------------------


def test_a_message_that_arrives_twice_is_delivered_once() -> None:
    """Uniform integrity: "every process RB-delivers m at most once"."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "a")
    cluster.duplicate(Cast)

    cluster.settle()

    assert cluster.rb_delivered(0) == cluster.rb_delivered(2) == [id]
    assert cluster.done[2] == [(EXECUTE, id)]
    assert cluster.on_disk(2, Received) == [Received(cluster.requests[id])]


def test_a_message_pushed_and_pulled_is_delivered_once() -> None:
    """Uniform integrity, if a message arrives both as a `Cast` and as a `PullResponse`."""
    cluster = Cluster()
    cluster.hold(Cast, to=2)
    id = cluster.weak(1, "append", "a")
    cluster.settle(4)
    assert cluster.rb_delivered(2) == [id]

    cluster.deliver(Cast, to=2)

    assert cluster.rb_delivered(2) == [id]


def test_a_message_delivered_before_a_crash_is_delivered_once_after_it() -> None:
    """Uniform integrity across a restart: recovery delivers the message from disk, once."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "a")
    cluster.duplicate(Cast)
    cluster.deliver(Cast, to=0)
    copies = cluster.pending(Cast, to=2)
    cluster.deliver(Cast, to=2)
    cluster.crash(2)
    cluster.restart(2)

    cluster.inject(copies[0].message, sender=1, to=2)
    cluster.settle()

    assert cluster.rb_delivered(2) == [id]


@pytest.mark.parametrize("sender", [0, 2])
def test_a_message_from_another_sender_than_its_origin_is_rejected(sender: int) -> None:
    """Uniform integrity: "only if m was previously RB-cast", by the replica of its identifier."""
    cluster = Cluster()
    forged = Request(1, Dot(1, 1), Operation("append", ("forged",)), strong=False)

    cluster.inject(Cast((forged,)), sender=sender, to=2 - sender)

    assert cluster.tentative(2 - sender) == []
    assert sum(cluster.rejected(2 - sender).values()) == 1


def test_another_message_with_a_known_id_is_rejected() -> None:
    """Uniform integrity: an identifier belongs to one message."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "genuine")
    cluster.deliver(Cast)
    other = Request(cluster.requests[id].timestamp, id, Operation("append", ("other",)), False)

    cluster.inject(Cast((other,)), sender=1, to=2)

    assert cluster.state_values(2) == ["genuine"]
    assert sum(cluster.rejected(2).values()) == 1


# --- agreement ---------------------------------------------------------------------------------


def test_all_replicas_deliver_every_message() -> None:
    """Agreement: "then eventually all replicas RB-deliver m"."""
    cluster = Cluster(5)
    ids = [cluster.weak(each, "append", each) for each in cluster.members]

    cluster.flush()

    assert [cluster.tentative(each) for each in cluster.members] == [ids] * 5


def test_a_message_that_reached_one_replica_reaches_all_others() -> None:
    """Agreement: "even in case a faulty replica RB-casts some message m"."""
    cluster = Cluster(5)
    id = cluster.weak(0, "append", "a")
    cluster.deliver(Cast, to=3)
    cluster.drop(Cast)
    cluster.crash(0)

    cluster.settle()

    assert [cluster.rb_delivered(each) for each in (1, 2, 3, 4)] == [[id]] * 4


def test_a_message_that_reached_no_other_replica_is_not_delivered() -> None:
    """Agreement applies once "a correct replica RB-delivers some message m", and not before."""
    cluster = Cluster()
    cluster.weak(0, "append", "a")
    cluster.drop(Cast)
    cluster.crash(0)

    cluster.settle()

    assert cluster.rb_delivered(1) == cluster.rb_delivered(2) == []


def test_a_lost_cast_is_recovered() -> None:
    """Agreement over lossy channels; Section 3.2 assumes "reliable channels"."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "a")
    cluster.drop(Cast, to=2)
    cluster.flush()
    assert cluster.rb_delivered(2) == []

    cluster.settle(4)

    assert cluster.rb_delivered(2) == [id]


@pytest.mark.parametrize("lost", [Summary, Pull, PullResponse])
def test_a_lost_anti_entropy_message_is_recovered(lost: type[object]) -> None:
    """Agreement, if the recovery from a loss is lost as well."""
    cluster = Cluster()
    id = cluster.weak(1, "append", "a")
    cluster.drop(Cast)
    cluster.hold(lost)
    cluster.settle(8)
    assert cluster.rb_delivered(2) == []
    cluster.drop(lost)
    cluster.release()

    cluster.settle(3 * cluster.settings.retry_ticks)  # pulls go to each peer in turn

    assert cluster.rb_delivered(2) == [id]


def test_a_message_is_pulled_from_any_replica_that_has_it() -> None:
    """Agreement does not depend on the sender, which cannot reach replica 2 any more."""
    cluster = Cluster()
    cluster.hold(sender=1, to=2)
    id = cluster.weak(1, "append", "a")

    cluster.settle(4)

    assert cluster.rb_delivered(2) == [id]


def test_a_gap_is_filled_and_later_messages_are_delivered() -> None:
    """Agreement for each of several messages, the first of which was lost."""
    cluster = Cluster()
    ids = [cluster.weak(1, "append", each) for each in range(4)]
    for missing in (ids[0], ids[2]):
        cluster.drop(Cast, to=2, carrying=missing)
    cluster.flush()

    cluster.settle(4)

    assert cluster.rb_delivered(2) == ids
    assert cluster.state_values(2) == [0, 1, 2, 3]


def test_messages_of_one_replica_are_delivered_in_cast_order() -> None:
    """Section 4.3: "the execution … respects the order in which each replica invokes"."""
    cluster = Cluster()
    first, second = (cluster.weak(1, "append", each) for each in "ab")

    cluster.deliver(Cast, to=2, carrying=second)
    assert cluster.rb_delivered(2) == []
    cluster.deliver(Cast, to=2, carrying=first)

    assert cluster.rb_delivered(2) == [first, second]


def test_a_message_held_back_survives_a_crash() -> None:
    """Agreement: received messages are on disk even if they are not delivered yet."""
    cluster = Cluster()
    first, second = (cluster.weak(1, "append", each) for each in "ab")
    cluster.deliver(Cast, to=2, carrying=second)
    cluster.crash(2)
    cluster.restart(2)
    cluster.hold(Pull, sender=2)

    cluster.inject(Cast((cluster.requests[first],)), sender=1, to=2)

    assert cluster.rb_delivered(2) == [first, second]


def test_both_sides_of_a_healed_partition_receive_all_messages() -> None:
    """Agreement after a partition heals."""
    cluster = Cluster(4)
    cluster.partition({0, 1}, {2, 3})
    ids = {cluster.weak(each, "append", each) for each in cluster.members}
    cluster.settle()
    assert {len(cluster.tentative(each)) for each in cluster.members} == {2}

    cluster.heal()
    cluster.settle()

    assert [set(cluster.tentative(each)) for each in cluster.members] == [ids] * 4


def test_many_messages_are_pulled_in_several_responses() -> None:
    """Agreement for any number of missed messages."""
    cluster = Cluster(pull_limit=2)
    ids = [cluster.weak(1, "append", each) for each in range(7)]
    cluster.drop(Cast, to=2)

    cluster.settle(12)

    assert cluster.rb_delivered(2) == ids


def test_a_replica_too_far_behind_receives_a_snapshot() -> None:
    """Agreement, if the messages have been discarded: a snapshot replaces them."""
    cluster = Cluster(checkpoint_every=4)
    cluster.partition({0, 1}, {2})
    for each in range(16):
        cluster.weak(0, "append", each)
        cluster.strong(1, "pop_first" if each % 2 else "length")
        cluster.flush()
    assert cluster.rb_delivered(2) == []

    cluster.heal()
    cluster.settle()

    assert cluster.state_values(2) == cluster.state_values(0) == cluster.state_values(1)
    assert len({cluster.replicas[each].view.committed_length() for each in cluster.members}) == 1
    assert len(cluster.rb_delivered(2)) < 32


@pytest.mark.parametrize("seed", SEEDS)
def test_every_schedule_satisfies_all_three_properties(seed: int) -> None:
    """Section 3.2, (1)-(3), under loss, duplication, reordering, partitions and crashes."""
    assert run(seed).quiescence_failure is None
    assert verdicts(seed)["reliable_broadcast"] == Ok("reliable_broadcast")
