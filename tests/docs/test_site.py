"""The site is built, whole, from what is there; and not where something public tells nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.docs.pages import ROOT
from tools.site.names import Shown, section
from tools.site.pages import PAGES
from tools.site.settings import table
from tools.site.telling import Untold, as_markdown

FETCHED = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(?:https?:)?//[^\s\">]+")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stdout) == (0, "")
    return folder


def test_every_page_is_there(site: Path) -> None:
    for page in (*PAGES, "index.md", "tutorial.md", "architecture.md", "decisions/README.md"):
        made = page.replace("README", "index").replace(".md", ".html")
        assert (site / made).is_file(), page


def test_a_page_that_nobody_placed_is_found_all_the_same(site: Path) -> None:
    shown = (site / "index.html").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f"{page.stem}.html" in shown, page


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        assert FETCHED.findall(page.read_text()) == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\"?https?:", style.read_text()), style


@pytest.mark.parametrize("page", PAGES)
def test_the_reference_tells_of_everything(page: str) -> None:
    assert len(PAGES[page]().splitlines()) > 20


class Told:
    """A class that tells of itself."""

    def open(self) -> None:
        """And of this."""


class Silent:
    """A class that tells of itself, but not of everything."""

    def open(self) -> None: ...


class Unexplained:
    """Its instances have something that nobody explains."""

    def __init__(self) -> None:
        self.limit = 3


def test_what_tells_nothing_is_not_shown() -> None:
    assert "And of this." in section(Shown(Told, "Told"))
    with pytest.raises(Untold, match=r"Silent\.open has no docstring"):
        section(Shown(Silent, "Silent"))
    with pytest.raises(Untold, match=r"Unexplained\.limit has no text"):
        section(Shown(Unexplained, "Unexplained"))
    assert "open" not in section(Shown(Silent, "Silent", frozenset({"open"})))


def test_a_key_that_tells_nothing_is_not_shown() -> None:

    class Keys(msgspec.Struct):
        said: int = 3
        """How often."""
        unsaid: str = ""

    with pytest.raises(Untold, match=r"Keys\.unsaid has no text"):
        table(Keys)


def test_docstrings_become_markdown() -> None:
    assert as_markdown("Adds.\n\n    >>> 1 + 1\n    2\n\n    >>> 2 + 2\n    4") == (
        "Adds.\n\n```pycon\n>>> 1 + 1\n2\n\n>>> 2 + 2\n4\n```"
    )
