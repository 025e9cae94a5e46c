"""The README says what is true: its commands exist, and its example runs as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from creekdb.cli import main

README = (Path(__file__).parents[2] / "README.md").read_text()
MAKEFILE = (Path(__file__).parents[2] / "Makefile").read_text()


def test_the_example_runs_as_written_and_prints_what_the_readme_shows() -> None:
    section = README.partition("## An example\n")[2]
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", section, re.DOTALL)
    assert found is not None
    ran = subprocess.run(
        [sys.executable, "-c", found[1]], capture_output=True, text=True, check=True
    )
    assert ran.stdout == found[2]


def test_it_opens_with_the_two_commands() -> None:
    opening = README.split("```")[1]
    assert [line.split("#")[0].strip() for line in opening.strip().splitlines()] == [
        "make run",
        "make test",
    ]


def test_every_make_target_it_names_exists() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)\b", README)) - {"and", "it"}
    assert {"run", "test", "mutants", "bench"} <= named
    for target in named:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


def test_every_command_it_names_has_a_help_page(capsys: pytest.CaptureFixture[str]) -> None:
    for command in set(re.findall(r"`creek ([a-z-]+)", README)):
        assert main([command, "--help"]) == 0, command
        assert "Example" in capsys.readouterr().out
