"""Creation of event loops."""

import asyncio
import importlib.util
import sys

import pytest

from creekdb.wire.event_loop import new_loop, run_in_new_loop


def test_the_loop_is_that_of_uvloop_where_it_is_installed() -> None:
    modules: list[str] = []

    async def record_loop() -> None:
        modules.append(type(asyncio.get_running_loop()).__module__)

    run_in_new_loop(record_loop())
    expected = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio"
    assert modules[0].startswith(expected)


def test_the_loop_is_that_of_asyncio_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_loop()
    assert type(loop).__module__.startswith("asyncio")
    loop.close()
