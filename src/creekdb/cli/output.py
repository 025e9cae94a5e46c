"""Words that follow numbers.

Where output goes: results to stdout, progress and complaints to stderr.

Colours and progress bars appear on a terminal only. Piped output is plain, without trailing spaces.
"""

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text


def counted(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


PIPED_WIDTH = 100


def results() -> Console:
    return _console(stderr=False)


def complaints() -> Console:
    return _console(stderr=True)


def program() -> str:
    """How to call this command from where the user is: it may not be on the PATH."""
    if shutil.which("creek") is not None:
        return "creek"
    called = Path(sys.argv[0])
    return os.path.relpath(called) if called.name == "creek" else "python -m creekdb"


def show(lines: Iterable[Text]) -> None:
    console = results()
    for line in lines:
        console.print(line, soft_wrap=True)


def show_table(table: Table) -> None:
    console = results()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    show(Text(line.rstrip()) for line in captured.get().splitlines())


def show_json(value: Any) -> None:
    """One object, on one line."""
    click.echo(msgspec.json.encode(value).decode())


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console
