"""The tutorials work as written, with fewer transactions."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from creekdb.cli import main
from creekdb.pipeline.stages.grid import parse_grid

AS_INSTALLED = "import sys; sys.path.remove(''); from creekdb.cli import main; sys.exit(main())"
"""Entry point as installed by pip: the working directory is not on the module path."""
DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [content for name, content in found if name == language]


@pytest.mark.xdist_group("spark processes")
def test_an_added_scheme_is_fuzzed_and_drawn(tmp_path: Path) -> None:
    (code,), (grid,) = (
        blocks("add-your-own-scheme.md", "python"),
        blocks("add-your-own-scheme.md", "toml"),
    )
    (tmp_path / "mine.py").write_text(code)
    assert "transactions = 1000\n" in grid
    (tmp_path / "mine.toml").write_text(grid.replace("transactions = 1000", 'duration = "40ms"'))
    for line in blocks("add-your-own-scheme.md", ""):
        creek, *words = shlex.split(line)
        assert creek == "creek"
        process = subprocess.run(
            [sys.executable, "-c", AS_INSTALLED, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
    page = (tmp_path / "runs/mine/report.html").read_text()
    assert "mine:OneAtATime" in page


def test_the_grid_of_the_tutorial_is_valid() -> None:
    (grid,) = blocks("rerun-the-paper.md", "toml")
    assert len(parse_grid("cores.toml", tomllib.loads(grid)).cells) == 2 * 2 * 4 * 3


def test_the_commands_of_the_tutorial_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for line in "".join(blocks("rerun-the-paper.md", "")).splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "make":
            makefile = (DOCS.parent / "Makefile").read_text()
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE)
            continue
        assert words[0] == "creek"
        names = [word for word in words[1:3] if re.fullmatch("[a-z]+", word)]
        assert main([*names, "--help"]) == 0
        shown = capsys.readouterr().out
        assert all(word in shown for word in words if word.startswith("--"))
