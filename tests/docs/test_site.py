"""The site is complete, self-contained and searchable. A missing docstring fails its build."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from tests.docs.pages import ROOT
from tests.docs.site import build_site
from tests.pipeline.browser import browsing
from tools.site.docstrings import MissingDocstring, as_markdown
from tools.site.names import Shown, section
from tools.site.pages import PAGES
from tools.site.settings import table

EXTERNAL_RESOURCE = re.compile(
    r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(?:https?:)?//[^\s\">]+"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    build_site(directory)
    return directory


def test_every_page_is_built(site: Path) -> None:
    for page in (*PAGES, "index.md", "tutorial.md", "architecture.md", "decisions/README.md"):
        html = page.replace("README", "index").replace(".md", ".html")
        assert (site / html).is_file(), page


def test_pages_outside_the_navigation_are_linked(site: Path) -> None:
    index = (site / "index.html").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f"{page.stem}.html" in index, page


def test_pages_load_no_external_resources(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        assert EXTERNAL_RESOURCE.findall(page.read_text()) == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\"?https?:", style.read_text()), style


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Suppress the access log."""


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """URL of the site on a local server."""
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SilentHandler, directory=str(site))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_search_dark_mode_and_phone_layout_work(served: str) -> None:
    requested: list[str] = []
    with browsing() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: requested.append(request.url))
        page.goto(f"{served}/index.html")
        search_status = page.locator(".md-search-result__meta", has_text="Type to start searching")
        search_status.wait_for(state="attached")
        search = page.locator("input.md-search__input")
        search.press_sequentially("apology")  # the search reacts to key events only
        page.wait_for_selector(".md-search-result__item")
        assert "The apology" in page.locator(".md-search-result__item").first.inner_text()

        page.goto(f"{served}/tutorial.html")
        page.locator("label[title=Dark]:visible").click()
        page.wait_for_selector("body[data-md-color-scheme=slate]")

        page.set_viewport_size({"width": 390, "height": 844})
        page.click("header label[for=__drawer]")
        page.get_by_text("Choose weak or strong").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert [url for url in requested if not url.startswith((served, "data:", "blob:"))] == []


@pytest.mark.parametrize("page", PAGES)
def test_reference_pages_are_not_empty(page: str) -> None:
    assert len(PAGES[page]().splitlines()) > 20


class Documented:
    """Class with docstrings only."""

    def open(self) -> None:
        """Open it."""


class MissingMethodText:
    """Class with a method that has no docstring."""

    def open(self) -> None: ...


class MissingAttributeText:
    """Class with an attribute that has no text."""

    def __init__(self) -> None:
        self.limit = 3


def test_a_missing_docstring_is_an_error() -> None:
    assert "Open it." in section(Shown(Documented, "Documented"))
    with pytest.raises(MissingDocstring, match=r"MissingMethodText\.open has no docstring"):
        section(Shown(MissingMethodText, "MissingMethodText"))
    with pytest.raises(MissingDocstring, match=r"MissingAttributeText\.limit has no text"):
        section(Shown(MissingAttributeText, "MissingAttributeText"))
    hidden = frozenset({"open"})
    assert "open" not in section(Shown(MissingMethodText, "MissingMethodText", hidden))


def test_a_configuration_key_without_text_is_an_error() -> None:

    class Keys(msgspec.Struct):
        documented: int = 3
        """Number of retries."""
        undocumented: str = ""

    with pytest.raises(MissingDocstring, match=r"Keys\.undocumented has no text"):
        table(Keys)


def test_docstrings_become_markdown() -> None:
    assert as_markdown("Adds.\n\n    >>> 1 + 1\n    2\n\n    >>> 2 + 2\n    4") == (
        "Adds.\n\n```pycon\n>>> 1 + 1\n2\n\n>>> 2 + 2\n4\n```"
    )
