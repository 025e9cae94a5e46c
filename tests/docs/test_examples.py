"""The applications of `examples/` run as their READMEs show."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.ports import free_ports
from tests.docs.page_runner import PageRunner
from tests.docs.pages import ROOT, commands

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/README.md"))
LINES_MAX = 60
"""Upper bound for the lines of a program, so that it stays small enough to read."""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[PageRunner]:
    runner = PageRunner(tmp_path / "page", free_ports())
    runner.environment["CREEK_PORT"] = str(runner.port)
    yield runner
    runner.stop()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_application_runs_as_its_readme_shows(example: Path, runner: PageRunner) -> None:
    shutil.copytree(example, runner.directory, dirs_exist_ok=True)
    text = (example / "README.md").read_text()
    up = re.search(r"^creek up.*$", text, re.MULTILINE)
    assert up is not None
    cluster = runner.start("cluster", f"{up[0]} --port {runner.port}")
    cluster.wait_for("is the leader")
    shown = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    assert shown
    for command in commands("".join(shown)):
        runner.check(command)


def test_the_box_offices_sell_the_next_seat_when_they_run_again(runner: PageRunner) -> None:
    example = ROOT / "examples" / "tickets"
    shutil.copytree(example, runner.directory, dirs_exist_ok=True)
    cluster = runner.start("cluster", f"creek up --datatype theatre:theatre --port {runner.port}")
    cluster.wait_for("is the leader")
    assert runner.run("python sell.py").splitlines()[-1] == "sold seats: 1"
    assert runner.run("python sell.py").splitlines()[-1] == "sold seats: 2"


def test_applications_are_small_and_listed() -> None:
    listed = (ROOT / "examples" / "README.md").read_text()
    for example in EXAMPLES:
        assert f"]({example.name})" in listed
        for program in example.glob("*.py"):
            assert len(program.read_text().splitlines()) <= LINES_MAX
