"""Invalid messages to busy replicas: they are counted, and nothing else changes.

The tests compare a fingerprint of every attribute of the replica before and after.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from creekdb.errors import MalformedMessage
from creekdb.protocol import effects as effect_types
from creekdb.protocol import validation
from creekdb.protocol.consensus.leader import LeaderPhase
from creekdb.protocol.effects import DataLost, Effects, ResponseKind, Send
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import (
    Accept,
    Ballot,
    Cast,
    CatchUp,
    Checkpoint,
    Decisions,
    Heartbeat,
    Message,
    Prepare,
    Progress,
    Promise,
    Promised,
    Pull,
    PullResponse,
    Reject,
    Snapshot,
    Summary,
    Vote,
    decode_message,
    encode,
)
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.stack import DATA_LOSS_PROOFS
from creekdb.protocol.validation import MessageRejection
from creekdb.schemes.basic import BasicReplica
from tests.unit.protocol import strategies as valid
from tests.unit.schemes.fingerprint import fingerprint
from tests.unit.schemes.invalid_messages import invalid_messages_from, request
from tests.unit.schemes.random_workload import busy_harness
from tests.unit.schemes.replica_harness import ReplicaHarness, harness_with_leader

ALLOWED_EVENTS = (effect_types.BallotPromised, effect_types.Voted)
HUGE = 2**61
LAST = validation.COUNTER_LIMIT - 1
SEEDS = (*range(12), 13)
NOTHING = Effects()


@cache
def shared_busy_harness(seed: int) -> ReplicaHarness:
    """Return a harness shared by the tests that change nothing."""
    return busy_harness(seed)


def test_the_busy_replicas_cover_all_intermediate_states() -> None:
    replicas = [shared_busy_harness(seed)[index] for seed in SEEDS for index in range(3)]
    assert any(each._execution.to_be_rolled_back for each in replicas)
    assert any(each._execution._running is not None for each in replicas)
    assert any(each._responses.awaiting for each in replicas)
    assert any(each._order.first_position for each in replicas)
    stacks = [each._stack for each in replicas]
    assert any(each.reliable_broadcast.held_back() for each in stacks)
    assert any(each.cab._blocked for each in stacks)
    assert any(each.cab.acceptor.accepted for each in stacks)
    assert {each.cab.leader.phase for each in stacks} == set(LeaderPhase)


# --- random invalid messages ------------------------------------------------------------------


def assert_rejected(
    replica: BasicReplica, sender: int, message: Message, effects: Effects = NOTHING
) -> None:
    rejected_before = Counter(replica.view.rejected)
    replica.receive(message, sender, replica._stack._shared.now)
    ((reason, count),) = (Counter(replica.view.rejected) - rejected_before).items()
    assert count == 1, message
    loss = DATA_LOSS_PROOFS.get(MessageRejection(reason))
    data_lost = None if loss is None else DataLost(loss, sender)
    assert replica.take_effects() == msgspec.structs.replace(effects, data_lost=data_lost), message


@pytest.mark.parametrize("index", range(3))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_an_invalid_message_is_counted_and_changes_nothing(index: int, data: st.DataObject) -> None:
    replica = shared_busy_harness(data.draw(st.sampled_from(SEEDS)))[index]
    sender = data.draw(st.sampled_from([each for each in range(3) if each != index]))
    before = fingerprint(replica)
    for message in data.draw(st.lists(invalid_messages_from(sender), min_size=10, max_size=20)):
        assert_rejected(replica, sender, message)
    assert fingerprint(replica) == before


@pytest.mark.parametrize("index", range(3))
@settings(max_examples=10)
@given(wrong=st.lists(valid.messages, min_size=10, max_size=20), seed=st.sampled_from(SEEDS))
def test_messages_from_non_members_change_nothing(
    index: int, wrong: list[Message], seed: int
) -> None:
    """A sender that reports more progress may be a recently added member. It gets a catch-up
    request, and nothing else happens."""
    replica = shared_busy_harness(seed)[index]
    before = fingerprint(replica)
    delivered = replica._stack.cab.learner.delivered
    for sender in (3, -1, index):
        for message in wrong:
            is_ahead = isinstance(message, Progress) and message.delivered > delivered
            catch_up = Effects(send=(Send((sender,), CatchUp(delivered)),))
            effects = catch_up if is_ahead and sender == 3 else NOTHING
            assert_rejected(replica, sender, message, effects)
    assert fingerprint(replica) == before


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reused_identifier_is_rejected(seed: int) -> None:
    for index, replica in shared_busy_harness(seed).replicas.items():
        before = fingerprint(replica)
        retained = replica._stack.reliable_broadcast._retained
        for known in [
            each for origin in retained if origin != index for each in retained[origin].values()
        ]:
            others = [
                Request(
                    known.timestamp + 1, known.id, known.operation, known.strong, known.context
                ),
                Request(known.timestamp, known.id, Operation("noop"), known.strong, known.context),
                Request(known.timestamp, known.id, known.operation, True, Dots())
                if not known.strong
                else Request(known.timestamp, known.id, known.operation, False),
            ]
            for other in others:
                assert_rejected(replica, known.id.replica, Cast((other,)))
                assert_rejected(replica, (index + 1) % 3, PullResponse((other,)))
        assert fingerprint(replica) == before
        assert replica.view.rejected[MessageRejection.ID_REUSED] > 0


# --- late messages ------------------------------------------------------------------------------

PEER_CONTACT = (
    "omega._last_heartbeats",
    "omega._received_at_ticks",
    "omega._timely_count",
    "reliable_broadcast._summaries",
    "reliable_broadcast._receive_rates",
    "reliable_broadcast._pulled_this_round",
    "reliable_broadcast._pulled_before",
    "_snapshot_sender._sent",
)
"""Last reports of the peers and times of the replies, which a late message may update."""


def without_peer_contact(values: dict[str, str]) -> dict[str, str]:
    return {
        path: value
        for path, value in values.items()
        if not any(soft in path for soft in PEER_CONTACT)
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_late_message_causes_at_most_a_reply(seed: int) -> None:
    harness = busy_harness(seed, crashes=False)
    for index in list(harness.held_tasks):
        harness.run_held_tasks(index)
    harness.run_until_quiescent(600)
    for replica in harness.replicas.values():
        before = without_peer_contact(fingerprint(replica))
        for sender, receiver, message in harness.sent:
            if receiver == replica.index:
                replica.receive(message, sender, replica._stack._shared.now)
                effects = replica.take_effects()
                allowed = [each for each in effects.events if isinstance(each, ALLOWED_EVENTS)]
                assert effects == Effects(send=effects.send, events=tuple(allowed)), message
        assert without_peer_contact(fingerprint(replica)) == before


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stale_ballot_is_counted_and_rejected_with_the_promised_one(seed: int) -> None:
    for index, replica in shared_busy_harness(seed).replicas.items():
        acceptor, learner = replica._stack.cab.acceptor, replica._stack.cab.learner
        sender = (index + 1) % 3
        past = Ballot(acceptor.promised.round - 1, sender)
        if past.round < 1:
            continue
        before = fingerprint(replica)
        for message in (Prepare(past, 0), Accept(past, learner.first_undecided, (Dot(0, 1),))):
            rejected_before = replica.view.rejected.get(MessageRejection.STALE_BALLOT, 0)
            replica.receive(message, sender, replica._stack._shared.now)
            assert replica.view.rejected[MessageRejection.STALE_BALLOT] == rejected_before + 1
            (send,) = replica.take_effects().send
            assert (send.to, send.message) == ((sender,), Reject(acceptor.promised))
        after = fingerprint(replica)
        # A learner may count votes of any ballot, because a past majority has decided.
        changed = {path for path in before | after if before.get(path) != after.get(path)}
        assert all("cab.learner._tallies" in path for path in changed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pull_of_nonexistent_requests_changes_nothing(seed: int) -> None:
    for index, replica in shared_busy_harness(seed).replicas.items():
        rejected_before = sum(replica.view.rejected.values())
        before = without_peer_contact(fingerprint(replica))
        everything = Dots(dict.fromkeys(range(3), (1, HUGE)))
        replica.receive(Pull(everything), (index + 1) % 3, replica._stack._shared.now)
        effects = replica.take_effects()
        assert effects == Effects(send=effects.send)
        assert without_peer_contact(fingerprint(replica)) == before
        assert sum(replica.view.rejected.values()) == rejected_before + 1


# --- real messages with corrupted bytes ---------------------------------------------------------


def mutated(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(changed))
        kind = random.randrange(4)
        if kind == 0:
            changed[at] = random.randrange(256)
        elif kind == 1:
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 2 and len(changed) > 1:
            del changed[at]
        else:
            changed.insert(at, random.randrange(256))
    return bytes(changed)


@pytest.mark.parametrize("seed", SEEDS)
def test_real_messages_with_corrupted_bytes_break_nothing(seed: int) -> None:
    """Most are malformed and many are rejected. The few valid ones must not crash the replica."""
    harness, random = shared_busy_harness(seed), Random(seed)
    counts = {"malformed": 0, "rejected": 0, "admitted": 0}
    fingerprints = {index: fingerprint(replica) for index, replica in harness.replicas.items()}
    for _ in range(600):
        sender, receiver, message = random.choice(harness.sent)
        try:
            wrong = decode_message(mutated(encode(message), random))
        except MalformedMessage:
            counts["malformed"] += 1
            continue
        replica = harness[receiver]
        settings = harness.settings
        if validation.rejection_reason(wrong, sender, settings) is None:
            replica = busy_harness(seed)[receiver]  # an equal one, which the message may change
            with time_limit(5):
                replica.receive(wrong, sender, replica._stack._shared.now)
            counts["admitted"] += 1
        else:
            assert_rejected(replica, sender, wrong)
            counts["rejected"] += 1
    assert all(counts.values()), counts
    assert {each: fingerprint(harness[each]) for each in range(3)} == fingerprints


# --- messages that contradict the replica's state -----------------------------------------------


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if the block takes longer."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def working_harness() -> ReplicaHarness:
    """Return replicas led by replica 1, with six committed and three tentative weak requests."""
    harness = harness_with_leader(1)
    for index in range(3):
        harness.invoke(index, "put", "a", index)
        harness.invoke(index, "put", "b", index, strong=True)
    harness.deliver()
    harness.tick(2)
    for index in range(3):
        harness.invoke(index, "put", "c", index)
    harness.deliver()
    assert [harness[index].view.committed_length() for index in range(3)] == [6, 6, 6]
    return harness


BALLOT = Ballot(1, 1)
"""Placeholder for the ballot in which replica 1 leads the working harness."""
NEXT = 3
"""First undecided instance of the working harness."""
COMMITTED = Dots(dict.fromkeys(range(3), (1, 3)))
WEAK = Dot(2, 3)
NEVER_CAST = Dot(2, 99)
"""Request that its alleged issuer, replica 2, receives in a message."""


def with_current_ballot(message: Message, harness: ReplicaHarness) -> Message:
    """Return the message with the current ballot of the harness."""
    if isinstance(message, Accept | Vote):
        promised = harness[2]._stack.cab.acceptor.promised
        return msgspec.structs.replace(message, ballot=promised)
    return message


def checkpoint(length: int, ids: Dots, **others: Any) -> Snapshot:
    fields: dict[str, Any] = {"instance": NEXT + 5, "timestamp": 1, "state": (), "outcomes": ()}
    return Snapshot(Checkpoint(length=length, ids=ids, **(fields | others)))


CONTRADICTIONS: dict[str, object] = {
    "a snapshot shorter than the committed prefix": checkpoint(0, Dots()),
    "a snapshot without some committed requests": checkpoint(100, Dots({1: (1, 101)})),
    "a snapshot with more dots than a length can count": checkpoint(
        5, Dots(dict.fromkeys(range(3), (1, LAST)))
    ),
    "a snapshot that holds a register twice": checkpoint(6, COMMITTED, state=(("a", 1), ("a", 2))),
    "a snapshot with an own request that was never cast": checkpoint(
        7, Dots({0: (1, 3), 1: (1, 3), 2: (1, 3, 99, 100)})
    ),
    "an own request that was never cast": PullResponse((request(Dot(2, 4)),)),
    "an own request from the far future": PullResponse((request(Dot(2, LAST)),)),
    "a context with an own request that was never cast": Cast(
        (request(Dot(1, 4), 9, True, Dots({2: (1, 100)})),)
    ),
    "a summary of own requests that were never cast": Summary(Dots({2: (1, 100)})),
    "a proposal of an own request that was never cast": Accept(BALLOT, NEXT, (NEVER_CAST,)),
    "a decision for an own request that was never cast": Decisions(NEXT, ((NEVER_CAST,),)),
    "a proposal of a weak request": Accept(BALLOT, NEXT, (WEAK,)),
    "a decision for a weak request": Decisions(NEXT, ((WEAK,),)),
    "a proposal with a cut that no strong request follows": Accept(BALLOT, NEXT, (Dot(0, 3), WEAK)),
    "two requests under one identifier": Cast((request(Dot(1, 4), 7), request(Dot(1, 4), 8))),
    "a proposal that contradicts an earlier one of its ballot": Accept(
        BALLOT, NEXT + 1, (Dot(1, 2),)
    ),
    "a record": Promised(BALLOT),
    "nothing": None,
}


@pytest.mark.parametrize("message", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_message_that_contradicts_the_replicas_state_is_rejected(message: Any) -> None:
    harness = working_harness()
    replica = harness[2]
    harness.receive(2, 1, with_current_ballot(Accept(BALLOT, NEXT + 1, (Dot(0, 2),)), harness))
    before = fingerprint(replica)
    with time_limit(0.5):
        assert_rejected(replica, 1, with_current_ballot(message, harness))
    assert fingerprint(replica) == before


def test_a_cut_with_a_request_later_than_its_strong_request_is_rejected() -> None:
    harness = working_harness()
    replica, strong = harness[2], request(Dot(0, 4), 1, True, Dots())
    harness.receive(2, 0, Cast((strong,)))
    before = fingerprint(replica)
    assert_rejected(
        replica, 1, with_current_ballot(Accept(BALLOT, NEXT, (WEAK, strong.id)), harness)
    )
    assert fingerprint(replica) == before
    assert replica.view.rejected[MessageRejection.BAD_CUT] == 1


def test_the_cost_of_a_snapshot_does_not_depend_on_its_claimed_length() -> None:
    """A replica cannot detect that 2**61 requests of another replica were never issued."""
    harness = working_harness()
    ids = Dots({0: (1, HUGE), 1: (1, 3), 2: (1, 3)})
    with time_limit(0.5):
        harness.receive(2, 1, checkpoint(HUGE + 3, ids))
        harness.tick(10)
    assert harness[2].view.committed_length() >= HUGE


DISTANT_INSTANCES: dict[str, Message] = {
    "an accept": Accept(BALLOT, HUGE, (Dot(0, 2),)),
    "a vote": Vote(BALLOT, HUGE),
    "decisions": Decisions(HUGE, ((Dot(0, 2),),)),
    "a catch-up": CatchUp(HUGE),
    "a promise without a prepare": Promise(Ballot(9, 2), HUGE, ()),
}


@pytest.mark.parametrize("message", DISTANT_INSTANCES.values(), ids=DISTANT_INSTANCES.keys())
def test_nothing_is_stored_for_an_instance_too_far_ahead(message: Message) -> None:
    harness = working_harness()
    replica = harness[2]
    before = fingerprint(replica)
    replica.receive(with_current_ballot(message, harness), 1, replica._stack._shared.now)
    assert replica.take_effects() == NOTHING
    assert fingerprint(replica) == before


FALSE_CLAIMS: dict[str, Message] = {
    "a summary of all possible requests": Summary(Dots({0: (1, HUGE), 1: (1, HUGE)})),
    "progress without end": Progress(HUGE),
    "a ballot of the far future": Heartbeat(Ballot(HUGE, 1), 1, (0, 1, 2)),
    "a timestamp of the far future": Cast((request(Dot(0, 4), HUGE - 1),)),
    "a rejection with the last ballot": Reject(Ballot(LAST, 1)),
    "a heartbeat with the last ballot": Heartbeat(Ballot(LAST, 1), 1, (0, 1, 2)),
    "a prepare with the last ballot": Prepare(Ballot(LAST, 1), 0),
    "the last timestamp": Cast((request(Dot(1, 4), LAST),)),
}


@pytest.mark.parametrize("message", FALSE_CLAIMS.values(), ids=FALSE_CLAIMS.keys())
def test_a_false_number_costs_no_liveness(message: Message) -> None:
    harness = working_harness()
    if isinstance(message, Cast):  # to every replica but the issuer
        (effect_types,) = message.requests
        for index in range(3):
            if index != effect_types.id.replica:
                harness.receive(index, effect_types.id.replica, message)
        harness.crash(effect_types.id.replica)
    else:
        harness.receive(2, 1, message)
    with time_limit(20):
        harness.tick(20)
        ids = [
            harness.invoke(each, "put", "d", 1, strong=True) for each in sorted(harness.replicas)
        ]
        harness.tick(200)
    for id in ids:
        assert ResponseKind.STABLE in [kind for kind, _ in harness.responses_to(id)]
