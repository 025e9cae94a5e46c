"""A server's event loop."""

import asyncio
import importlib.util
import sys

import pytest

from creekdb.wire.event_loop import new_loop, run_in_new_loop


def test_a_server_runs_on_uvloop_where_there_is_one() -> None:
    found: list[str] = []

    async def look() -> None:
        found.append(type(asyncio.get_running_loop()).__module__)

    run_in_new_loop(look())
    expected = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio"
    assert found[0].startswith(expected)


def test_it_runs_without_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setattr("creekdb.wire.event_loop.find_spec", lambda name: None)
    loop = new_loop()
    assert type(loop).__module__.startswith("asyncio")
    loop.close()
