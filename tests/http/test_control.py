"""What pages of a trial may ask of `creek up`, and who may not."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from creekdb.errors import UsageError
from creekdb.http.page.fault_control import FaultControlServer
from tests.http.served import run

PAGE = "http://127.0.0.1:7300"
OURS = {"Origin": PAGE, "Creek-Trial": "s3cret"}


class Glass:
    """Breaks, and remembers how."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []

    def kill(self, replica: int) -> None:
        if replica > 2:
            raise UsageError(f"there is no replica {replica}")
        self.done.append(("kill", replica))

    def start(self, replica: int) -> None:
        self.done.append(("start", replica))

    def cut(self, links: Iterable[tuple[int, int]]) -> None:
        self.done.append(("cut", list(links)))

    def heal(self, links: Iterable[tuple[int, int]]) -> None:
        self.done.append(("heal", list(links)))


@asynccontextmanager
async def controlled(glass: Glass) -> AsyncIterator[aiohttp.ClientSession]:
    control = FaultControlServer(glass, [PAGE], "s3cret")
    await control.start()
    try:
        async with aiohttp.ClientSession(control.address) as session:
            yield session
    finally:
        await control.stop()


def test_a_page_of_the_trial_breaks_and_mends() -> None:
    async def story() -> None:
        glass = Glass()
        async with controlled(glass) as session:
            for path, body in (
                ("/cut", {"links": [[0, 1], [0, 2]]}),
                ("/kill", {"replica": 2}),
                ("/start", {"replica": 2}),
                ("/heal", {"links": [[0, 1]]}),
            ):
                async with session.post(path, json=body, headers=OURS) as response:
                    assert response.status == 200
                    assert response.headers["Access-Control-Allow-Origin"] == PAGE
        assert glass.done == [
            ("cut", [(0, 1), (0, 2)]),
            ("kill", 2),
            ("start", 2),
            ("heal", [(0, 1)]),
        ]

    run(story())


def test_nobody_else_is_heard_and_what_makes_no_sense_is_told() -> None:
    async def story() -> None:
        glass = Glass()
        good: dict[str, Any] = {"json": {"replica": 1}}
        async with controlled(glass) as session:
            for status, path, sent in (
                (403, "/kill", good),
                (403, "/kill", {**good, "headers": {"Origin": PAGE}}),
                (403, "/kill", {**good, "headers": {**OURS, "Creek-Trial": "guess"}}),
                (403, "/kill", {**good, "headers": {**OURS, "Origin": "http://evil.example"}}),
                (403, "/kill", {**good, "headers": {**OURS, "Host": "evil.example"}}),
                (415, "/kill", {"data": {"replica": "1"}, "headers": OURS}),
                (400, "/kill", {"json": {"replica": "1"}, "headers": OURS}),
                (400, "/kill", {"json": {"replica": 1, "hard": True}, "headers": OURS}),
                (400, "/cut", {"json": {"links": [[0]]}, "headers": OURS}),
                (409, "/kill", {"json": {"replica": 9}, "headers": OURS}),
                (404, "/burn", {**good, "headers": OURS}),
            ):
                async with session.post(path, **sent) as response:
                    assert response.status == status, (path, sent)
                    assert (await response.json())["detail"]
        assert glass.done == []

    run(story())
