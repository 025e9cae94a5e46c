"""Wrong messages, thrown at replicas in the middle of real work: counted, and nothing else changes.

"Nothing else" is meant literally: a fingerprint of every attribute of the replica is taken before
and after.
"""

import copy
import signal
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
from creekdb.protocol import effects as told
from creekdb.protocol import validation
from creekdb.protocol.consensus.acceptor import STALE_BALLOT
from creekdb.protocol.consensus.leader import LeaderPhase
from creekdb.protocol.effects import Effects, ResponseKind, Send
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
from creekdb.schemes.basic import BasicReplica
from tests.unit.protocol import strategies as good
from tests.unit.schemes.bench import Bench, leading_bench
from tests.unit.schemes.busy import busy_bench
from tests.unit.schemes.fingerprint import fingerprint
from tests.unit.schemes.wrong_messages import request, wrong_from

SAID = (told.BallotPromised, told.Voted)
HUGE = 2**61
LAST = validation.COUNTER_LIMIT - 1
SEEDS = (*range(12), 13)
NOTHING = Effects()


@cache
def busy(seed: int) -> Bench:
    """Shared by the tests that change nothing."""
    return busy_bench(seed)


def test_the_replicas_really_are_in_the_middle_of_work() -> None:
    replicas = [busy(seed)[index] for seed in SEEDS for index in range(3)]
    assert any(each._to_be_rolled_back for each in replicas)
    assert any(each._running is not None for each in replicas)
    assert any(each._responses.awaiting for each in replicas)
    assert any(each._order.first_position for each in replicas)
    broadcasts = [each._stack for each in replicas]
    assert any(each.reliable_broadcast.held_back() for each in broadcasts)
    assert any(each.cab._blocked for each in broadcasts)
    assert any(each.cab.acceptor.accepted for each in broadcasts)
    assert {each.cab.leader.phase for each in broadcasts} == set(LeaderPhase)


# --- wrong messages, drawn --------------------------------------------------------------------


def assert_refused(
    replica: BasicReplica, sender: int, message: Message, effects: Effects = NOTHING
) -> None:
    refused = sum(replica.rejected.values())
    replica.receive(message, sender, replica._stack._now)
    assert sum(replica.rejected.values()) == refused + 1, message
    assert replica.take_effects() == effects, message


@pytest.mark.parametrize("index", range(3))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_wrong_message_is_counted_and_changes_nothing(index: int, data: st.DataObject) -> None:
    replica = busy(data.draw(st.sampled_from(SEEDS)))[index]
    sender = data.draw(st.sampled_from([each for each in range(3) if each != index]))
    before = fingerprint(replica)
    for message in data.draw(st.lists(wrong_from(sender), min_size=10, max_size=20)):
        assert_refused(replica, sender, message)
    assert fingerprint(replica) == before


@pytest.mark.parametrize("index", range(3))
@settings(max_examples=10)
@given(wrong=st.lists(good.messages, min_size=10, max_size=20), seed=st.sampled_from(SEEDS))
def test_a_stranger_changes_nothing_whatever_it_sends(
    index: int, wrong: list[Message], seed: int
) -> None:
    """One that says it knows more may be a member that was added meanwhile: it is asked for what it
    knows, and that is all."""
    replica = busy(seed)[index]
    before = fingerprint(replica)
    delivered = replica._stack.cab.learner.delivered
    for sender in (3, -1, index):
        for message in wrong:
            knows_more = isinstance(message, Progress) and message.delivered > delivered
            asked = Effects(send=(Send((sender,), CatchUp(delivered)),))
            effects = asked if knows_more and sender == 3 else NOTHING
            assert_refused(replica, sender, message, effects)
    assert fingerprint(replica) == before


@pytest.mark.parametrize("seed", SEEDS)
def test_an_identifier_is_not_reused(seed: int) -> None:
    for index, replica in busy(seed).replicas.items():
        before = fingerprint(replica)
        kept = replica._stack.reliable_broadcast._retained
        for known in [each for who in kept if who != index for each in kept[who].values()]:
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
                assert_refused(replica, known.id.replica, Cast((other,)))
                assert_refused(replica, (index + 1) % 3, PullResponse((other,)))
        assert fingerprint(replica) == before
        assert replica.rejected[validation.ID_REUSED] > 0


# --- messages that are only late ----------------------------------------------------------------

SOFT = (
    "omega._last",
    "omega._heard_at",
    "omega._calm",
    "gossip._known",
    "gossip._growth",
    "gossip._asked",
    "stragglers._sent",
)
"""What peers said last, and when they were answered: a late word is a word."""


def lasting(found: dict[str, str]) -> dict[str, str]:
    return {path: value for path, value in found.items() if not any(soft in path for soft in SOFT)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_message_that_comes_too_late_is_at_most_answered(seed: int) -> None:
    bench = busy_bench(seed, crashes=False)
    for index in list(bench.holding):
        bench.run_held(index)
    bench.settle(600)
    for replica in bench.replicas.values():
        before = lasting(fingerprint(replica))
        for sender, receiver, message in bench.sent:
            if receiver == replica.index:
                replica.receive(message, sender, replica._stack._now)
                effects = replica.take_effects()
                said = [each for each in effects.events if isinstance(each, SAID)]
                assert effects == Effects(send=effects.send, events=tuple(said)), message
        assert lasting(fingerprint(replica)) == before


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ballot_from_the_past_is_counted_and_told_what_is_promised(seed: int) -> None:
    for index, replica in busy(seed).replicas.items():
        acceptor, learner = replica._stack.cab.acceptor, replica._stack.cab.learner
        sender = (index + 1) % 3
        past = Ballot(acceptor.promised.round - 1, sender)
        if past.round < 1:
            continue
        before = fingerprint(replica)
        for message in (Prepare(past, 0), Accept(past, learner.first_undecided, (Dot(0, 1),))):
            refused = replica.rejected.get(STALE_BALLOT, 0)
            replica.receive(message, sender, replica._stack._now)
            assert replica.rejected[STALE_BALLOT] == refused + 1
            (send,) = replica.take_effects().send
            assert (send.to, send.message) == ((sender,), Reject(acceptor.promised))
        after = fingerprint(replica)
        # A learner may count votes of any ballot: a majority in the past has decided.
        changed = {path for path in before | after if before.get(path) != after.get(path)}
        assert all("cab.learner._tallies" in path for path in changed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pull_of_what_was_never_cast_changes_nothing(seed: int) -> None:
    for index, replica in busy(seed).replicas.items():
        refused = sum(replica.rejected.values())
        before = lasting(fingerprint(replica))
        everything = Dots(dict.fromkeys(range(3), (1, HUGE)))
        replica.receive(Pull(everything), (index + 1) % 3, replica._stack._now)
        effects = replica.take_effects()
        assert effects == Effects(send=effects.send)
        assert lasting(fingerprint(replica)) == before
        assert sum(replica.rejected.values()) == refused + 1


# --- real messages with wrong bytes -------------------------------------------------------------


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
def test_real_messages_with_wrong_bytes_break_nothing(seed: int) -> None:
    """Most are no message, many are refused; the few that could be real must not crash it."""
    bench, random = busy(seed), Random(seed)
    counts = {"malformed": 0, "refused": 0, "admitted": 0}
    prints = {index: fingerprint(replica) for index, replica in bench.replicas.items()}
    for _ in range(600):
        sender, receiver, message = random.choice(bench.sent)
        try:
            wrong = decode_message(mutated(encode(message), random))
        except MalformedMessage:
            counts["malformed"] += 1
            continue
        replica = bench[receiver]
        settings = bench.settings
        if validation.rejection_reason(wrong, sender, settings) is None:
            replica = copy.deepcopy(replica)
            with at_most(5):
                replica.receive(wrong, sender, replica._stack._now)
            counts["admitted"] += 1
        else:
            assert_refused(replica, sender, wrong)
            counts["refused"] += 1
    assert all(counts.values()), counts
    assert {each: fingerprint(bench[each]) for each in range(3)} == prints


# --- single wrong messages that need a closer look ----------------------------------------------


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in whatever takes longer."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def working_bench() -> Bench:
    """Replica 1 leads; six requests are committed everywhere, three weak ones are tentative."""
    bench = leading_bench(1)
    for index in range(3):
        bench.invoke(index, "put", "a", index)
        bench.invoke(index, "put", "b", index, strong=True)
    bench.deliver()
    bench.tick(2)
    for index in range(3):
        bench.invoke(index, "put", "c", index)
    bench.deliver()
    assert [bench[index].committed_length() for index in range(3)] == [6, 6, 6]
    return bench


BALLOT = Ballot(1, 1)
"""Stands for the one in which replica 1 leads the working bench."""
NEXT = 3
"""The first undecided instance of the working bench."""
COMMITTED = Dots(dict.fromkeys(range(3), (1, 3)))
WEAK = Dot(2, 3)
NEVER_CAST = Dot(2, 99)
"""By replica 2, which is the one that is told of it."""


def in_term(message: Message, bench: Bench) -> Message:
    """The message, with the ballot in which the bench is led."""
    if isinstance(message, Accept | Vote):
        promised = bench[2]._stack.cab.acceptor.promised
        return msgspec.structs.replace(message, ballot=promised)
    return message


def checkpoint(length: int, ids: Dots, **others: Any) -> Snapshot:
    fields: dict[str, Any] = {"instance": NEXT + 5, "timestamp": 1, "state": (), "outcomes": ()}
    return Snapshot(Checkpoint(length=length, ids=ids, **(fields | others)))


CLOSER: dict[str, object] = {
    "a snapshot that is shorter than what is committed": checkpoint(0, Dots()),
    "a snapshot that lacks what is committed": checkpoint(100, Dots({1: (1, 101)})),
    "a snapshot with more dots than a length can count": checkpoint(
        5, Dots(dict.fromkeys(range(3), (1, LAST)))
    ),
    "a snapshot that holds a register twice": checkpoint(6, COMMITTED, state=(("a", 1), ("a", 2))),
    "a snapshot with an operation of ours that we never cast": checkpoint(
        7, Dots({0: (1, 3), 1: (1, 3), 2: (1, 3, 99, 100)})
    ),
    "a request of ours that we never cast": PullResponse((request(Dot(2, 4)),)),
    "a request of ours from the far future": PullResponse((request(Dot(2, LAST)),)),
    "a context with a request of ours that we never cast": Cast(
        (request(Dot(1, 4), 9, True, Dots({2: (1, 100)})),)
    ),
    "a summary of requests of ours that we never cast": Summary(Dots({2: (1, 100)})),
    "a proposal of a request of ours that we never cast": Accept(BALLOT, NEXT, (NEVER_CAST,)),
    "a decision for a request of ours that we never cast": Decisions(NEXT, ((NEVER_CAST,),)),
    "a proposal of a weak request": Accept(BALLOT, NEXT, (WEAK,)),
    "a decision for a weak request": Decisions(NEXT, ((WEAK,),)),
    "two requests under one identifier": Cast((request(Dot(1, 4), 7), request(Dot(1, 4), 8))),
    "a proposal that contradicts an earlier one of its ballot": Accept(
        BALLOT, NEXT + 1, (Dot(1, 2),)
    ),
    "a record": Promised(BALLOT),
    "nothing": None,
}


@pytest.mark.parametrize("message", CLOSER.values(), ids=CLOSER.keys())
def test_what_this_replica_can_know_to_be_wrong_is_refused(message: Any) -> None:
    bench = working_bench()
    replica = bench[2]
    bench.receive(2, 1, in_term(Accept(BALLOT, NEXT + 1, (Dot(0, 2),)), bench))
    before = fingerprint(replica)
    with at_most(0.5):
        assert_refused(replica, 1, in_term(message, bench))
    assert fingerprint(replica) == before


def test_a_snapshot_costs_no_more_when_it_claims_to_hold_more() -> None:
    """Nobody can know that 2**61 requests of another replica were never issued."""
    bench = working_bench()
    ids = Dots({0: (1, HUGE), 1: (1, 3), 2: (1, 3)})
    with at_most(0.5):
        bench.receive(2, 1, checkpoint(HUGE + 3, ids))
        bench.tick(10)
    assert bench[2].committed_length() >= HUGE


FAR: dict[str, Message] = {
    "an accept": Accept(BALLOT, HUGE, (Dot(0, 2),)),
    "a vote": Vote(BALLOT, HUGE),
    "decisions": Decisions(HUGE, ((Dot(0, 2),),)),
    "a catch-up": CatchUp(HUGE),
    "a promise that nobody asked for": Promise(Ballot(9, 2), HUGE, ()),
}


@pytest.mark.parametrize("message", FAR.values(), ids=FAR.keys())
def test_nothing_is_kept_of_an_instance_too_far_ahead(message: Message) -> None:
    bench = working_bench()
    replica = bench[2]
    before = fingerprint(replica)
    replica.receive(in_term(message, bench), 1, replica._stack._now)
    assert replica.take_effects() == NOTHING
    assert fingerprint(replica) == before


LIES: dict[str, Message] = {
    "a summary of everything there could be": Summary(Dots({0: (1, HUGE), 1: (1, HUGE)})),
    "progress without end": Progress(HUGE),
    "a ballot of the far future": Heartbeat(Ballot(HUGE, 1), 1, (0, 1, 2)),
    "a timestamp of the far future": Cast((request(Dot(0, 4), HUGE - 1),)),
    "a rejection with the last ballot": Reject(Ballot(LAST, 1)),
    "a heartbeat with the last ballot": Heartbeat(Ballot(LAST, 1), 1, (0, 1, 2)),
    "a prepare with the last ballot": Prepare(Ballot(LAST, 1), 0),
    "the last timestamp": Cast((request(Dot(1, 4), LAST),)),
}


@pytest.mark.parametrize("message", LIES.values(), ids=LIES.keys())
def test_no_lie_about_numbers_costs_anybody_liveness(message: Message) -> None:
    bench = working_bench()
    if isinstance(message, Cast):  # to everyone who is not the liar
        (told,) = message.requests
        for index in range(3):
            if index != told.id.replica:
                bench.receive(index, told.id.replica, message)
        bench.crash(told.id.replica)
    else:
        bench.receive(2, 1, message)
    with at_most(20):
        bench.tick(20)
        ids = [bench.invoke(each, "put", "d", 1, strong=True) for each in sorted(bench.replicas)]
        bench.tick(200)
    for id in ids:
        assert ResponseKind.STABLE in [kind for kind, _ in bench.answers_to(id)]
