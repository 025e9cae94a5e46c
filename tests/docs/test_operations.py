"""The tests that a page shows run, and pass; and a type checker has nothing against them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.ports import free_ports
from tests.docs.pages import files

PAGE = "test-operations.md"
CLIENTS, MEMBER = "7150", "7250"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    port = free_ports()
    for name, text in files(PAGE).items():
        text = text.replace(CLIENTS, str(port)).replace(MEMBER, str(port + 1))
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_they_pass(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "10 passed" in ran.stdout


def test_their_types_are_right(folder: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache")]
    names = sorted(files(PAGE))
    ran = subprocess.run(
        [*command, *names], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
