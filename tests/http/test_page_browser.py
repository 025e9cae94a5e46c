"""Page in a real browser on a cluster of real processes, with faults and their healing."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from creekdb import connect
from creekdb.load.local_cluster import HTTP_PORT_OFFSET, free_port
from tests.cluster.creek_up import creek_up
from tests.cluster.ports import free_ports
from tests.pipeline.browser import browsing

EXPECT_TIMEOUT_MS = 30_000
NUMBERS_INTERVAL_MS = 1_500
"""Time until the latencies and rates of the page include the latest calls."""
PHONE: ViewportSize = {"width": 390, "height": 844}
CONNECTED_HEADLINE = re.compile("Three replicas, one order")
SCREENSHOT_DIR = os.environ.get("CREEK_SCREENSHOTS")
"""Directory for the pictures of the README, set by `make screenshots`."""
RECORD_LAYOUT_SHIFTS = """
window.shifted = [];
new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) shifted.push(entry.value);
}).observe({ type: "layout-shift", buffered: true });
"""

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module", autouse=True)
def _long_timeouts() -> Iterator[None]:
    expect.set_options(timeout=EXPECT_TIMEOUT_MS)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as instance:
        yield instance


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """URL of the page of replica 0."""
    port = free_ports()
    with creek_up("--port", str(port)) as running:
        for replica in range(3):
            running.wait_for(f"replica {replica} is up at 127.0.0.1:{port + replica}")
        yield f"http://127.0.0.1:{port + HTTP_PORT_OFFSET}/"
        assert running.stop() == 0


class Visitor:
    """User of the page, with the JavaScript errors that occurred."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.add_init_script(RECORD_LAYOUT_SHIFTS)
        page.goto(address)
        expect(page.locator("#headline")).to_have_text(CONNECTED_HEADLINE)

    def column(self, replica: int) -> Locator:
        return self.page.locator(f".column[data-replica='{replica}']")

    def entries(self, replica: int, kind: str = "") -> Locator:
        """Return the operations of clients, newest first."""
        return self.column(replica).locator(f".list li{kind}[data-id]:not(.own) .says")

    def committed(self, replica: int, text: str) -> Locator:
        return self.column(replica).locator("li[data-id]:not(.tentative)", has_text=text)

    def call(self, operation: str, at: int, strong: bool = False, **arguments: str) -> None:
        page = self.page
        page.select_option("#operation", operation)
        for name, value in arguments.items():
            page.fill(f"#arguments [name='{name}']", value)
        page.check(f"[name=at][value='{at}']", force=True)
        page.check(f"[name=strong][value='{'1' if strong else ''}']", force=True)
        page.click("#call [type=submit]")
        expect(page.locator("#results div").first).to_contain_text(f"Replica {at}, {operation}:")

    def press(self, replica: int, action: str) -> None:
        self.column(replica).get_by_role("button", name=f"{action} replica {replica}").click()

    def screenshot(self, name: str) -> None:
        if SCREENSHOT_DIR:
            self.page.wait_for_timeout(NUMBERS_INTERVAL_MS)
            self.page.mouse.move(0, 0)
            self.page.evaluate("() => scrollTo(0, 0)")
            self.page.screenshot(path=Path(SCREENSHOT_DIR, name), animations="disabled")


@contextmanager
def replica_with_tokens(directory: Path) -> Iterator[str]:
    """Run a replica with `creek serve`, and yield the URL of its page."""
    config, port = directory / "replica.toml", free_port()
    config.write_text(
        f"""
        data = "{directory / "data"}"
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


def visit(browser: Browser, address: str, width: int, height: int, dark: bool) -> Visitor:
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    return Visitor(context.new_page(), address)


def test_the_page_shows_a_partition_and_its_healing(browser: Browser, cluster: str) -> None:
    visitor = visit(browser, cluster, 1280, 1360, dark=False)
    page = visitor.page
    visitor.call("put", 0, key="lamp", value="1")
    visitor.call("increment", 1, key="visits")
    for replica in range(3):
        expect(visitor.committed(replica, "put('lamp', 1)")).to_be_visible()
        expect(visitor.committed(replica, "increment('visits')")).to_be_visible()

    visitor.press(0, "isolate")
    expect(page.locator("#headline")).to_have_text(
        "The network is partitioned into two parts: 1, 2 | 0."
    )
    visitor.call("put", 1, key="lamp", value="5")
    expect(visitor.committed(2, "put('lamp', 5)")).to_be_visible()  # the majority continues
    visitor.call("put", 0, key="lamp", value="7")
    visitor.call("increment", 0, key="visits", strong=True)
    expect(page.locator("#history")).to_contain_text("waits for a majority")
    expect(page.locator("#history dd")).to_have_text(["tentative", *["not received"] * 2])
    expect(visitor.entries(0, ".tentative")).to_have_text(["increment('visits')", "put('lamp', 7)"])
    for replica in (1, 2):
        expect(visitor.entries(replica).first).to_have_text("put('lamp', 5)")
        expect(visitor.entries(replica, ".tentative")).to_have_count(0)
    steps = page.locator("#steps li.done")
    expect(steps).to_have_count(3)
    visitor.screenshot("page-partitioned.png")

    page.get_by_role("button", name="Heal all links").click()
    expect(page.locator("#headline")).to_have_text(CONNECTED_HEADLINE)
    merged = [
        "increment('visits')",
        "put('lamp', 7)",
        "put('lamp', 5)",
        "increment('visits')",
        "put('lamp', 1)",
    ]
    for replica in range(3):
        expect(visitor.entries(replica, ":not(.tentative)")).to_have_text(merged)
    expect(page.locator("#history")).to_contain_text("stable response")
    expect(page.locator("#results div")).to_have_text(
        [
            "Replica 0, increment: 2, tentative; 2, stable",
            "Replica 0, put: 1, tentative; finally 5: an apology is due",
            "Replica 1, put: 1, tentative; final",
            "Replica 1, increment: 1, tentative; final",
            "Replica 0, put: None, tentative; final",
        ]
    )
    expect(steps).to_have_count(4)

    # The tentative response of the put of 7 was 1, and its final response is 5.
    visitor.column(2).get_by_role("button", name=re.compile(r"^put\('lamp', 7\)")).click()
    expect(page.locator("#history .sorry")).to_have_text(re.compile("an apology is due"))
    expect(page.locator("#history dd")).to_have_text([re.compile("committed, position")] * 3)
    expect(page.locator("#table tbody tr").first).to_contain_text("127.0.0.1")
    expect(page.locator(".chart > svg")).to_have_count(3)
    expect(page.locator("#events")).to_contain_text(re.compile("a .*0–1 cut, 0–2 cut"))
    expect(page.locator("#events")).to_contain_text("0–1 healed")
    expect(page.locator(".chart .sign", has_text="a")).to_have_count(3)
    expect(page).to_have_title("Three replicas, one order · Creek")
    assert visitor.errors == []
    assert sum(page.evaluate("() => shifted")) < 0.1  # the layout is stable
    page.context.close()


def test_the_demo_ends_in_an_apology_that_can_be_opened(browser: Browser, cluster: str) -> None:
    visitor = visit(browser, cluster, 1280, 1500, dark=False)
    page = visitor.page
    page.locator("#demo").click()
    sorry = page.locator("#story p", has_text="Dear Ann, we are sorry")
    expect(sorry).to_be_visible()
    expect(page.locator("#headline")).to_have_text(CONNECTED_HEADLINE)
    changed = page.locator("#results div", has_text="finally False: an apology is due")
    expect(changed).to_contain_text("Replica 0, put_if_absent: True, tentative")
    expect(page.locator("#history h3")).to_contain_text("'ann'")
    expect(page.locator("#history .sorry")).to_be_visible()
    visitor.screenshot("page-apology.png")

    page.locator("#history .back").click()
    page.locator("#apologies").click()
    page.locator("#history .apologies button", has_text="'ann'").first.click()
    expect(page.locator("#history .track .sorry")).to_have_text(re.compile("an apology is due"))
    assert visitor.errors == []
    page.context.close()


def test_failures_look_like_failures(browser: Browser, cluster: str) -> None:
    visitor = visit(browser, cluster, 1280, 1360, dark=False)
    visitor.call("put", 0, key="word", value="text")
    visitor.call("increment", 1, key="word")
    expect(visitor.page.locator("#results .bad").first).to_contain_text("✗ BadValue")
    row = visitor.column(1).locator("li.raised", has_text="increment('word')")
    expect(row.locator(".raised")).to_contain_text("✗ BadValue")
    expect(visitor.page.locator("#history code.raised").first).to_contain_text("✗ BadValue")
    visitor.page.context.close()


ROUND_TRIP = """
async (text) => {
    const { formatJson, parseJson } = await import("/page/text.js");
    return formatJson(parseJson(text));
}
"""


def test_large_integers_keep_their_digits(browser: Browser, cluster: str) -> None:
    visitor = visit(browser, cluster, 1280, 1360, dark=False)
    large = str(2**53 + 1)
    text = f'[{large},-{large},{2**53 - 1},0.1234567890123456,{{"a":"{large}"}},null,1e+300]'
    assert visitor.page.evaluate(ROUND_TRIP, text) == text
    visitor.call("put", 0, key="large", value=f"[{large}]", strong=True)
    expect(visitor.committed(0, f"put('large', ({large},))")).to_be_visible()
    visitor.call("get", 0, key="large")
    expect(visitor.page.locator("#results div").first).to_contain_text(f"get: [{large}], tentative")
    assert visitor.errors == []
    visitor.page.context.close()


def test_replicas_are_split_into_groups_in_one_gesture(browser: Browser, cluster: str) -> None:
    visitor = visit(browser, cluster, 1280, 1360, dark=False)
    page = visitor.page
    split = page.get_by_label("split the replicas")
    expect(split.locator("option")).to_have_text(["not split", "0 | 1, 2", "0, 1 | 2", "0, 2 | 1"])
    for choice, parts in (("0, 2 | 1", "0, 2 | 1"), ("0, 1 | 2", "0, 1 | 2")):
        split.select_option(label=choice)
        expect(page.locator("#headline")).to_have_text(
            f"The network is partitioned into two parts: {parts}."
        )
    split.select_option(label="not split")
    expect(page.locator("#headline")).to_have_text(CONNECTED_HEADLINE)
    page.context.close()


def test_calls_before_the_first_page_show_their_responses(browser: Browser) -> None:
    port = free_ports()
    with creek_up("--port", str(port), "--replicas", "1") as running:
        running.wait_for(f"replica 0 is up at 127.0.0.1:{port}")
        with connect(f"127.0.0.1:{port}") as db:
            assert db.weak.increment("early") == 1
        with browser.new_context() as context:
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{port + HTTP_PORT_OFFSET}/")
            row = page.locator("li[data-id]", has_text="increment('early')")
            expect(row.locator(".value")).to_have_text("→ 1")


def test_a_killed_replica_stays_down_until_it_is_started(browser: Browser, cluster: str) -> None:
    visitor = visit(browser, cluster, 1280, 1360, dark=True)
    role = visitor.column(2).locator(".role")
    visitor.press(2, "kill")
    expect(visitor.page.locator("#headline")).to_have_text("Replica 2 is unreachable.")
    expect(role).to_have_text("unreachable")
    visitor.call("put", 1, key="while it was down", value="1", strong=True)
    visitor.press(2, "start")
    expect(visitor.page.locator("#headline")).to_have_text(CONNECTED_HEADLINE)
    expect(visitor.committed(2, "while it was down")).to_be_visible()
    visitor.screenshot("page-dark.png")
    assert visitor.errors == []
    visitor.page.context.close()


DRAW_GAPS = """
async () => {
    const { Column } = await import("/page/lists.js");
    const { drawOperation } = await import("/page/operation.js");
    const entry = (place) => ({
        id: `0.${place + 1}`, says: `put(${place + 1})`, strong: true, own: false, runs: 1, place,
        responses: [{ kind: "tentative", ms: 1, says: "None", changed: false }],
    });
    const now = { committed_length: 1200, tentative_length: 0, tentative: [],
        committed: [7, 8, 999].map(entry) };
    const at = { live: true, now };
    const cluster = { members: [0], histories: new Map([["0.3", entry(2)]]), at: () => at,
        role: () => "leader" };
    const column = new Column(0, [], () => {});
    column.draw(cluster, null);
    const panel = document.createElement("aside");
    drawOperation(panel, cluster, "0.3");
    return [[...column.list.children].map((row) => row.textContent), panel.textContent];
}
"""


def test_omitted_operations_are_counted(browser: Browser, cluster: str) -> None:
    """A replica that commits many operations between two updates leaves a gap in the list."""
    visitor = visit(browser, cluster, 1280, 900, dark=False)
    rows, panel = visitor.page.evaluate(DRAW_GAPS)
    assert rows == [
        "committed",
        "200 more, not shown",
        "0put(1000)#1000",
        "990 more, not shown",
        "0put(9)#9",
        "0put(8)#8",
        "7 earlier operations",
    ]
    assert "No further responses are shown" in panel
    assert "waits for a majority" not in panel
    visitor.page.context.close()


def test_the_page_fits_a_phone_and_supports_the_keyboard(browser: Browser, cluster: str) -> None:
    visitor = visit(browser, cluster, 390, 844, dark=False)
    page = visitor.page
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    link = page.locator("[data-link='1-2']")
    link.focus()
    page.keyboard.press("Enter")
    expect(link).to_have_attribute("aria-label", "Heal the link between 1 and 2")
    expect(page.locator("#headline")).to_have_text(re.compile("One link down"))
    expect(visitor.column(1).locator(".role")).not_to_have_text("isolated")
    page.keyboard.press(" ")
    expect(page.locator("#headline")).to_have_text(CONNECTED_HEADLINE)
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert visitor.errors == []
    page.context.close()


def test_the_page_asks_for_a_token_and_hides_fault_control(
    browser: Browser, tmp_path: Path
) -> None:
    with replica_with_tokens(tmp_path) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        token_field = page.get_by_label("This cluster requires a token.")
        token_field.fill("guess")
        page.keyboard.press("Enter")
        expect(page.locator("#headline")).to_have_text("Connecting to the replicas …")
        token_field = page.get_by_label("The cluster rejected this token; try another.")
        token_field.fill("s3cret")
        page.keyboard.press("Enter")
        expect(page.locator("#headline")).to_have_text("One replica, one order.")
        expect(token_field).not_to_be_visible()
        expect(page.locator("#table tbody tr")).to_have_count(1)
        expect(page.locator("#playground, .actions")).to_have_count(2)
        expect(page.locator("#playground")).not_to_be_visible()
        expect(page.locator(".actions")).not_to_be_visible()


def test_the_documented_commands_call_the_operations(browser: Browser, tmp_path: Path) -> None:
    with replica_with_tokens(tmp_path) as address, browser.new_context(viewport=PHONE) as context:
        page = context.new_page()
        page.goto(f"{address}docs")
        page.get_by_label("This cluster requires a token.").fill("s3cret")
        page.get_by_role("button", name="Show").click()
        put = page.locator("article", has=page.get_by_role("heading", name="put", exact=True))
        expect(put.locator("td code")).to_have_text(["key", "value"])
        commands = put.locator("pre")
        expect(commands).to_have_count(2)
        for command, kind in zip(commands.all_inner_texts(), ("tentative", "stable"), strict=True):
            output = subprocess.run(
                ["sh", "-c", command],
                env={**os.environ, "CREEK_TOKEN": "s3cret"},
                capture_output=True,
                check=True,
            ).stdout
            assert json.loads(output)["kind"] == kind
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        expect(page.get_by_role("heading", name="GET /state")).to_be_visible()


class EmptyPageHandler(BaseHTTPRequestHandler):
    """Serves an empty page for every path."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None: ...


@pytest.fixture
def other_port() -> Iterator[int]:
    """Port of a site that does not belong to the cluster."""
    with ThreadingHTTPServer(("127.0.0.1", 0), EmptyPageHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


OPEN_STREAMS = """
async (stream) => {
    const ended = (name, end) => Promise.race([
        end.then(() => `${name} ended`),
        new Promise(resolve => setTimeout(resolve, 5000, `${name} is open`)),
    ]);
    const image = new Image();
    const shown = new Promise(resolve => { image.onload = image.onerror = resolve; });
    image.src = stream;
    const script = document.createElement("script");
    const run = new Promise(resolve => { script.onload = script.onerror = resolve; });
    script.src = stream;
    document.head.append(script);
    const frame = document.createElement("iframe");
    const framed = new Promise(resolve => { frame.onload = resolve; });
    frame.src = stream;
    document.body.append(frame);
    const read = fetch(stream).then(answer => answer.text(), () => "rejected");
    const unread = fetch(stream, { mode: "no-cors" }).then(answer => answer.text());
    return Promise.all([
        ended("image", shown), ended("script", run), ended("iframe", framed),
        ended("fetch", read), ended("no-cors fetch", unread),
    ]);
}
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_site_opens_no_stream(
    browser: Browser, cluster: str, other_port: int, host: str
) -> None:
    """`localhost` is another site than 127.0.0.1; another port is the same site."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"http://{host}:{other_port}/")
        names = ("image", "script", "iframe", "fetch", "no-cors fetch")
        opened = page.evaluate(OPEN_STREAMS, f"{cluster}watch")
        assert opened == [f"{name} ended" for name in names]
        page.evaluate("address => { location.href = address; }", cluster)  # like a link
        expect(page.locator("#headline")).to_have_text(CONNECTED_HEADLINE)
