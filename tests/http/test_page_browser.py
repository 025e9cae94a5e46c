"""The page in a real browser, before a cluster of real processes: people break it there, see what
becomes of it, and heal it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from creekdb.load.local_cluster import HTTP_PORT_OFFSET, free_port
from tests.cluster.ports import free_ports
from tests.cluster.up import up
from tests.pipeline.browser import browsing

PATIENCE_MS = 30_000
PHONE: ViewportSize = {"width": 390, "height": 844}
WHOLE = re.compile("Three replicas, one order")
PICTURES = os.environ.get("CREEK_SCREENSHOTS")
"""Where pictures for the README go: `make screenshots`."""
SHIFTS = """
window.shifted = [];
new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) shifted.push(entry.value);
}).observe({ type: "layout-shift", buffered: true });
"""

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module", autouse=True)
def _patient() -> Iterator[None]:
    expect.set_options(timeout=PATIENCE_MS)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The page of replica 0."""
    port = free_ports()
    with up("--port", str(port)) as running:
        for replica in range(3):
            running.until(f"replica {replica} is up at 127.0.0.1:{port + replica}")
        yield f"http://127.0.0.1:{port + HTTP_PORT_OFFSET}/"
        assert running.stop() == 0


class Visitor:
    """Somebody who looks at the page, and the mistakes that it makes meanwhile."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.mistakes: list[str] = []
        page.on("pageerror", lambda error: self.mistakes.append(str(error)))
        page.add_init_script(SHIFTS)
        page.goto(address)
        expect(page.locator("#headline")).to_have_text(WHOLE)

    def column(self, replica: int) -> Locator:
        return self.page.locator(f".column[data-replica='{replica}']")

    def entries(self, replica: int, kind: str = "") -> Locator:
        """Of clients, newest first."""
        return self.column(replica).locator(f".list li{kind}[data-id]:not(.own) .says")

    def committed(self, replica: int, says: str) -> Locator:
        return self.column(replica).locator("li[data-id]:not(.tentative)", has_text=says)

    def call(self, operation: str, at: int, strong: bool = False, **arguments: str) -> None:
        page = self.page
        page.select_option("#operation", operation)
        for name, value in arguments.items():
            page.fill(f"#arguments [name='{name}']", value)
        page.check(f"[name=at][value='{at}']", force=True)
        page.check(f"[name=strong][value='{'1' if strong else ''}']", force=True)
        page.click("#call [type=submit]")
        expect(page.locator("#said div").first).to_contain_text(f"Replica {at}, {operation}:")

    def press(self, replica: int, act: str) -> None:
        self.column(replica).get_by_role("button", name=f"{act} replica {replica}").click()

    def picture(self, name: str) -> None:
        if PICTURES:
            self.page.mouse.move(0, 0)
            self.page.evaluate("() => scrollTo(0, 0)")
            self.page.screenshot(path=Path(PICTURES, name), animations="disabled")


@contextmanager
def with_tokens(folder: Path) -> Iterator[str]:
    """The page of a replica as `creek serve` runs it."""
    config, port = folder / "replica.toml", free_port()
    config.write_text(
        f"""
        data = "{folder / "data"}"
        http = "127.0.0.1:{port}"
        members = {{ 0 = "127.0.0.1:{free_port()}" }}
        security.tokens.till = "s3cret"
        """
    )
    command = [sys.executable, "-m", "creekdb", "serve", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(b"replica 0 of creek")
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


def visiting(browser: Browser, address: str, width: int, height: int, dark: bool) -> Visitor:
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    return Visitor(context.new_page(), address)


def test_people_cut_a_replica_off_see_the_lists_differ_and_heal_them(
    browser: Browser, cluster: str
) -> None:
    visitor = visiting(browser, cluster, 1280, 1360, dark=False)
    page = visitor.page
    visitor.call("put", 0, key="lamp", value="1")
    visitor.call("increment", 1, key="visits")
    for replica in range(3):
        expect(visitor.committed(replica, "put('lamp', 1)")).to_be_visible()
        expect(visitor.committed(replica, "increment('visits')")).to_be_visible()

    visitor.press(0, "isolate")
    expect(page.locator("#headline")).to_have_text("The network is in two parts: 1, 2 | 0.")
    visitor.call("put", 1, key="lamp", value="5")
    expect(visitor.committed(2, "put('lamp', 5)")).to_be_visible()  # a majority goes on
    visitor.call("put", 0, key="lamp", value="7")
    visitor.call("increment", 0, key="visits", strong=True)
    expect(page.locator("#life")).to_contain_text("waits for a majority")
    expect(page.locator("#life dd")).to_have_text(["tentative", *["has not heard of it"] * 2])
    expect(visitor.entries(0, ".tentative")).to_have_text(["increment('visits')", "put('lamp', 7)"])
    for replica in (1, 2):
        expect(visitor.entries(replica).first).to_have_text("put('lamp', 5)")
        expect(visitor.entries(replica, ".tentative")).to_have_count(0)
    steps = page.locator("#steps li.done")
    expect(steps).to_have_count(3)
    visitor.picture("page-parted.png")

    page.get_by_role("button", name="Heal all links").click()
    expect(page.locator("#headline")).to_have_text(WHOLE)
    merged = [
        "increment('visits')",
        "put('lamp', 7)",
        "put('lamp', 5)",
        "increment('visits')",
        "put('lamp', 1)",
    ]
    for replica in range(3):
        expect(visitor.entries(replica, ":not(.tentative)")).to_have_text(merged)
    expect(page.locator("#life")).to_contain_text("stable answer")
    expect(page.locator("#said div")).to_have_text(
        [
            "Replica 0, increment: 2, tentative; 2, stable",
            "Replica 0, put: 1, tentative; finally 5: an apology is due",
            "Replica 1, put: 1, tentative; final",
            "Replica 1, increment: 1, tentative; final",
            "Replica 0, put: None, tentative; final",
        ]
    )
    expect(steps).to_have_count(4)

    # Who put 7 was told that 1 had been there. It was 5, and so it came out.
    visitor.column(2).get_by_role("button", name=re.compile(r"^put\('lamp', 7\)")).click()
    expect(page.locator("#life .sorry")).to_have_text(re.compile("an apology is due"))
    expect(page.locator("#life dd")).to_have_text([re.compile("committed, place")] * 3)
    expect(page.locator("#table tbody tr").first).to_contain_text("127.0.0.1")
    expect(page.locator(".chart > svg")).to_have_count(3)
    expect(page.locator("#events")).to_contain_text(re.compile("a .*0–1 cut, 0–2 cut"))
    expect(page.locator("#events")).to_contain_text("0–1 healed")
    expect(page.locator(".chart .sign", has_text="a")).to_have_count(3)
    expect(page).to_have_title("Three replicas, one order · Creek")
    assert visitor.mistakes == []
    assert sum(page.evaluate("() => shifted")) < 0.1  # nothing jumps about
    page.context.close()


def test_a_replica_that_is_killed_stays_dead_until_it_is_started(
    browser: Browser, cluster: str
) -> None:
    visitor = visiting(browser, cluster, 1280, 1360, dark=True)
    role = visitor.column(2).locator(".role")
    visitor.press(2, "kill")
    expect(visitor.page.locator("#headline")).to_have_text("Replica 2 does not answer.")
    expect(role).to_have_text("does not answer")
    visitor.call("put", 1, key="while it was away", value="1", strong=True)
    visitor.press(2, "start")
    expect(visitor.page.locator("#headline")).to_have_text(WHOLE)
    expect(visitor.committed(2, "while it was away")).to_be_visible()
    visitor.picture("page-dark.png")
    assert visitor.mistakes == []
    visitor.page.context.close()


OPERATIONS = """
async () => {
    const { Column } = await import("/page/lists.js");
    const { drawLife } = await import("/page/life.js");
    const entry = (place) => ({
        id: `0.${place + 1}`, says: `put(${place + 1})`, strong: true, own: false, runs: 1, place,
        answers: [{ kind: "tentative", ms: 1, says: "None", changed: false }],
    });
    const now = { committed_length: 1200, tentative_length: 0, tentative: [],
        committed: [7, 8, 999].map(entry) };
    const at = { live: true, now };
    const cluster = { members: [0], lives: new Map([["0.3", entry(2)]]), at: () => at,
        role: () => "leads" };
    const column = new Column(0, [], () => {});
    column.draw(cluster, null);
    const life = document.createElement("aside");
    drawLife(life, cluster, "0.3");
    return [[...column.list.children].map((row) => row.textContent), life.textContent];
}
"""


def test_what_was_too_fast_for_it_is_said_and_not_passed_over(
    browser: Browser, cluster: str
) -> None:
    """A replica that sums up what it has committed between two looks leaves a gap."""
    visitor = visiting(browser, cluster, 1280, 900, dark=False)
    rows, life = visitor.page.evaluate(OPERATIONS)
    assert rows == [
        "committed",
        "200 more, too fast to be shown",
        "0put(1000)#1000",
        "990 more, too fast to be shown",
        "0put(9)#9",
        "0put(8)#8",
        "7 earlier ones",
    ]
    assert "What became of it is not shown" in life
    assert "waits for a majority" not in life
    visitor.page.context.close()


def test_it_fits_on_a_phone_and_links_are_cut_with_the_keyboard(
    browser: Browser, cluster: str
) -> None:
    visitor = visiting(browser, cluster, 390, 844, dark=False)
    page = visitor.page
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    link = page.locator("[data-link='1-2']")
    link.focus()
    page.keyboard.press("Enter")
    expect(link).to_have_attribute("aria-label", "Heal the link between 1 and 2")
    expect(page.locator("#headline")).to_have_text(re.compile("One link down"))
    expect(visitor.column(1).locator(".role")).not_to_have_text("alone")
    page.keyboard.press(" ")
    expect(page.locator("#headline")).to_have_text(WHOLE)
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert visitor.mistakes == []
    page.context.close()


def test_where_there_are_tokens_one_is_asked_for_and_nothing_can_be_broken(
    browser: Browser, tmp_path: Path
) -> None:
    with with_tokens(tmp_path) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        asked = page.get_by_label("This cluster asks for a token.")
        asked.fill("guess")
        page.keyboard.press("Enter")
        expect(page.locator("#headline")).to_have_text("Looking for replicas …")
        asked = page.get_by_label("The cluster does not know this token: try another.")
        asked.fill("s3cret")
        page.keyboard.press("Enter")
        expect(page.locator("#headline")).to_have_text("One replica, one order.")
        expect(asked).not_to_be_visible()
        expect(page.locator("#table tbody tr")).to_have_count(1)
        expect(page.locator("#trial, .acts")).to_have_count(2)
        expect(page.locator("#trial")).not_to_be_visible()
        expect(page.locator(".acts")).not_to_be_visible()


def test_operations_are_shown_with_commands_that_call_them(
    browser: Browser, tmp_path: Path
) -> None:
    with with_tokens(tmp_path) as address, browser.new_context(viewport=PHONE) as context:
        page = context.new_page()
        page.goto(f"{address}docs")
        page.get_by_label("This cluster asks for a token.").fill("s3cret")
        page.get_by_role("button", name="Show").click()
        put = page.locator("article", has=page.get_by_role("heading", name="put", exact=True))
        expect(put.locator("td code")).to_have_text(["key", "value"])
        shown = put.locator("pre")
        expect(shown).to_have_count(2)
        for command, kind in zip(shown.all_inner_texts(), ("tentative", "stable"), strict=True):
            told = subprocess.run(
                ["sh", "-c", command],
                env={**os.environ, "CREEK_TOKEN": "s3cret"},
                capture_output=True,
                check=True,
            ).stdout
            assert json.loads(told)["kind"] == kind
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        expect(page.get_by_role("heading", name="GET /state")).to_be_visible()
