"""Type checkers accept typed calls, and reject deliberate mistakes."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PYRIGHT = Path(sys.executable).with_name("pyright")
EXAMPLES = Path(__file__).with_name("typed_calls.py")
ROOT = Path(__file__).parents[3]


def deliberate_mistakes() -> list[int]:
    lines = EXAMPLES.read_text().splitlines()
    mistakes = [number for number, line in enumerate(lines, 1) if line.endswith("# error")]
    assert len(mistakes) == 9
    return mistakes


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Copy of the examples in which type checkers report all errors."""
    copy = tmp_path / EXAMPLES.name
    copy.write_text(EXAMPLES.read_text().replace("# mypy: ignore-errors", "#"))
    return copy


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_mypy_rejects_exactly_the_mistakes(examples: Path) -> None:
    options = "--strict", "--no-error-summary", "--config-file", "pyproject.toml"
    output = output_of(sys.executable, "-m", "mypy", *options, str(examples))
    found = {int(line) for line in re.findall(rf"{examples.name}:(\d+): error", output)}
    assert sorted(found) == deliberate_mistakes(), output


@pytest.mark.skipif(shutil.which("node") is None, reason="Pyright needs Node.js")
def test_pyright_rejects_exactly_the_mistakes(examples: Path) -> None:
    project = examples.with_name("pyrightconfig.json")
    project.write_text(json.dumps({"extraPaths": [str(ROOT / "src")]}))
    options = "--outputjson", "--pythonpath", sys.executable, "-p", str(project)
    found = json.loads(output_of(str(PYRIGHT), *options))["generalDiagnostics"]
    errors = {each["range"]["start"]["line"] + 1: each["message"] for each in found}
    assert sorted(errors) == deliberate_mistakes(), errors
