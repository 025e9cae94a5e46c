"""The tutorial runs as written, up to its last output."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from creekdb.torture.processes import is_quiescent
from tests.cluster.ports import free_ports
from tests.docs.page_runner import TIMEOUT_S, PageRunner
from tests.docs.pages import ROOT, Block, Command, blocks, commands

PAGE = "tutorial.md"


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[PageRunner]:
    runner = PageRunner(tmp_path, free_ports())
    yield runner
    runner.stop()


def test_a_partition_oversells_the_shop_and_causes_an_apology(runner: PageRunner) -> None:
    for block in blocks(PAGE):
        match block:
            case Block("python", name, text):
                runner.save(name, text)
            case Block("sh", _, text):
                check_installation(text)
            case Block("console", terminal, text):
                for command in commands(text):
                    execute(runner, terminal, command)
            case _:
                raise AssertionError(f"a block of this language is not supported: {block}")
    waiting_client = runner.terminals["terminal 3"]
    assert waiting_client.process.wait(TIMEOUT_S) == 0


def execute(runner: PageRunner, terminal: str, command: Command) -> None:
    line, output = command
    if line.startswith("creek up"):
        start_cluster(runner, terminal, command)
    elif line == "python ann.py":
        runner.start(terminal, line).wait_for(output)
    elif not line:  # further output of an earlier command
        runner.terminals[terminal].wait_for(output)
    elif line == "creek status":
        wait_until_quiescent(runner)
        assert stable_cells(runner.run(line)).startswith(stable_cells(runner.adapt(output)))
    else:
        runner.check(command)


def start_cluster(runner: PageRunner, terminal: str, command: Command) -> None:
    """Start the cluster and check the introduction. Without a TTY, lines replace the live table."""
    cluster = runner.start(terminal, f"{command.line} --port {runner.port}")
    cluster.wait_for("is the leader")
    for replica in range(3):
        cluster.wait_for(f"replica {replica} is up at")
    introduction = runner.adapt(command.output.partition("replica  port")[0])
    at = f" --at 127.0.0.1:{runner.port}"
    assert cluster.output.replace(at, "").startswith(introduction)


def wait_until_quiescent(runner: PageRunner) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_quiescent(runner.statuses()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def stable_cells(table: str) -> str:
    """Return the header and the cells of a status table that are equal in every run."""
    lines = []
    for line in table.splitlines():
        replica, *others = line.split()
        if replica == "replica" and others[0] == "address":
            lines.append(" ".join(line.split()))
        elif replica.isdecimal():
            lines.append(f"{replica} {others[0]} {others[-1]}")
    return "\n".join(lines)


def check_installation(text: str) -> None:
    """Check that the make target exists. The test environment is already installed."""
    first, second, *_ = text.splitlines()
    assert (first, second) == ("make install-live", ". .venv/bin/activate")
    assert re.search("^install-live:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_tutorial_uses_no_process_signals() -> None:
    assert not re.search(r"\$ kill|-STOP|-CONT|-KILL", (ROOT / "docs" / PAGE).read_text())
