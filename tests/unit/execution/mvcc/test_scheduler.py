from creekdb.execution.mvcc.entry import ExecutionPhase, RequestEntry
from creekdb.execution.mvcc.scheduler import FAILED_ATTEMPTS_MAX, LOOKAHEAD_MAX, Scheduler
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request


def entry(at: int, *, after: RequestEntry | None = None, failed_attempts: int = 0) -> RequestEntry:
    created = RequestEntry(Request(at, Dot(0, at), NOOP, strong=False), (at,))
    created.session_predecessor, created.failed_attempts = after, failed_attempts
    return created


def scheduler(*entries: RequestEntry, cores: int = 2) -> Scheduler:
    created = Scheduler(cores)
    for each in entries:
        created.add(each)
    return created


def test_the_earliest_request_runs_first_however_late_it_arrived() -> None:
    entries = [entry(30), entry(10), entry(20)]
    queue = scheduler(*entries, cores=3)

    assert [queue.start(number) for number in (1, 2, 3)] == [entries[1], entries[2], entries[0]]
    assert all(each.phase is ExecutionPhase.RUNNING for each in entries)
    assert queue.start(4) is None


def test_at_most_one_request_runs_per_core() -> None:
    queue = scheduler(*(entry(at) for at in range(10)))
    assert queue.start(1) is not None
    assert queue.start(2) is not None
    assert queue.start(3) is None

    queue.finish(2)

    assert queue.start(3) is not None
    assert queue.start(4) is None


def test_finish_returns_the_entry_of_a_task_once() -> None:
    only = entry(1)
    queue = scheduler(only)
    queue.start(7)

    assert queue.finish(7) is only
    assert queue.finish(7) is None


def test_a_request_waits_for_its_session_predecessor() -> None:
    first = entry(10)
    second = entry(20, after=first)
    other = entry(30)
    queue = scheduler(first, second, other, cores=3)

    assert queue.start(1) is first
    assert queue.start(2) is other, "it has no predecessor"
    assert queue.start(3) is None

    queue.finish(1)
    first.phase = ExecutionPhase.EXECUTED
    assert queue.start(3) is second


def test_a_request_does_not_wait_for_a_predecessor_that_is_ordered_after_it() -> None:
    """A later strong request may be committed first, while its predecessor waits to be first."""
    first = entry(20, failed_attempts=FAILED_ATTEMPTS_MAX)
    second = entry(10, after=first)
    queue = scheduler(first, second)

    assert queue.start(1) is second
    queue.finish(1)
    assert queue.start(2) is first


def test_a_request_that_failed_too_often_runs_once_it_is_first() -> None:
    failing = entry(20, failed_attempts=FAILED_ATTEMPTS_MAX)
    early, late = entry(10), entry(30)
    queue = scheduler(failing, early, late, cores=4)

    assert queue.start(1) is early
    assert queue.start(2) is late
    assert queue.start(3) is None, "an earlier request is running"
    queue.finish(1)
    assert queue.start(3) is failing, "a later request cannot make it fail"


def test_a_request_with_one_failure_less_runs_like_any_other() -> None:
    early, failing = entry(10), entry(20, failed_attempts=FAILED_ATTEMPTS_MAX - 1)
    queue = scheduler(early, failing)

    assert [queue.start(1), queue.start(2)] == [early, failing]


def test_a_long_chain_of_waiting_requests_does_not_block_its_first() -> None:
    first = entry(0)
    chain = [first]
    for at in range(1, 3 * LOOKAHEAD_MAX):
        chain.append(entry(at, after=chain[-1]))
    queue = scheduler(*chain, cores=1)

    for number, expected in enumerate(chain):
        assert queue.start(number) is expected
        queue.finish(number)
        expected.phase = ExecutionPhase.EXECUTED
    assert queue.is_idle()


def test_only_a_waiting_entry_can_be_removed() -> None:
    waiting, other = entry(10), entry(20)
    queue = scheduler(waiting)

    assert queue.remove(waiting)
    assert not queue.remove(waiting)
    assert not queue.remove(other)
    assert queue.is_idle()


def test_another_entry_at_the_same_position_is_not_removed() -> None:
    waiting, other = entry(10), entry(10)
    queue = scheduler(waiting)

    assert not queue.remove(other)
    assert queue.start(1) is waiting


def test_the_scheduler_is_idle_if_no_entry_waits_or_runs() -> None:
    queue = scheduler(entry(1))
    assert not queue.is_idle()
    queue.start(1)
    assert not queue.is_idle()
    queue.finish(1)
    assert queue.is_idle()


def test_tasks_from_before_a_clear_are_void_but_occupy_their_cores() -> None:
    queue = scheduler(entry(1), entry(2), entry(3))
    queue.start(1)
    queue.start(2)
    queue.clear()
    assert queue.is_idle()
    queue.add(entry(4))

    assert queue.start(3) is None
    assert queue.finish(1) is None
    assert queue.start(3) is not None
