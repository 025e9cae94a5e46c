"""Creation of event loops: uvloop's where it is installed, else Python's own."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def run_in_new_loop(work: Coroutine[Any, Any, _Result]) -> _Result:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
