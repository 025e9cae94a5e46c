"""Simulations do what the page says; … stands for what is left out there."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import Command, commands_of, files
from tests.docs.reader import Reader

PAGE = "simulate.md"
LEFT_OUT = "…\n"
CHANGING = re.compile(r"\b[0-9a-f]{32}\b|\b\d+(?= operations)")
"""What is another number whenever the protocol changes."""


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    somebody = Reader(tmp_path, 7100)
    for name, text in files(PAGE).items():
        somebody.save(name, text)
    return somebody


def test_what_is_shown_is_what_is_said(reader: Reader) -> None:
    typed = commands_of(PAGE)
    for command in typed:
        shows(reader, command)
    assert len(typed) == 6


def shows(reader: Reader, command: Command) -> None:
    said = steady(reader.run(command.line).replace("python -m creekdb", "creek"))
    at = 0
    for part in steady(command.shown).split(LEFT_OUT):
        found = said.find(part, at)
        assert found >= 0, f"{command.line}: there is no\n{part}in\n{said[at:]}"
        at = found + len(part)


def steady(text: str) -> str:
    return CHANGING.sub("N", text)
