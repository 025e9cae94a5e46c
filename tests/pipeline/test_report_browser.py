"""The page in a real browser: the charts are drawn, and do what they say."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Locator, Page

from creekdb.evaluation import Experiment
from creekdb.pipeline.report import write_report
from tests.pipeline.browser import browsing
from tests.pipeline.made_up import PEAKS_TPS, SPLIT, tables, write

HOSTILE = "</script><img src=x onerror=\"document.title='taken over'\">"
FIGURES = ("figure-1a", "figure-1b", "figure-1c")
LOADS = (0.1, 0.5, 0.8, 0.95, 1.1)
POINTS = ".mark-symbol.role-mark path"
PICTURES = os.environ.get("CREEK_SCREENSHOTS")
"""Where pictures for the README go: `make screenshots`."""
PICTURED = os.environ.get("CREEK_REPORT")
"""The page that they are of: what the tests make up is nothing to show."""

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = [
        Experiment(scheme=scheme, load_tps=peak * load, seed=seed, warehouses=warehouses)
        for scheme, peak in PEAKS_TPS.items()
        for load in LOADS
        for seed in (0, 1)
        for warehouses in (5, 20)
    ]
    faults = tuple(SPLIT.split("; "))
    given.append(Experiment(load_tps=9_000.0, faults=faults, duration_us=5_000_000))
    made = tables(given)
    for row in made.verdicts:
        row.update(verdict="illegal", detail=HOSTILE)
    return write_report(write(made, tmp_path_factory.mktemp("out"))).page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


class Reader:
    """A page that is open, and what it complained about or asked the network for."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda said: self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=60_000)

    def chart(self, key: str) -> Locator:
        return self.page.locator(f"#chart-{key}")

    def marks(self, key: str, selector: str) -> list[dict[str, Any]]:
        """What is drawn, with its place on the page, its size and its colours."""
        found: list[dict[str, Any]] = self.page.eval_on_selector_all(
            f"#chart-{key} svg {selector}",
            """marks => marks.map(mark => {
                const box = mark.getBoundingClientRect();
                const { stroke, fill } = getComputedStyle(mark);
                const [x, y, width, height] =
                    [box.x + scrollX, box.y + scrollY, box.width, box.height].map(Math.round);
                return { x, y, width, height, stroke, fill };
            })""",
        )
        return found


@pytest.fixture
def reader(browser: Browser, report: Path) -> Iterator[Reader]:
    yield from opened(browser, report, 1280, 900, "light")


@pytest.fixture(scope="module")
def onlooker(browser: Browser, report: Path) -> Iterator[Reader]:
    """One who touches nothing, and so can be shared."""
    yield from opened(browser, report, 1280, 900, "light")


@pytest.fixture
def phone(browser: Browser, report: Path) -> Iterator[Reader]:
    yield from opened(browser, report, 390, 844, "light")


def opened(
    browser: Browser, report: Path, width: int, height: int, colours: Literal["light", "dark"]
) -> Iterator[Reader]:
    with browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=colours
    ) as context:
        reader = Reader(context.new_page(), report.as_uri())
        yield reader
        assert reader.complaints == []
        assert reader.requests == [report.as_uri()]


def settle(reader: Reader) -> None:
    """Let what was asked of a chart be drawn."""
    reader.page.evaluate("() => new Promise(done => setTimeout(done, 200))")


@pytest.mark.parametrize("key", FIGURES)
def test_every_figure_has_a_line_and_points_of_each_system(onlooker: Reader, key: str) -> None:
    lines = onlooker.marks(key, ".mark-line.role-mark path")
    points = onlooker.marks(key, POINTS)

    shown = onlooker.page.locator(f"#{key} .line[aria-pressed=true]").count()
    assert len(lines) >= shown
    assert len(points) >= shown * len(LOADS)
    assert all(line["width"] > 50 for line in lines)
    systems = 3 if key == "figure-1b" else 4
    assert len({line["stroke"] for line in lines}) == systems
    spread = [point["x"] for point in points]
    assert max(spread) - min(spread) > 600


def test_small_charts_and_timelines_are_drawn(onlooker: Reader) -> None:
    keys: list[str] = onlooker.page.eval_on_selector_all(
        ".chart", "places => places.map(place => place.dataset.chart)"
    )

    assert len([key for key in keys if key.startswith("warehouses-")]) == 4
    assert len([key for key in keys if key.startswith("timeline-")]) == 2
    for key in set(keys) - set(FIGURES):
        assert any(line["width"] > 40 for line in onlooker.marks(key, ".mark-line.role-mark path"))


def test_pointing_at_a_mark_tells_its_value_and_interval(reader: Reader) -> None:
    tooltip = reader.page.locator("#tooltip")
    assert not tooltip.is_visible()

    reader.chart("figure-1a").scroll_into_view_if_needed()
    point = reader.marks("figure-1a", POINTS)[0]
    scrolled = reader.page.evaluate("scrollY")
    reader.page.mouse.move(point["x"] + 3, point["y"] - scrolled + 3)
    tooltip.wait_for(state="visible")

    told = tooltip.inner_text()
    assert "ms" in told
    assert "95\u00a0%" in told or "95 %" in told
    assert "2 seeds" in told
    assert "throughput" in told


def test_the_first_figure_is_as_large_as_a_screen_allows(browser: Browser, report: Path) -> None:
    shown = Path(PICTURED).resolve() if PICTURED else report
    for reader in opened(browser, shown, 1280, 900, "light"):
        box = reader.chart("figure-1a").bounding_box()
        assert box is not None
        assert 600 <= box["width"] <= 1280
        assert 300 <= box["height"] <= 900
        if PICTURES and PICTURED:
            reader.page.set_viewport_size({"width": 1280, "height": 1680})
            reader.page.screenshot(path=Path(PICTURES, "report.png"), animations="disabled")


def test_a_line_that_is_switched_off_is_gone_until_it_is_switched_on_again(reader: Reader) -> None:
    button = reader.page.locator("#figure-1a .line", has_text="Creek, strong stable")
    before = len(reader.marks("figure-1a", POINTS))

    button.press("Enter")
    settle(reader)
    assert button.get_attribute("aria-pressed") == "false"
    assert len(reader.marks("figure-1a", POINTS)) == before - len(LOADS)

    button.click()
    settle(reader)
    assert len(reader.marks("figure-1a", POINTS)) == before


def test_a_system_is_switched_off_in_all_variations_at_once(reader: Reader) -> None:
    before = len(reader.marks("warehouses-peak", POINTS))

    reader.page.locator("#variations .line", has_text="Archie").click()
    settle(reader)

    assert len(reader.marks("warehouses-peak", POINTS)) < before


def test_the_statistic_can_be_chosen(reader: Reader) -> None:
    labels = "#chart-figure-1a .role-axis-label text"
    before = reader.page.locator(labels).all_text_contents()

    reader.page.locator("#figure-1a label", has_text="p99").click()
    settle(reader)

    assert reader.page.locator(labels).all_text_contents() != before


def test_throughput_can_be_shown_on_either_axis(reader: Reader) -> None:
    labels = "#chart-figure-1a .role-axis-label text"
    before = reader.page.locator(labels).all_text_contents()

    reader.page.locator("#figure-1a label", has_text="linear").click()
    settle(reader)

    after = reader.page.locator(labels).all_text_contents()
    assert "0" in after
    assert "0" not in before


def test_dragging_zooms_in_and_a_double_click_shows_the_whole_again(reader: Reader) -> None:
    chart = reader.chart("figure-1b")
    chart.scroll_into_view_if_needed()
    before = reader.marks("figure-1b", POINTS)
    box = chart.bounding_box()
    assert box is not None

    middle = box["y"] + box["height"] / 2
    reader.page.mouse.move(box["x"] + 400, middle)
    reader.page.mouse.down()
    reader.page.mouse.move(box["x"] + 500, middle, steps=4)
    assert reader.page.locator(".frame").is_visible()
    reader.page.mouse.up()
    settle(reader)
    assert reader.marks("figure-1b", POINTS) != before

    chart.dblclick(position={"x": 300, "y": 100})
    reader.page.mouse.move(0, 0)
    settle(reader)
    assert reader.marks("figure-1b", POINTS) == before


def test_buttons_zoom_too(reader: Reader) -> None:
    before = reader.marks("figure-1a", POINTS)

    reader.page.get_by_label("Zoom in").first.click()
    settle(reader)
    closer = reader.marks("figure-1a", POINTS)
    reader.page.get_by_label("Show the whole figure").first.click()
    settle(reader)

    assert closer != before
    assert reader.marks("figure-1a", POINTS) == before


def test_the_switch_changes_every_colour_and_is_remembered(reader: Reader) -> None:
    page = reader.page
    background = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(background), reader.marks("figure-1a", POINTS)[0]["stroke"]

    page.get_by_label("Switch to dark").click()
    after = page.evaluate(background), reader.marks("figure-1a", POINTS)[0]["stroke"]

    assert before[0] != after[0]
    assert before[1] != after[1]
    assert page.get_by_label("Switch to light").is_visible()


def test_a_reader_who_prefers_dark_gets_dark_and_prints_light(
    browser: Browser, report: Path
) -> None:
    for reader in opened(browser, report, 1280, 900, "dark"):
        shade = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert shade == "rgb(21, 24, 27)"
        reader.page.emulate_media(media="print")
        shade = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert shade == "rgb(252, 251, 248)"


def test_on_a_phone_nothing_is_wider_than_the_screen(phone: Reader) -> None:
    width, screen = phone.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")

    assert width == screen == 390
    for key in FIGURES:
        assert all(-1 <= mark["x"] <= 391 for mark in phone.marks(key, POINTS))


def test_runs_can_be_filtered(reader: Reader) -> None:
    page = reader.page
    page.locator("#runs summary").click()
    page.locator("#filter").fill("creek warehouses 20")

    rows = page.locator(".runs tbody tr:visible")
    assert 0 < rows.count() == len(LOADS) * 2
    assert page.locator("#filtered").inner_text() == f"{rows.count()} left"


def test_hostile_text_runs_nothing(onlooker: Reader) -> None:
    assert onlooker.page.title() == "Creek, measured"
    assert onlooker.page.locator("img").count() == 0
    assert onlooker.page.get_by_text(HOSTILE).count() > 0


def test_everything_that_can_be_pressed_has_a_name(onlooker: Reader) -> None:
    nameless = onlooker.page.eval_on_selector_all(
        "button, a, input, summary",
        """elements => elements.filter(element => {
            const label = element.getAttribute("aria-label") || element.textContent
                || element.labels?.[0]?.textContent || "";
            return !label.trim();
        }).length""",
    )

    assert nameless == 0
    described = onlooker.page.locator(".chart[role=graphics-document][aria-label]")
    assert described.count() == onlooker.page.locator(".chart").count()
