"""The tasks of a replica, and its turns: none ends with an error that nobody hears of."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from traceback import walk_tb
from typing import Any, Final

from creekdb.errors import CreekError

INTERNAL_MODULE_PREFIXES: Final = (
    "creekdb.server.",
    "creekdb.wire.",
    "creekdb.schemes.",
    "creekdb.protocol.",
    "creekdb.execution.",
)
"""Modules in which nothing may break."""

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class TaskSupervisor:
    """`broke` is called with what one of them raised."""

    def __init__(self, broke: Callable[[Exception], None]) -> None:
        self._on_internal_error = broke
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    async def stop(self) -> None:
        """All of them."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, Exception):  # others end the loop by themselves
            self._on_internal_error(error)


def is_internal_error(context: Mapping[str, Any]) -> bool:
    """Has a turn of the loop broken off that carried out what a replica asked for? What others say
    to it ends a connection at most: that is no such turn."""
    error = context.get("exception")
    if "handle" not in context or not isinstance(error, Exception):
        return False
    if isinstance(error, CreekError | OSError):
        return False
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return any(name.startswith(INTERNAL_MODULE_PREFIXES) for name in modules)
