"""The tutorial, followed word for word: it ends where it says."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.house import is_settled
from tests.cluster.ports import free_ports
from tests.docs.pages import ROOT, Block, Command, blocks, commands
from tests.docs.reader import PATIENCE_S, Reader

PAGE = "tutorial.md"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    somebody = Reader(tmp_path, free_ports())
    yield somebody
    somebody.end()


def test_a_shop_is_built_oversold_and_says_sorry(reader: Reader) -> None:
    for block in blocks(PAGE):
        match block:
            case Block("python", name, text):
                reader.save(name, text)
            case Block("sh", _, text):
                check_set_up(text)
            case Block("console", terminal, text):
                for command in commands(text):
                    follow(reader, terminal, command)
            case _:
                raise AssertionError(f"what is a reader to do with {block}?")
    apologetic = reader.terminals["terminal 3"]
    assert apologetic.process.wait(PATIENCE_S) == 0


def follow(reader: Reader, terminal: str, command: Command) -> None:
    line, shown = command
    if line.startswith("creek up"):
        come_up(reader, terminal, command)
    elif line == "python ann.py":
        reader.start(terminal, line).until(shown)
    elif not line:  # what an earlier command shows now
        reader.terminals[terminal].until(shown)
    elif line == "creek status":
        wait_until_settled(reader)
        assert like(reader.run(line)).startswith(like(reader.adapted(shown)))
        reader.look_up_processes(shown)
    else:
        reader.does(command)
    if line.startswith("kill -KILL"):
        for replica in (1, 2):
            reader.terminals["terminal 1"].until(f"replica {replica} is up at", often=2)


def come_up(reader: Reader, terminal: str, command: Command) -> None:
    """The table is for people: a program is told the same, line by line."""
    cluster = reader.start(terminal, f"{command.line} --port {reader.port}")
    cluster.until("leads")
    for replica in range(3):
        cluster.until(f"replica {replica} is up at")
    introduction = reader.adapted(command.shown.partition("replica  port")[0])
    at = f" --at 127.0.0.1:{reader.port}"
    assert cluster.shown.replace(at, "").startswith(introduction)


def wait_until_settled(reader: Reader) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_settled(reader.statuses()):
        assert time.monotonic() < until
        time.sleep(0.1)


def like(table: str) -> str:
    """Of a table only what is the same each time: not who leads, nor how far they are."""
    lines = []
    for line in table.splitlines():
        replica, *others = line.split()
        if replica == "replica" and others[0] == "clients":
            lines.append(" ".join(line.split()))
        elif replica.isdecimal():
            lines.append(f"{replica} {others[0]} {others[-1]}")
    return "\n".join(lines)


def check_set_up(text: str) -> None:
    """What the reader does first has been done where tests run: the target exists."""
    first, second, *_ = text.splitlines()
    assert (first, second) == ("make install-live", ". .venv/bin/activate")
    assert re.search("^install-live:", (ROOT / "Makefile").read_text(), re.MULTILINE)
