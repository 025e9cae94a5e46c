from creekdb.execution.mvcc.entry import ExecutionPhase, RequestEntry
from creekdb.execution.mvcc.scheduler import FAILED_ATTEMPTS_MAX, LOOKAHEAD_MAX, Scheduler
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request


def entry(at: int, *, after: RequestEntry | None = None, losses: int = 0) -> RequestEntry:
    made = RequestEntry(Request(at, Dot(0, at), NOOP, strong=False), (at,))
    made.session_predecessor, made.failed_attempts = after, losses
    return made


def scheduler(*entries: RequestEntry, cores: int = 2) -> Scheduler:
    made = Scheduler(cores)
    for each in entries:
        made.add(each)
    return made


def test_the_earliest_comes_first_however_late_it_arrived() -> None:
    entries = [entry(30), entry(10), entry(20)]
    todo = scheduler(*entries, cores=3)

    assert [todo.start(number) for number in (1, 2, 3)] == [entries[1], entries[2], entries[0]]
    assert all(each.phase is ExecutionPhase.RUNNING for each in entries)
    assert todo.start(4) is None


def test_no_more_run_at_once_than_there_are_cores() -> None:
    todo = scheduler(*(entry(at) for at in range(10)))
    assert todo.start(1) is not None
    assert todo.start(2) is not None
    assert todo.start(3) is None

    todo.finish(2)

    assert todo.start(3) is not None
    assert todo.start(4) is None


def test_a_task_gives_the_entry_back_once() -> None:
    only = entry(1)
    todo = scheduler(only)
    todo.start(7)

    assert todo.finish(7) is only
    assert todo.finish(7) is None


def test_a_request_waits_for_the_one_before_it_in_its_session() -> None:
    first = entry(10)
    second = entry(20, after=first)
    other = entry(30)
    todo = scheduler(first, second, other, cores=3)

    assert todo.start(1) is first
    assert todo.start(2) is other, "which nobody has to wait for"
    assert todo.start(3) is None

    todo.finish(1)
    first.phase = ExecutionPhase.EXECUTED
    assert todo.start(3) is second


def test_a_request_does_not_wait_for_one_of_its_session_that_is_ordered_behind_it() -> None:
    """A later strong request may be committed first; and the other might wait to be the first."""
    first = entry(20, losses=FAILED_ATTEMPTS_MAX)
    second = entry(10, after=first)
    todo = scheduler(first, second)

    assert todo.start(1) is second
    todo.finish(1)
    assert todo.start(2) is first


def test_one_that_lost_too_often_runs_when_it_is_the_first_of_all() -> None:
    unlucky = entry(20, losses=FAILED_ATTEMPTS_MAX)
    early, late = entry(10), entry(30)
    todo = scheduler(unlucky, early, late, cores=4)

    assert todo.start(1) is early
    assert todo.start(2) is late
    assert todo.start(3) is None, "something before it is under way"
    todo.finish(1)
    assert todo.start(3) is unlucky, "what is behind it cannot make it lose"


def test_one_that_lost_a_little_less_often_runs_like_any_other() -> None:
    early, unlucky = entry(10), entry(20, losses=FAILED_ATTEMPTS_MAX - 1)
    todo = scheduler(early, unlucky)

    assert [todo.start(1), todo.start(2)] == [early, unlucky]


def test_many_that_must_wait_do_not_stop_the_first_of_them() -> None:
    first = entry(0)
    chain = [first]
    for at in range(1, 3 * LOOKAHEAD_MAX):
        chain.append(entry(at, after=chain[-1]))
    todo = scheduler(*chain, cores=1)

    for number, expected in enumerate(chain):
        assert todo.start(number) is expected
        todo.finish(number)
        expected.phase = ExecutionPhase.EXECUTED
    assert todo.is_idle()


def test_only_what_waits_can_be_removed() -> None:
    one, other = entry(10), entry(20)
    todo = scheduler(one)

    assert todo.remove(one)
    assert not todo.remove(one)
    assert not todo.remove(other)
    assert todo.is_idle()


def test_another_at_the_same_place_is_not_removed_by_mistake() -> None:
    waiting, stranger = entry(10), entry(10)
    todo = scheduler(waiting)

    assert not todo.remove(stranger)
    assert todo.start(1) is waiting


def test_it_is_idle_when_nothing_waits_and_nothing_runs() -> None:
    todo = scheduler(entry(1))
    assert not todo.is_idle()
    todo.start(1)
    assert not todo.is_idle()
    todo.finish(1)
    assert todo.is_idle()


def test_tasks_of_before_a_new_start_are_void_but_hold_their_cores() -> None:
    todo = scheduler(entry(1), entry(2), entry(3))
    todo.start(1)
    todo.start(2)
    todo.clear()
    assert todo.is_idle()
    todo.add(entry(4))

    assert todo.start(3) is None
    assert todo.finish(1) is None
    assert todo.start(3) is not None
