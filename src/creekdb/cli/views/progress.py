"""Progress bars on stderr."""

import time
from typing import Any, Self

from rich.progress import Progress, ProgressColumn
from rich.text import Text

from creekdb.cli.output import stderr_console


class ProgressBar:
    """Progress of one task on a terminal, from the first update after `delay_s` seconds on.

    A column is a text with the fields of the task, or a column of rich.
    """

    def __init__(
        self,
        *columns: str | ProgressColumn,
        total: float | None = None,
        delay_s: float = 0.0,
        **fields: Any,
    ) -> None:
        console = stderr_console()
        self.is_visible = console.is_terminal
        self._bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._task = self._bar.add_task("", total=total, **fields)
        self._begin_s = time.monotonic() + delay_s

    def __enter__(self) -> Self:
        self.update()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, **values: Any) -> None:
        if time.monotonic() >= self._begin_s:
            self._bar.start()
        self._bar.update(self._task, **values)

    def print(self, line: str | Text) -> None:
        """Print a line above the bar, or to stderr if there is no bar."""
        self._bar.console.print(line, soft_wrap=True)
