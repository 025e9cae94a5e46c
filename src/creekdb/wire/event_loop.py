"""Creation of event loops: uvloop's where it is installed, else Python's own."""

import asyncio
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def run_in_new_loop(work: Coroutine[Any, Any, _Result]) -> _Result:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


def new_loop() -> asyncio.AbstractEventLoop:
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop  # noqa: PLC0415 - optional

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
