"""The tests on the page about testing pass, and their types are correct."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.ports import free_ports
from tests.docs.pages import files

PAGE = "test-operations.md"
CLIENT_PORT, PEER_PORT = "7150", "7250"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Directory with the files of the page."""
    port = free_ports()
    for name, text in files(PAGE).items():
        text = text.replace(CLIENT_PORT, str(port)).replace(PEER_PORT, str(port + 1))
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_the_tests_of_the_page_pass(directory: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    process = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout
    assert "10 passed" in process.stdout


def test_the_files_of_the_page_pass_strict_type_checks(directory: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(directory / "cache")]
    names = sorted(files(PAGE))
    process = subprocess.run(
        [*command, *names], cwd=directory, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout
