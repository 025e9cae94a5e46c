"""A task of a replica that breaks: the replica stops, and says why."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from creekdb.cli.commands.serve import _serve
from creekdb.http import HttpServer
from creekdb.http.page.feed import PageFeed
from creekdb.schemes.creek import CreekReplica
from creekdb.server.membership import changes
from creekdb.server.observability.divergence import DivergenceDetector
from creekdb.server.observability.status import StateChangeLogger
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.task_supervisor import TaskSupervisor, is_internal_error
from creekdb.server.transport import peer_link
from creekdb.wire.addresses import parse_address
from tests.cluster.house import PATIENCE_S, House, house, run


class Bug(Exception):
    """What nobody expects."""


def breaks(*_: object) -> NoReturn:
    raise Bug("nobody thought of this")


@pytest.mark.parametrize(
    ("owner", "what"),
    [
        (Driver, "tick"),
        (Driver, "_let_go"),  # in a turn of the loop that is no task
        (peer_link.PeerLink, "_dial"),
        (DivergenceDetector, "take_told"),
        (StateChangeLogger, "look"),
        (changes, "wait_for_others"),
    ],
)
def test_a_replica_stops_when_one_of_its_tasks_breaks(
    owner: object,
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = House(tmp_path, 2).config(0)
    monkeypatch.setattr(owner, what, breaks)

    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await _serve(config, False, lambda: config)

    with pytest.raises(Bug):  # and so the process ends with an error
        run(story())
    broke, failed = (each for each in caplog.records if each.levelname == "ERROR")
    assert "in breaks" in broke.__dict__["creek_fields"]["trace"]
    assert failed.getMessage() == "stops: nobody thought of this"


def test_what_breaks_behind_a_page_is_heard_of_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        cluster = House(tmp_path, 1, http="127.0.0.1:0")
        await cluster.start()
        found = cluster.servers[0]
        gateway = HttpServer(found)
        pages = gateway.feed.follow()
        assert (await anext(pages))[0] == "about"  # type: ignore[index]
        monkeypatch.setattr(PageFeed, "now", breaks)
        async with asyncio.timeout(PATIENCE_S):
            await found.stop_requested.wait()
        assert isinstance(found.failure, Bug)
        await pages.aclose()
        await gateway.stop()
        await cluster.stop()

    run(story())


def test_tasks_are_stopped_without_a_word() -> None:
    async def story() -> None:
        heard: list[Exception] = []
        tasks = TaskSupervisor(heard.append)
        waiting = tasks.spawn(asyncio.sleep(PATIENCE_S))
        done = tasks.spawn(asyncio.sleep(0))
        await done
        await tasks.stop()
        assert waiting.cancelled()
        assert not heard

    run(story())


@pytest.mark.parametrize("execution", ["inline", "threads"])
def test_a_replica_stops_when_it_cannot_execute(
    execution: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CreekReplica, "run", breaks)

    async def story() -> None:
        async with (
            house(tmp_path, 1, execution=execution) as cluster,
            cluster.client(0) as db,
            asyncio.timeout(PATIENCE_S),
        ):
            db.weak.put("a", 1)
            await cluster.servers[0].stop_requested.wait()
            assert isinstance(cluster.servers[0].failure, Bug)

    run(story())


async def turn(callback: Callable[[], object]) -> dict[str, Any]:
    """What the loop tells of a turn that breaks off."""
    loop = asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    loop.call_soon(callback)
    while not told:
        await asyncio.sleep(0)
    return told[0]


def test_only_what_breaks_in_a_replica_itself_stops_it() -> None:
    async def story() -> None:
        digests = DivergenceDetector(0, (0, 1))
        assert is_internal_error(await turn(lambda: digests.reconfigure(None)))  # type: ignore[arg-type]
        assert not is_internal_error(await turn(breaks)), "it comes from somewhere else"
        assert not is_internal_error(await turn(lambda: parse_address("nowhere"))), "it was refused"
        context = await turn(lambda: digests.reconfigure(None))  # type: ignore[arg-type]
        del context["handle"]
        assert not is_internal_error(context), "what was heard on a connection"

    run(story())
