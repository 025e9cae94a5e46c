"""Pages of the documentation and the code blocks on them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]*)\")?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """Code block of a page."""

    language: str
    title: str
    """Name of a file or of a terminal."""
    text: str


class Command(NamedTuple):
    """Command line and its output, as a page shows them."""

    line: str
    output: str


def blocks(page: str) -> list[Block]:
    matches = _BLOCK.finditer((DOCS / page).read_text())
    return [Block(match["language"], match["title"] or "", match["text"]) for match in matches]


def files(page: str) -> dict[str, str]:
    """Return the files of a page, by name."""
    return {block.title: block.text for block in blocks(page) if "." in block.title}


def commands(console: str) -> list[Command]:
    """Return the commands of a console block.

    Output before the first command belongs to a command of an earlier block. It has an empty line.
    """
    continuation, *others = re.split(r"^\$ ", console, flags=re.MULTILINE)
    parts = [other.partition("\n") for other in others]
    result = [Command(line, output) for line, _, output in parts]
    return [Command("", continuation), *result] if continuation else result


def commands_of(page: str) -> list[Command]:
    """Return the commands of all console blocks of a page, in their order."""
    return [
        command
        for block in blocks(page)
        if block.language == "console"
        for command in commands(block.text)
    ]
