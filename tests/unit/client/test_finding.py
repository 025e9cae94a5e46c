"""Where a client looks for a replica, and for how long."""

import asyncio
from typing import Any

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
