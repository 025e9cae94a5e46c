"""Progress bars and spinners on stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from creekdb.cli.output import stderr_console

BAR_DELAY_S: Final = 2.0


@contextmanager
def progress_bar(activity: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes the completed and the total number.

    The bar appears on a terminal only, after BAR_DELAY_S seconds.
    """
    console = stderr_console()
    bar = Progress(
        TextColumn(activity),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(activity, total=None)
    started = time.monotonic()

    def update(completed: int, total: int) -> None:
        if time.monotonic() - started > BAR_DELAY_S:
            bar.start()
        bar.update(task, completed=completed, total=total)

    try:
        yield update
    finally:
        bar.stop()


@contextmanager
def spinner(activity: str) -> Iterator[None]:
    """Show a spinner on a terminal, for an activity of unknown duration."""
    console = stderr_console()
    if not console.is_terminal:
        yield
        return
    with console.status(activity):
        yield
