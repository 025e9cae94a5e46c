"""Where a client looks for a replica, and for how long."""

import asyncio
from typing import Any, cast

import pytest

from creek.client import finding
from creek.client.finding import Finder
from creek.client.line import Line
from creek.cluster import wire

HELLO = wire.Hello(wire.WIRE_VERSION, "me", "", "")


@pytest.mark.parametrize(("patience", "each"), [(9.0, 3.0), (1.5, 1.0), (0.5, 0.5)])
def test_one_that_is_silent_is_not_waited_for_with_all_patience(
    patience: float, each: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[int, float]] = []

    async def dial(address: tuple[str, int], *more: Any) -> tuple[Line, wire.Welcome]:

        tried.append((address[1], more[-1]))
        if address[1] == 1:
            raise TimeoutError
        return Line(HELLO, lambda message: None), wire.Welcome(1, "creek", 0, "kv", ())

    monkeypatch.setattr(finding, "dial", dial)

    async def story() -> None:
        finder = Finder([("one", 1), ("other", 2), ("third", 3)], None, patience)
        await finder.find(HELLO, lambda message: None)

    asyncio.run(story())
    assert tried == [(1, each), (2, each)]


class Closable:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("waits", "chosen"),
    [(["", "", ""], 0), (["new", "", "new"], 1), (["new", "new", "new"], 0), (["new", None], 0)],
)
def test_one_that_takes_no_part_yet_is_chosen_only_if_no_other_does(
    waits: list[str | None], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [Closable() for _ in waits]
    dialled: list[Closable] = []

    async def dial(address: tuple[str, int], *_: Any) -> tuple[Line, wire.Welcome]:
        said = waits[address[1]]
        if said is None:
            raise ConnectionRefusedError
        dialled.append(lines[address[1]])
        welcome = wire.Welcome(1, "creek", address[1], "kv", (), said)
        return cast(Line, lines[address[1]]), welcome

    monkeypatch.setattr(finding, "dial", dial)

    async def story() -> None:
        finder = Finder([("there", each) for each in range(len(waits))], None, 1.0)
        _, welcome = await finder.find(HELLO, lambda message: None)
        assert welcome.replica == chosen

    asyncio.run(story())
    assert [each for each in dialled if not each.is_closed] == [lines[chosen]]
