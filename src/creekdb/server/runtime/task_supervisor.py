"""Supervision of asyncio tasks and loop callbacks: every unexpected error is reported."""

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
"""Prefixes of modules in which an unexpected exception is a bug."""

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class TaskSupervisor:
    """Owner of background tasks. Calls `on_internal_error` with the exception of a failed task."""

    def __init__(self, on_internal_error: Callable[[Exception], None]) -> None:
        self._on_internal_error = on_internal_error
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, Exception):  # a BaseException ends the loop by itself
            self._on_internal_error(error)


def is_internal_error(context: Mapping[str, Any]) -> bool:
    """True if a loop callback failed inside Creek.

    Errors caused by peers and clients do not count. They end a connection at most.
    """
    error = context.get("exception")
    if "handle" not in context or not isinstance(error, Exception):
        return False
    if isinstance(error, CreekError | OSError):
        return False
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return any(name.startswith(INTERNAL_MODULE_PREFIXES) for name in modules)
