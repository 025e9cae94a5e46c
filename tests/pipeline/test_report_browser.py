"""The report page in a browser: drawn charts and their controls."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Locator, Page

from creekdb.evaluation import Experiment
from creekdb.pipeline.report import write_report
from creekdb.pipeline.storage import Location
from tests.pipeline.browser import browsing
from tests.pipeline.synthetic_tables import (
    PARTITION_FAULTS,
    PEAKS_TPS,
    report_tables,
    write_tables,
)

HOSTILE = "</script><img src=x onerror=\"document.title='injected'\">"
FIGURES = ("figure-1a", "figure-1b", "figure-1c")
LOADS = (0.1, 0.5, 0.8, 0.95, 1.1)
POINTS = ".mark-symbol.role-mark path"
SCREENSHOTS = os.environ.get("CREEK_SCREENSHOTS")
"""Directory for pictures in the README, set by `make screenshots`."""
SCREENSHOT_REPORT = os.environ.get("CREEK_REPORT")
"""Page on these pictures, instead of the synthetic one."""

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = [
        Experiment(scheme=scheme, load_tps=peak * load, seed=seed, warehouses=warehouses)
        for scheme, peak in PEAKS_TPS.items()
        for load in LOADS
        for seed in (0, 1)
        for warehouses in (5, 20)
    ]
    faults = tuple(PARTITION_FAULTS.split("; "))
    chosen.append(Experiment(load_tps=9_000.0, faults=faults, duration_us=5_000_000))
    tables = report_tables(chosen)
    for row in tables.verdicts:
        row.update(verdict="illegal", detail=HOSTILE)
    out = write_tables(tables, tmp_path_factory.mktemp("out"))
    return write_report(Location.parse(out)).page.local_path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


class Reader:
    """Open page, with its console messages and network requests."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.messages: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=60_000)

    def chart(self, key: str) -> Locator:
        return self.page.locator(f"#chart-{key}")

    def marks(self, key: str, selector: str) -> list[dict[str, Any]]:
        """Return position on the page, size and colours of drawn marks."""
        marks: list[dict[str, Any]] = self.page.eval_on_selector_all(
            f"#chart-{key} svg {selector}",
            """marks => marks.map(mark => {
                const box = mark.getBoundingClientRect();
                const { stroke, fill } = getComputedStyle(mark);
                const [x, y, width, height] =
                    [box.x + scrollX, box.y + scrollY, box.width, box.height].map(Math.round);
                return { x, y, width, height, stroke, fill };
            })""",
        )
        return marks


@pytest.fixture
def reader(browser: Browser, report: Path) -> Iterator[Reader]:
    yield from open_report(browser, report, 1280, 900, "light")


@pytest.fixture(scope="module")
def shared_reader(browser: Browser, report: Path) -> Iterator[Reader]:
    """Reader for tests that do not change the page."""
    yield from open_report(browser, report, 1280, 900, "light")


@pytest.fixture
def phone(browser: Browser, report: Path) -> Iterator[Reader]:
    yield from open_report(browser, report, 390, 844, "light")


def open_report(
    browser: Browser, report: Path, width: int, height: int, colours: Literal["light", "dark"]
) -> Iterator[Reader]:
    with browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=colours
    ) as context:
        reader = Reader(context.new_page(), report.as_uri())
        yield reader
        assert reader.messages == []
        assert reader.requests == [report.as_uri()]


def wait_for_redraw(reader: Reader) -> None:
    """Wait until a chart has been redrawn."""
    reader.page.evaluate("() => new Promise(done => setTimeout(done, 200))")


@pytest.mark.parametrize("key", FIGURES)
def test_every_figure_has_lines_and_points_of_each_system(shared_reader: Reader, key: str) -> None:
    lines = shared_reader.marks(key, ".mark-line.role-mark path")
    points = shared_reader.marks(key, POINTS)

    shown = shared_reader.page.locator(f"#{key} .line[aria-pressed=true]").count()
    assert len(lines) >= shown
    assert len(points) >= shown * len(LOADS)
    assert all(line["width"] > 50 for line in lines)
    systems = 3 if key == "figure-1b" else 4
    assert len({line["stroke"] for line in lines}) == systems
    positions = [point["x"] for point in points]
    assert max(positions) - min(positions) > 600


def test_small_charts_and_timelines_are_drawn(shared_reader: Reader) -> None:
    keys: list[str] = shared_reader.page.eval_on_selector_all(
        ".chart", "places => places.map(place => place.dataset.chart)"
    )

    assert len([key for key in keys if key.startswith("warehouses-")]) == 4
    assert len([key for key in keys if key.startswith("timeline-")]) == 2
    for key in set(keys) - set(FIGURES):
        lines = shared_reader.marks(key, ".mark-line.role-mark path")
        assert any(line["width"] > 40 for line in lines)


def test_a_tooltip_shows_value_and_interval(reader: Reader) -> None:
    tooltip = reader.page.locator("#tooltip")
    assert not tooltip.is_visible()

    reader.chart("figure-1a").scroll_into_view_if_needed()
    point = reader.marks("figure-1a", POINTS)[0]
    scrolled = reader.page.evaluate("scrollY")
    reader.page.mouse.move(point["x"] + 3, point["y"] - scrolled + 3)
    tooltip.wait_for(state="visible")

    text = tooltip.inner_text()
    assert "ms" in text
    assert "95\u00a0%" in text or "95 %" in text
    assert "2 seeds" in text
    assert "throughput" in text


def test_the_first_figure_fills_the_width_of_the_screen(browser: Browser, report: Path) -> None:
    page = Path(SCREENSHOT_REPORT).resolve() if SCREENSHOT_REPORT else report
    for reader in open_report(browser, page, 1280, 900, "light"):
        box = reader.chart("figure-1a").bounding_box()
        assert box is not None
        assert 600 <= box["width"] <= 1280
        assert 300 <= box["height"] <= 900
        if SCREENSHOTS and SCREENSHOT_REPORT:
            reader.page.set_viewport_size({"width": 1280, "height": 1680})
            reader.page.screenshot(path=Path(SCREENSHOTS, "report.png"), animations="disabled")


def test_the_legend_switches_a_line_off_and_on(reader: Reader) -> None:
    button = reader.page.locator("#figure-1a .line", has_text="Creek, strong stable")
    before = len(reader.marks("figure-1a", POINTS))

    button.press("Enter")
    wait_for_redraw(reader)
    assert button.get_attribute("aria-pressed") == "false"
    assert len(reader.marks("figure-1a", POINTS)) == before - len(LOADS)

    button.click()
    wait_for_redraw(reader)
    assert len(reader.marks("figure-1a", POINTS)) == before


def test_the_legend_of_the_variations_applies_to_all_of_them(reader: Reader) -> None:
    before = len(reader.marks("warehouses-peak", POINTS))

    reader.page.locator("#variations .line", has_text="Archie").click()
    wait_for_redraw(reader)

    assert len(reader.marks("warehouses-peak", POINTS)) < before


def test_the_statistic_can_be_selected(reader: Reader) -> None:
    labels = "#chart-figure-1a .role-axis-label text"
    before = reader.page.locator(labels).all_text_contents()

    reader.page.locator("#figure-1a label", has_text="p99").click()
    wait_for_redraw(reader)

    assert reader.page.locator(labels).all_text_contents() != before


def test_the_scale_of_the_throughput_axis_can_be_selected(reader: Reader) -> None:
    labels = "#chart-figure-1a .role-axis-label text"
    before = reader.page.locator(labels).all_text_contents()

    reader.page.locator("#figure-1a label", has_text="linear").click()
    wait_for_redraw(reader)

    after = reader.page.locator(labels).all_text_contents()
    assert "0" in after
    assert "0" not in before


def test_dragging_zooms_in_and_a_double_click_resets_the_zoom(reader: Reader) -> None:
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
    wait_for_redraw(reader)
    assert reader.marks("figure-1b", POINTS) != before

    chart.dblclick(position={"x": 300, "y": 100})
    reader.page.mouse.move(0, 0)
    wait_for_redraw(reader)
    assert reader.marks("figure-1b", POINTS) == before


def test_buttons_zoom_and_reset_the_zoom(reader: Reader) -> None:
    before = reader.marks("figure-1a", POINTS)

    reader.page.get_by_label("Zoom in").first.click()
    wait_for_redraw(reader)
    closer = reader.marks("figure-1a", POINTS)
    reader.page.get_by_label("Show the whole figure").first.click()
    wait_for_redraw(reader)

    assert closer != before
    assert reader.marks("figure-1a", POINTS) == before


def test_the_theme_switch_changes_all_colours(reader: Reader) -> None:
    page = reader.page
    background = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(background), reader.marks("figure-1a", POINTS)[0]["stroke"]

    page.get_by_label("Switch to dark").click()
    after = page.evaluate(background), reader.marks("figure-1a", POINTS)[0]["stroke"]

    assert before[0] != after[0]
    assert before[1] != after[1]
    assert page.get_by_label("Switch to light").is_visible()


def test_a_preference_for_dark_applies_to_the_screen_but_not_to_print(
    browser: Browser, report: Path
) -> None:
    for reader in open_report(browser, report, 1280, 900, "dark"):
        background = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(21, 24, 27)"
        reader.page.emulate_media(media="print")
        background = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(252, 251, 248)"


def test_the_page_fits_the_width_of_a_phone(phone: Reader) -> None:
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
    assert page.locator("#filtered").inner_text() == f"{rows.count()} shown"


def test_hostile_text_executes_no_script(shared_reader: Reader) -> None:
    assert shared_reader.page.title() == "Creek: measurements"
    assert shared_reader.page.locator("img").count() == 0
    assert shared_reader.page.get_by_text(HOSTILE).count() > 0


def test_every_control_and_chart_has_an_accessible_name(shared_reader: Reader) -> None:
    nameless = shared_reader.page.eval_on_selector_all(
        "button, a, input, summary",
        """elements => elements.filter(element => {
            const label = element.getAttribute("aria-label") || element.textContent
                || element.labels?.[0]?.textContent || "";
            return !label.trim();
        }).length""",
    )

    assert nameless == 0
    described = shared_reader.page.locator(".chart[role=graphics-document][aria-label]")
    assert described.count() == shared_reader.page.locator(".chart").count()
