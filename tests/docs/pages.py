"""The pages of the documentation, and the code on them."""

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
    """Some code on a page."""

    language: str
    title: str
    """A file, or a terminal."""
    text: str


class Command(NamedTuple):
    """What is typed, and what is shown to come of it."""

    line: str
    shown: str


def blocks(page: str) -> list[Block]:
    found = _BLOCK.finditer((DOCS / page).read_text())
    return [Block(each["language"], each["title"] or "", each["text"]) for each in found]


def files(page: str) -> dict[str, str]:
    """What a reader is told to put into files, by name."""
    return {each.title: each.text for each in blocks(page) if "." in each.title}


def commands(console: str) -> list[Command]:
    """Of a block; what stands before the first command is shown by one of an earlier block."""
    first, *others = re.split(r"^\$ ", console, flags=re.MULTILINE)
    told = [each.partition("\n") for each in others]
    found = [Command(line, shown) for line, _, shown in told]
    return [Command("", first), *found] if first else found


def commands_of(page: str) -> list[Command]:
    """Of all its consoles, in their order."""
    return [
        command
        for block in blocks(page)
        if block.language == "console"
        for command in commands(block.text)
    ]
