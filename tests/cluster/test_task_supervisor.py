"""A replica stops when one of its tasks fails, and logs the cause."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from creekdb.cli.commands.serve import _serve
from creekdb.http import HttpServer
from creekdb.http.page.feed import PageFeed
from creekdb.schemes.creek import CreekReplica
from creekdb.server.membership.changes import MembershipView
from creekdb.server.observability.divergence import DivergenceDetector
from creekdb.server.observability.status import StateChangeLogger
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.task_supervisor import TaskSupervisor, is_internal_error
from creekdb.server.transport.peers import PeerNetwork
from creekdb.wire.addresses import parse_address
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster


class UnexpectedError(Exception):
    """Error that no code expects."""


def raise_bug(*_: object, **__: object) -> NoReturn:
    raise UnexpectedError("unexpected")


@pytest.mark.parametrize(
    ("owner", "attribute"),
    [
        (Driver, "tick"),
        (PeerNetwork, "send"),  # runs in a callback of the loop, not in a task
        (asyncio.BaseEventLoop, "create_connection"),  # in the task that dials a peer
        (DivergenceDetector, "take_message"),
        (StateChangeLogger, "check"),
        (MembershipView, "wait_until_joined"),
    ],
)
async def test_a_replica_stops_when_a_task_fails(
    owner: object,
    attribute: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = InProcessCluster(tmp_path, 2).config(0)
    monkeypatch.setattr(owner, attribute, raise_bug)

    with pytest.raises(UnexpectedError):  # the process exits with an error
        async with asyncio.timeout(TIMEOUT_S):
            await _serve(config, False, lambda: config)
    task_failure, shutdown = (each for each in caplog.records if each.levelname == "ERROR")
    assert "in raise_bug" in task_failure.__dict__["creek_fields"]["trace"]
    assert shutdown.getMessage() == "failed: unexpected"


async def test_a_replica_stops_when_the_page_feed_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = InProcessCluster(tmp_path, 1, http="127.0.0.1:0")
    await cluster.start()
    server = cluster.servers[0]
    http_server = HttpServer(server)
    pages = http_server.feed.follow()
    assert (await anext(pages))[0] == "about"  # type: ignore[index]
    monkeypatch.setattr(PageFeed, "replica_state", raise_bug)
    async with asyncio.timeout(TIMEOUT_S):
        await server.stop_requested.wait()
    assert isinstance(server.failure, UnexpectedError)
    await pages.aclose()
    await http_server.stop()
    await cluster.stop()


async def test_stopping_tasks_reports_no_error() -> None:
    errors: list[Exception] = []
    tasks = TaskSupervisor(errors.append)
    waiting = tasks.spawn(asyncio.sleep(TIMEOUT_S))
    done = tasks.spawn(asyncio.sleep(0))
    await done
    await tasks.stop()
    assert waiting.cancelled()
    assert not errors


@pytest.mark.parametrize("execution", ["inline", "threads"])
async def test_a_replica_stops_when_it_cannot_execute(
    execution: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CreekReplica, "run", raise_bug)

    async with (
        running_cluster(tmp_path, 1, execution=execution) as cluster,
        cluster.client(0) as db,
        asyncio.timeout(TIMEOUT_S),
    ):
        db.weak.put("a", 1)
        await cluster.servers[0].stop_requested.wait()
        assert isinstance(cluster.servers[0].failure, UnexpectedError)


async def failed_turn(callback: Callable[[], object]) -> dict[str, Any]:
    """Return the context that the loop reports for a failing callback."""
    loop = asyncio.get_running_loop()
    contexts: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: contexts.append(context))
    loop.call_soon(callback)
    while not contexts:
        await asyncio.sleep(0)
    return contexts[0]


async def test_only_internal_errors_of_the_replica_stop_it() -> None:
    detector = DivergenceDetector(0, (0, 1))
    assert is_internal_error(await failed_turn(lambda: detector.reconfigure(None)))  # type: ignore[arg-type]
    assert not is_internal_error(await failed_turn(raise_bug)), "raised outside the server"
    assert not is_internal_error(await failed_turn(lambda: parse_address("nowhere"))), (
        "a rejected value"
    )
    context = await failed_turn(lambda: detector.reconfigure(None))  # type: ignore[arg-type]
    del context["handle"]
    assert not is_internal_error(context), "raised while a connection is read"
