"""Expected accesses of pending requests, and requests that wait for expected writes."""

from typing import Any

import pytest

from creekdb.execution.keys import CALLS_PREFIX
from creekdb.execution.mvcc.entry import AccessEstimate, RequestEntry, local_position
from creekdb.execution.mvcc.estimates import (
    ARGUMENT_LENGTH_MAX,
    AccessEstimates,
    operation_pattern,
)
from creekdb.execution.mvcc.scheduler import Scheduler
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.wire.deduplication import unwrap_call, wrap_call


def entry(
    at: int, *, reads: tuple[str, ...] = (), writes: tuple[str, ...] = (), name: str = "move"
) -> RequestEntry:
    """Return an entry whose last execution had these accesses, or none without any."""
    request = Request(at, Dot(0, at), Operation(name, (at,)), strong=False)
    created = RequestEntry(request, (at,))
    if reads or writes:
        created.estimate = AccessEstimate(reads, writes)
    return created


def scheduler(*entries: RequestEntry) -> Scheduler:
    created = Scheduler(8, AccessEstimates())
    for each in entries:
        created.add(each)
    return created


def start_all(queue: Scheduler, first: int = 1) -> list[RequestEntry]:
    started: list[RequestEntry] = []
    while (each := queue.start(first + len(started))) is not None:
        started.append(each)
    return started


def test_a_reader_waits_for_an_earlier_pending_writer() -> None:
    writer, reader, other = (
        entry(1, writes=("a",)),
        entry(2, reads=("a",)),
        entry(3, reads=("b",)),
    )
    queue = scheduler(writer, reader, other)

    assert start_all(queue) == [writer, other]

    queue.finish(1)
    assert queue.start(3) is None, "its execution may still turn out to be invalid"
    queue.settle(writer)
    assert queue.start(3) is reader


def test_a_scheduler_with_only_delayed_requests_is_not_idle() -> None:
    writer, reader = entry(1, writes=("a",)), entry(2, reads=("a",))
    queue = scheduler(writer, reader)
    assert start_all(queue) == [writer]

    queue.finish(1)
    assert not queue.is_idle(), "the reader still awaits the result of the writer"
    queue.settle(writer)
    assert start_all(queue) == [reader]
    queue.finish(1)
    assert queue.is_idle()


def test_a_writer_does_not_delay_an_earlier_reader() -> None:
    reader, writer = entry(1, reads=("a",)), entry(2, writes=("a",))
    queue = scheduler(reader, writer)

    assert start_all(queue) == [reader, writer]


def test_a_request_without_an_estimate_never_waits() -> None:
    writer, unknown = entry(1, writes=("a",)), entry(2)
    queue = scheduler(writer, unknown)

    assert start_all(queue) == [writer, unknown]


def test_a_reader_waits_for_every_earlier_writer() -> None:
    first, second = entry(1, writes=("a",)), entry(2, writes=("a", "b"))
    reader = entry(3, reads=("a", "b"))
    queue = scheduler(first, second, reader)
    assert start_all(queue) == [first, second]

    queue.finish(2)
    queue.settle(second)
    assert queue.start(3) is None
    queue.finish(1)
    queue.settle(first)
    assert queue.start(3) is reader


def test_a_reader_that_moves_ahead_of_its_writer_runs() -> None:
    writer, reader = entry(10, writes=("a",)), entry(20, reads=("a",))
    queue = scheduler(writer, reader)
    assert start_all(queue) == [writer]

    assert queue.remove(reader)
    reader.position = (5,)
    queue.add(reader)

    assert queue.start(2) is reader
    queue.settle(writer)
    assert queue.start(3) is None


def test_the_earliest_pending_request_is_found_while_others_are_delayed() -> None:
    writer, reader = entry(1, writes=("a",)), entry(2, reads=("a",))
    queue = scheduler(writer, reader)
    start_all(queue)

    assert queue.first_pending_up_to((2,)) is writer
    assert not queue.is_idle()


def test_requests_that_read_what_the_others_write_all_run_one_by_one() -> None:
    entries = [entry(at, reads=("a", "b"), writes=("a", "b")) for at in range(6)]
    queue = scheduler(*reversed(entries))
    executed = []
    for number in range(1, 7):
        (running,) = start_all(queue, number)
        assert queue.finish(number) is running
        queue.settle(running)
        executed.append(running)

    assert executed == entries
    assert queue.is_idle()


def test_clear_forgets_pending_writers() -> None:
    queue = scheduler(entry(1, writes=("a",)), entry(2, reads=("a",)))
    start_all(queue)
    queue.clear()
    reader = entry(3, reads=("a",))
    queue.add(reader)

    assert queue.start(9) is reader


def test_a_local_read_never_waits() -> None:
    writer, local = entry(1, writes=("a",)), entry(2, reads=("a",))
    local.position = local_position(1)
    queue = scheduler(writer, local)

    assert start_all(queue) == [writer, local]


# --- estimates of first executions ------------------------------------------------------------


def executed(
    estimates: AccessEstimates, name: str, arguments: tuple[Any, ...], reads: str, writes: str
) -> RequestEntry:
    request = Request(1, Dot(0, 1), Operation(name, arguments), strong=False)
    done = RequestEntry(request, (1,))
    snapshot = StoreSnapshot(VersionStore().table, (1,))
    for key in reads:
        snapshot.read(key)
    result = ExecutionResult(Outcome(), dict.fromkeys(writes, 1))
    estimates.record(done, snapshot, result)
    return done


def expected(
    estimates: AccessEstimates, name: str, arguments: tuple[Any, ...]
) -> AccessEstimate | None:
    request = Request(2, Dot(0, 2), Operation(name, arguments), strong=False)
    pending = RequestEntry(request, (2,))
    estimates.expect(pending)
    estimates.find_expected_writer(pending)
    return pending.estimate


def test_a_first_execution_is_expected_to_access_what_a_similar_one_did() -> None:
    estimates = AccessEstimates()
    executed(estimates, "pay", (1, 2, 3), "abc", "a")

    similar = expected(estimates, "pay", (1, 2, 99))
    assert similar is not None
    assert (set(similar.reads), similar.writes) == ({"a", "b", "c"}, ("a",))
    assert expected(estimates, "pay", (1, 3, 3)) is None
    assert expected(estimates, "sell", (1, 2, 3)) is None


def test_a_repeated_execution_is_expected_to_access_what_it_did_before() -> None:
    estimates = AccessEstimates()
    first = executed(estimates, "pay", (), "a", "b")
    executed(estimates, "pay", (), "c", "d")
    estimates.expect(first)
    estimates.find_expected_writer(first)

    assert first.estimate is not None
    assert (first.estimate.reads, first.estimate.writes) == (("a",), ("b",))


def test_arguments_that_cannot_be_a_key_give_no_estimate() -> None:
    estimates = AccessEstimates()
    executed(estimates, "pay", ({"x": 1},), "a", "a")

    assert operation_pattern(Operation("pay", ({"x": 1},))) is None
    assert expected(estimates, "pay", ({"x": 1},)) is None


def test_the_least_recently_executed_estimates_are_dropped_above_the_limit() -> None:
    estimates = AccessEstimates(keys_max=8)
    executed(estimates, "one", (), "ab", "a")
    executed(estimates, "two", (), "ab", "a")
    executed(estimates, "one", (), "ab", "a")
    executed(estimates, "three", (), "ab", "a")

    known = {name for name in ("one", "two", "three") if expected(estimates, name, ()) is not None}
    assert known == {"one", "three"}


@pytest.mark.parametrize("keys_max", [1, 2])
def test_an_estimate_above_the_limit_is_not_stored(keys_max: int) -> None:
    estimates = AccessEstimates(keys_max)
    executed(estimates, "one", (), "ab", "a")

    assert expected(estimates, "one", ()) is None


def test_executions_without_accesses_are_bounded_too() -> None:
    estimates = AccessEstimates(keys_max=3)
    for number in range(10):
        executed(estimates, "fail", (number,), "", "")

    known = [each for each in range(10) if expected(estimates, "fail", (each,)) is not None]
    assert known == [7, 8, 9]


def test_long_arguments_select_no_estimate() -> None:
    limit = ARGUMENT_LENGTH_MAX
    assert operation_pattern(Operation("put", ("k" * limit, "v" * limit, "w" * 1000))) is not None
    assert operation_pattern(Operation("put", ("k" * (limit + 1),))) is None
    assert operation_pattern(Operation("put", ((1, 2),))) is None


def test_the_number_of_a_call_does_not_hide_its_operation() -> None:
    estimates = AccessEstimates(called_operation=unwrap_call)
    call = wrap_call("ann", 1, Operation("pay", (1, 2)))
    done = RequestEntry(Request(1, Dot(0, 1), call, strong=False), (1,))
    snapshot = StoreSnapshot(VersionStore().table, done.position)
    register = (CALLS_PREFIX, "ann", 1)
    for key in ("a", register):
        snapshot.read(key)
    estimates.record(done, snapshot, ExecutionResult(Outcome(), {"a": 1, register: 2}))

    other_call = wrap_call("bob", 9, Operation("pay", (1, 2)))
    similar = expected(estimates, other_call.name, other_call.arguments)
    assert similar is not None
    assert (similar.reads, similar.writes) == (("a",), ("a",)), "without the call's own register"


def test_a_request_awaits_one_that_was_predicted_after_it_arrived() -> None:
    estimates = AccessEstimates()
    first, second = entry(1, reads=("a",), writes=("a",)), entry(2)
    queue = Scheduler(8, estimates)
    queue.add(second)
    queue.add(first)
    second.estimate = AccessEstimate(("a",), ("a",))

    assert start_all(queue) == [first]


def test_an_executed_request_delays_no_other() -> None:
    estimates = AccessEstimates()
    writer, reader = entry(1, writes=("a",)), entry(2, reads=("a",))
    for each in (writer, reader):
        estimates.expect(each)
    assert estimates.find_expected_writer(reader) is writer

    estimates.settle(writer)
    assert estimates.find_expected_writer(reader) is None
    estimates.expect(writer)
    estimates.settle(writer)
    assert estimates.find_expected_writer(reader) is None, "nor before it was searched for"
