"""The site is built, whole, from what is there; and not where something public tells nothing."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from tests.docs.pages import ROOT
from tests.docs.site import build
from tests.pipeline.browser import browsing
from tools.site.names import Shown, section
from tools.site.pages import PAGES
from tools.site.settings import table
from tools.site.telling import MissingDocstring, as_markdown

FETCHED = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(?:https?:)?//[^\s\">]+")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder)
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


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nobody wants to know."""


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """The site's address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_it_is_searched_turned_dark_and_read_on_a_phone(served: str) -> None:
    asked: list[str] = []
    with browsing() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{served}/index.html")
        ready = page.locator(".md-search-result__meta", has_text="Type to start searching")
        ready.wait_for(state="attached")
        page.locator("input.md-search__input").press_sequentially("apology")  # it minds keys alone
        page.wait_for_selector(".md-search-result__item")
        assert "The apology" in page.locator(".md-search-result__item").first.inner_text()

        page.goto(f"{served}/tutorial.html")
        page.locator("label[title=Dark]:visible").click()
        page.wait_for_selector("body[data-md-color-scheme=slate]")

        page.set_viewport_size({"width": 390, "height": 844})
        page.click("header label[for=__drawer]")
        page.get_by_text("Choose weak or strong").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert [url for url in asked if not url.startswith((served, "data:", "blob:"))] == []


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
    with pytest.raises(MissingDocstring, match=r"Silent\.open has no docstring"):
        section(Shown(Silent, "Silent"))
    with pytest.raises(MissingDocstring, match=r"Unexplained\.limit has no text"):
        section(Shown(Unexplained, "Unexplained"))
    assert "open" not in section(Shown(Silent, "Silent", frozenset({"open"})))


def test_a_key_that_tells_nothing_is_not_shown() -> None:

    class Keys(msgspec.Struct):
        said: int = 3
        """How often."""
        unsaid: str = ""

    with pytest.raises(MissingDocstring, match=r"Keys\.unsaid has no text"):
        table(Keys)


def test_docstrings_become_markdown() -> None:
    assert as_markdown("Adds.\n\n    >>> 1 + 1\n    2\n\n    >>> 2 + 2\n    4") == (
        "Adds.\n\n```pycon\n>>> 1 + 1\n2\n\n>>> 2 + 2\n4\n```"
    )
