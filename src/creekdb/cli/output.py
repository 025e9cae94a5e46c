"""Output of the commands: results to stdout, progress and errors to stderr.

Colours and progress bars appear on a terminal only. Piped output is plain, without trailing spaces.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any, Self

import click
import msgspec
from rich.console import Console, JustifyMethod
from rich.progress import Progress, ProgressColumn
from rich.table import Table
from rich.text import Text


def pluralize(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


PIPED_WIDTH = 100


def stdout_console() -> Console:
    return _console(stderr=False)


def stderr_console() -> Console:
    return _console(stderr=True)


def command_name() -> str:
    """Return the command as the user can call it here; `creek` may not be on the PATH."""
    if shutil.which("creek") is not None:
        return "creek"
    called = Path(sys.argv[0])
    return os.path.relpath(called) if called.name == "creek" else "python -m creekdb"


def command_line() -> str:
    """Return the command line of this process, as part of a saved run."""
    return " ".join(["creek", *sys.argv[1:]])


def scratch_directory(parent: Path, prefix: str) -> "tempfile.TemporaryDirectory[str]":
    """Create a directory in `parent`, because that for temporary files may be in memory."""
    parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)


def print_lines(lines: Iterable[Text]) -> None:
    console = stdout_console()
    for line in lines:
        console.print(line, soft_wrap=True)


def new_table(*columns: str, left: Container[str] = (), min_width: int | None = None) -> Table:
    """Return a table without lines. The columns in `left` contain text, the others numbers."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        justify: JustifyMethod = "left" if name in left else "right"
        table.add_column(name, justify=justify, min_width=min_width, overflow="fold")
    return table


def print_table(table: Table) -> None:
    console = stdout_console()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    print_lines(Text(line.rstrip()) for line in captured.get().splitlines())


def print_json(value: Any) -> None:
    """Print the value as JSON on one line."""
    click.echo(msgspec.json.encode(value).decode())


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


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console
