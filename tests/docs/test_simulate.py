"""The commands of the simulation page print the shown output; … stands for omitted lines."""

import re
from pathlib import Path

import pytest

from tests.docs.page_runner import PageRunner
from tests.docs.pages import Command, commands_of, files

PAGE = "simulate.md"
OMISSION = "…\n"
VARIABLE_NUMBERS = re.compile(r"\b[0-9a-f]{32}\b|\b\d+(?= operations)")
"""Numbers that change with every change of the protocol."""


@pytest.fixture
def runner(tmp_path: Path) -> PageRunner:
    runner = PageRunner(tmp_path, 7100)
    for name, text in files(PAGE).items():
        runner.save(name, text)
    return runner


def test_commands_print_the_shown_output(runner: PageRunner) -> None:
    shown = commands_of(PAGE)
    for command in shown:
        check_output(runner, command)
    assert len(shown) == 6


def check_output(runner: PageRunner, command: Command) -> None:
    """Find the parts between omissions in the output, in their order."""
    output = normalise(runner.run(command.line).replace("python -m creekdb", "creek"))
    position = 0
    for part in normalise(command.output).split(OMISSION):
        index = output.find(part, position)
        assert index >= 0, f"{command.line}: missing\n{part}in\n{output[position:]}"
        position = index + len(part)


def normalise(text: str) -> str:
    return VARIABLE_NUMBERS.sub("N", text)
