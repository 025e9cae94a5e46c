"""The tutorial on SQL runs as written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.ports import free_ports
from tests.docs.page_runner import PageRunner
from tests.docs.pages import Block, Command, blocks, commands
from tests.sql_clients import dialect

PAGE = "sql-tutorial.md"
CALL = re.compile(r'"call":"[^"]*"')


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[PageRunner]:
    runner = PageRunner(tmp_path / "page", free_ports())
    dialect.write_entry_points(runner.directory)
    yield runner
    runner.stop()


def test_the_shop_sells_with_weak_and_strong_statements(runner: PageRunner) -> None:
    checked = []
    for block in blocks(PAGE):
        match block:
            case Block("python" | "sql", name, text):
                runner.save(name, text)
            case Block("console", terminal, text):
                for command in commands(text):
                    execute(runner, terminal, command)
                    checked.append(command.line.split()[0])
            case _:
                assert block.language == "sh"
    assert set(checked) == {"creek", "python", "curl"}


def execute(runner: PageRunner, terminal: str, command: Command) -> None:
    if command.line.startswith("creek up"):
        cluster = runner.start(terminal, f"{command.line} --port {runner.port}")
        for replica in range(3):
            cluster.wait_for(f"replica {replica} is up at")
        cluster.wait_for("is the leader")
    elif command.line.startswith("curl"):
        output = runner.run(command.line)
        assert CALL.sub("", output).strip() == CALL.sub("", command.output).strip()
    else:
        runner.check(command)
