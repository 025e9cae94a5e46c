"""A progress bar for what may take long."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from creekdb.cli.output import stderr_console

BAR_DELAY_S: Final = 2.0


@contextmanager
def progress_bar(doing: str, what: str) -> Iterator[Callable[[int, int], None]]:
    """To be told how much of how much is done. Shown on a terminal, and after a while."""
    console = stderr_console()
    shown = Progress(
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(what),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = shown.add_task(doing, total=None)
    begun = time.monotonic()

    def moved(done: int, of: int) -> None:
        if time.monotonic() - begun > BAR_DELAY_S:
            shown.start()
        shown.update(task, completed=done, total=of)

    try:
        yield moved
    finally:
        shown.stop()


@contextmanager
def spinner(doing: str) -> Iterator[None]:
    """A sign of life, on a terminal, while nobody knows how long it takes."""
    console = stderr_console()
    if not console.is_terminal:
        yield
        return
    with console.status(doing):
        yield
