"""The README opens with its two commands, stays short, and names existing commands and files."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from creekdb.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
LINES_MAX = 150


def test_the_partition_example_runs_as_written() -> None:
    page = (ROOT / "docs" / "partition-example.md").read_text()
    example = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)
    assert example is not None
    ran = subprocess.run(
        [sys.executable, "-c", example[1]], capture_output=True, text=True, check=True
    )
    assert ran.stdout == example[2]


def test_it_opens_with_the_two_commands() -> None:
    opening = README.split("```")[1]
    assert [line.split("#")[0].strip() for line in opening.strip().splitlines()] == [
        "make run",
        "make test",
    ]


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= LINES_MAX


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)", README))))
def test_linked_files_exist(target: str) -> None:
    assert (ROOT / target).is_file()


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md", "CONTRIBUTING.md"])
def test_named_make_targets_exist(page: str) -> None:
    named = set(re.findall(r"`make ([a-z-]+)\b", (ROOT / page).read_text()))
    assert named
    for target in named:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md"])
def test_named_commands_have_a_help_page(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in set(re.findall(r"`creek ([a-z-]+)", (ROOT / page).read_text())):
        assert main([command, "--help"]) == 0, command
        assert "Example" in capsys.readouterr().out


def test_every_command_is_listed() -> None:
    listed = set(re.findall(r"`creek ([a-z-]+)", (ROOT / "docs" / "commands.md").read_text()))
    listing = subprocess.run(
        [sys.executable, "-m", "creekdb", "--help"], capture_output=True, text=True, check=True
    ).stdout
    sections = listing.partition("Options:")[2]
    commands = set(re.findall(r"^  ([a-z][a-z-]+)  ", sections, re.MULTILINE))
    assert {"up", "simulate", "pipeline"} <= commands
    assert commands <= listed
