"""The tests on the page about testing pass, and their types are correct."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import files

PAGE = "test-operations.md"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Directory with the files of the page."""
    for name, text in files(PAGE).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_the_tests_of_the_page_pass(directory: Path) -> None:
    plugins = "no:xdist", "no:asyncio", "no:cacheprovider"
    options = [option for plugin in plugins for option in ("-p", plugin)]
    command = [sys.executable, "-m", "pytest", "-q", *options]
    process = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout
    assert "13 passed" in process.stdout


def test_the_files_of_the_page_pass_strict_type_checks(directory: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(directory / "cache")]
    names = sorted(files(PAGE))
    process = subprocess.run(
        [*command, *names], cwd=directory, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout
