"""Blocking client."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import creekdb
from creekdb import BadValue, NotDone, OperationFailed, Unknown, UsageError
from creekdb.client import BlockingCall
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    """Cluster that runs in another thread."""
    running, loop = InProcessCluster(tmp_path, keep_changes="1h"), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(running.start(), loop).result()
    asyncio.run_coroutine_threadsafe(running.until_connected(), loop).result()
    yield running
    asyncio.run_coroutine_threadsafe(running.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_calls_return_their_responses(cluster: InProcessCluster) -> None:
    with creekdb.connect(cluster.addresses()) as db:
        assert db.weak.put("lamp", 3) is None
        assert db.weak.get("lamp") == 3
        assert db.strong.put("lamp", 2) == 3
        call = db.strong.begin.put("lamp", 1)
        assert (call.tentative, call.stable) == (2, 2)
        assert db.weak.begin.increment("visits").final == (1, False)
        assert [response.kind for response in db.strong.begin.put("lamp", 0)][-1] == "stable"
        assert db.status()["replica"] == db.replica
        with pytest.raises(NotDone, match=r"'amount' of increment.* must be an integer") as error:
            db.weak.increment("lamp", "many")
        assert error.value.reason == "bad_arguments"
        with pytest.raises(NotDone, match="did you mean 'put'"):
            db.weak.putt("lamp", 3)
    with pytest.raises(NotDone, match="not connected"):
        db.weak.get("lamp")


def test_a_failed_operation_has_its_blocking_call(cluster: InProcessCluster) -> None:
    with creekdb.connect(cluster.addresses()) as db:
        db.strong.put("lamp", "three")
        with pytest.raises(OperationFailed) as raised:
            db.weak.increment("lamp")
        error = raised.value
        assert (error.error, error.message) == (
            "BadValue",
            "can only add to an int, and 'lamp' holds a str",
        )
        assert error.kind == "tentative"
        with pytest.raises(OperationFailed) as raised:
            assert error.call.final
        assert raised.value.kind == "final"
        assert raised.value.call is error.call
        assert not raised.value.changed
        with pytest.raises(OperationFailed, match="call 2 of 2") as raised:
            db.batch([("put", "chair", 1), ("increment", "lamp")])
        assert isinstance(raised.value.call, BlockingCall)
        with pytest.raises(OperationFailed, match="call 2 of 2"):
            _ = raised.value.call.final


def test_a_connection_is_opened_once_at_a_time(cluster: InProcessCluster) -> None:
    connection = creekdb.connect(cluster.addresses())
    db = connection.open()
    with pytest.raises(UsageError, match="cannot open the connection: it is open already"):
        connection.open()
    assert db.weak.put("lamp", 3) is None
    db.close()
    with connection as db:
        assert db.strong.get("lamp") == 3


def test_closing_right_after_connecting_does_not_block(cluster: InProcessCluster) -> None:
    """uvloop blocked for ever with a datagram endpoint that was only half closed."""
    for _ in range(40):
        with creekdb.connect(cluster.addresses()) as db:
            assert db.replica == 0


def test_sessions_deadlines_and_dependencies(cluster: InProcessCluster) -> None:
    with creekdb.connect(cluster.addresses(0)) as ann, creekdb.connect(cluster.addresses(1)) as bob:
        session = ann.session()
        call = session.weak.begin.put("a", 1)
        assert call.tentative is None
        assert session.strong.within(20).get("a") == 1
        assert bob.weak.after(call).within(20).get("a") == 1


def test_an_operation_without_consistency_raises_with_advice(cluster: InProcessCluster) -> None:
    with creekdb.connect(cluster.addresses()) as db:
        assert not hasattr(db, "_nothing")
        with pytest.raises(AttributeError, match=r"as db\.weak\.put\(…\) or db\.strong\.put\(…\)"):
            getattr(db, "put")("a", 1)  # noqa: B009
        session: Any = db.session()
        with pytest.raises(AttributeError, match=r"as session\.weak\.put\(…\)"):
            session.put("a", 1)


def test_unknown_names_raise_with_the_list_of_operations(cluster: InProcessCluster) -> None:
    kv = "operations are .*get, .*put"
    with creekdb.connect(cluster.addresses()) as db:
        begin: Any = db.weak.begin
        with pytest.raises(AttributeError, match="'put' has no 'final': it is an operation"):
            begin.put.final  # noqa: B018
        with pytest.raises(
            AttributeError, match=f"'begin' has no 'put': it is not an operation; .*{kv}"
        ):
            begin.begin.put("a", 1)
        with pytest.raises(BadValue, match=f"the name of the operation is missing; {kv}"):
            begin()
        with pytest.raises(BadValue, match=r"called as db\.weak\('after', …\)"):
            db.weak.after("lamp")
        assert db.weak("get", "lamp") is None


def test_threads_share_a_connection(cluster: InProcessCluster) -> None:
    with creekdb.connect(cluster.addresses()) as db, ThreadPoolExecutor(8) as threads:
        values = list(threads.map(lambda _: db.weak.increment("n"), range(200)))
        assert sorted(values) == list(range(1, 201))


def test_a_failed_connection_leaves_no_thread(cluster: InProcessCluster) -> None:
    before = threading.active_count()
    with pytest.raises(UsageError, match="replicates 'kv', not 'bank'"):
        creekdb.connect(cluster.addresses(), "bank").__enter__()
    with pytest.raises(NotDone, match="no replica can be reached"):
        creekdb.connect("127.0.0.1:1", patience=0.1).__enter__()
    assert threading.active_count() == before


def run_in_thread(function: Callable[[], object]) -> "Future[object]":
    """Run the function in a thread that does not keep a failed test from ending."""
    result: Future[object] = Future()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the test receives it
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result


def test_closing_ends_what_other_threads_wait_for(cluster: InProcessCluster) -> None:
    """The wait for a change lasted for ever."""
    with creekdb.connect(cluster.addresses()) as db:
        stream = db.changes(start=1_000_000)
        waiting = run_in_thread(lambda: next(stream))
        opened = db.changes(start="earliest")
        assert db.strong.put("lamp", 3) is None
        assert next(opened).index
    assert isinstance(waiting.exception(timeout=TIMEOUT_S), NotDone | Unknown)
    with pytest.raises(NotDone, match="not connected"):
        next(opened)


def test_threads_may_close_at_the_same_time(cluster: InProcessCluster) -> None:
    for _ in range(5):
        db = creekdb.connect(cluster.addresses()).open()
        closed = [run_in_thread(db.close) for _ in range(8)]
        assert [each.result(timeout=TIMEOUT_S) for each in closed] == [None] * 8


def test_a_callback_of_the_connection_may_not_wait_for_it(cluster: InProcessCluster) -> None:
    """The callback runs on the background thread, and waited for itself for ever."""
    with creekdb.connect(cluster.addresses()) as db:
        rows = [("a", 1), ("b", 2)]
        loading = run_in_thread(
            lambda: db.load("put", rows, on_loaded=lambda count: db.weak.put("loaded", count))
        )
        with pytest.raises(UsageError, match="on the thread of the connection"):
            loading.result(timeout=TIMEOUT_S)
        assert db.weak.get("loaded") is None
