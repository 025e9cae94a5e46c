"""Queues of a leader: by arrival, or by timestamp, cut and deadline."""

import pytest

from creekdb.protocol.consensus.delays import DelayEstimates
from creekdb.protocol.consensus.fast_quorums import FastPathControl
from creekdb.protocol.consensus.proposal_queue import ArrivalQueue, DeadlineQueue
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables

A, B, C = Dot(1, 1), Dot(2, 1), Dot(3, 1)


class Requests:
    """Received requests: their timestamps and cuts."""

    has_contexts = True

    def __init__(self) -> None:
        self.timestamps: dict[Dot, int] = {}
        self.cuts: dict[Dot, tuple[Dot, ...]] = {}
        self.committed: set[Dot] = set()

    def missing_dependency(self, id: Dot) -> Dot | None:
        return None

    def timestamp_of(self, id: Dot) -> int:
        return self.timestamps[id]

    def cut_before(self, id: Dot) -> tuple[Dot, ...]:
        return self.cuts.get(id, ())

    def fill_lost_request(self, id: Dot, timestamp: int) -> Request:
        raise NotImplementedError

    def is_committed(self, id: Dot) -> bool:
        return id in self.committed

    def is_weak(self, id: Dot) -> bool:
        return False

    def can_install(self, checkpoint: object) -> bool:
        return True


class QueueHarness:
    """Deadline queue of replica 0. The delay of replica 1 is 300 us."""

    def __init__(self, **settings: int) -> None:
        self.shared = SharedVariables(0, Settings(members=(0, 1, 2, 3), **settings))
        self.requests = Requests()
        delays = DelayEstimates(self.shared)
        delays.add(1, 300)
        self.control = FastPathControl(self.shared, delays, lambda: self.shared.settings.members)
        self.queue = DeadlineQueue(self.shared, self.requests, delays, self.control)

    def add(self, id: Dot, timestamp: int, *cut: Dot) -> None:
        self.requests.timestamps[id] = timestamp
        self.requests.cuts[id] = cut
        self.queue.add(id)

    def take(self, now: int, limit: int = 10) -> tuple[Dot, ...]:
        self.shared.now = now
        return self.queue.take_batch(limit) if self.queue.has_due() else ()

    def wake_at(self) -> int | None:
        self.queue.request_wake()
        return self.shared.outbox.take().wake_at


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


def test_an_arrival_queue_keeps_the_order_of_arrival() -> None:
    queue = ArrivalQueue()
    assert not queue.has_due()
    for id in (B, A, C):
        queue.add(id)
    assert queue.take_batch(2) == (B, A)
    assert queue.has_due()
    assert queue.take_batch(2) == (C,)
    queue.add(A)
    queue.clear()
    assert not queue.has_due()


def test_a_request_is_held_until_its_deadline(harness: QueueHarness) -> None:
    harness.shared.now = 1_200
    harness.add(A, 1_000)
    assert harness.take(1_299) == ()
    assert harness.take(1_300) == (A,)
    assert harness.shared.probes.counts[Probe.PROPOSAL_HELD] == 1


def test_requests_are_proposed_in_the_order_of_their_timestamps(harness: QueueHarness) -> None:
    harness.shared.now = 1_200
    harness.add(B, 1_100)
    harness.add(A, 1_000)
    assert harness.take(2_000) == (A, B)
    assert harness.shared.probes.counts[Probe.PROPOSAL_OVERTAKEN] == 1


def test_a_batch_has_only_requests_that_are_due(harness: QueueHarness) -> None:
    harness.shared.now = 1_200
    harness.add(A, 1_000)
    harness.add(B, 1_100)
    assert harness.take(1_300) == (A,)
    harness.add(C, 1_050)
    assert harness.take(2_000, limit=1) == (C,)
    assert harness.take(2_000, limit=1) == (B,)


def test_a_clock_ahead_at_the_origin_does_not_extend_the_hold(harness: QueueHarness) -> None:
    harness.shared.now = 1_000
    harness.add(A, 9_000_000)
    assert harness.take(1_300) == (A,)


def test_ticks_end_the_hold_if_the_clock_does_not(harness: QueueHarness) -> None:
    harness.shared.now = 1_000
    harness.add(A, 1_000)
    harness.shared.ticks += 1
    assert harness.take(0) == ()
    harness.shared.ticks += 1
    assert harness.take(0) == (A,)


def test_each_strong_request_follows_its_cut(harness: QueueHarness) -> None:
    """Within one batch, a cut does not repeat what precedes it."""
    weak, later_weak = Dot(0, 1), Dot(0, 2)
    harness.add(A, 1_000, weak)
    harness.add(B, 1_100, weak)
    harness.add(C, 1_200, later_weak)
    assert harness.take(9_000) == (weak, A, B, later_weak, C)


def test_a_cut_repeats_what_is_in_flight(harness: QueueHarness) -> None:
    weak = Dot(0, 1)
    harness.add(A, 1_000, weak)
    harness.add(B, 1_100, weak)
    assert harness.take(9_000, limit=1) == (weak, A)
    assert harness.take(9_000, limit=1) == (weak, B)


def test_a_request_that_was_committed_meanwhile_is_not_proposed(harness: QueueHarness) -> None:
    harness.add(A, 1_000)
    harness.add(B, 1_100)
    harness.requests.committed.add(A)
    assert harness.take(9_000) == (B,)


def test_a_wake_is_requested_once_per_deadline(harness: QueueHarness) -> None:
    assert harness.wake_at() is None
    harness.shared.now = 1_200
    harness.add(B, 1_100)
    assert harness.wake_at() == 1_400
    assert harness.wake_at() is None
    harness.add(A, 1_000)
    assert harness.wake_at() == 1_300


def test_a_wake_before_the_deadline_is_repeated(harness: QueueHarness) -> None:
    harness.shared.now = 1_200
    harness.add(A, 1_000)
    assert harness.wake_at() == 1_300
    harness.shared.now = 1_250  # the clock went back, or the timer is early
    harness.queue.on_wake()
    assert harness.wake_at() == 1_300


def test_no_wake_is_requested_for_a_request_that_is_due(harness: QueueHarness) -> None:
    """It waits for the window, and a timer would fire at once, for ever."""
    harness.add(A, 1_000)
    harness.shared.now = 5_000
    harness.queue.on_wake()
    assert harness.wake_at() is None


def test_a_leader_that_steps_down_needs_no_wake(harness: QueueHarness) -> None:
    harness.shared.now = 1_200
    harness.add(A, 1_000)
    assert harness.wake_at() == 1_300
    harness.queue.clear()
    harness.queue.on_wake()
    assert harness.wake_at() is None


def test_a_paused_fast_path_holds_no_request() -> None:
    harness = QueueHarness(fast_path=1)
    harness.shared.now = 1_000
    harness.add(A, 1_000)
    assert harness.take(1_299) == ()
    assert harness.take(1_300) == (A,)
    harness.control._pause = 1
    harness.shared.now = 1_400
    harness.add(B, 1_400)

    assert harness.take(1_400) == (B,)


def test_a_fast_path_without_late_contexts_has_no_cuts() -> None:
    harness = QueueHarness(fast_path=1)
    harness.add(B, 1_000, A)

    assert harness.take(2_000) == (B,)
