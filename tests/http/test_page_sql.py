"""SQL box of the page, in a real browser on a cluster of real processes."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from creekdb.load.local_cluster import HTTP_PORT_OFFSET
from tests.cluster.creek_up import creek_up
from tests.cluster.ports import free_ports
from tests.pipeline.browser import browsing

EXPECT_TIMEOUT_MS = 30_000
SCREENSHOT = os.environ.get("CREEK_SQL_SCREENSHOT")

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_ports()
    with creek_up("--port", str(port), "--datatype", "sql") as running:
        for replica in range(3):
            running.wait_for(f"replica {replica} is up at 127.0.0.1:{port + replica}")
        yield f"http://127.0.0.1:{port + HTTP_PORT_OFFSET}/"
        assert running.stop() == 0


def execute(page: Page, text: str, level: str) -> None:
    page.locator("#sql-text").fill(text)
    page.locator(f"#sql-form input[value={level}]").check()
    page.locator("#sql-form button").click()


def test_statements_are_executed_and_results_drawn(address: str) -> None:
    expect.set_options(timeout=EXPECT_TIMEOUT_MS)
    with browsing() as browser:
        page = browser.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address)
        expect(page.locator("#sql")).to_be_visible()
        execute(
            page,
            "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);\n"
            "INSERT INTO item VALUES (1, 'tea; <b>green</b>'), (2, NULL);",
            "strong",
        )
        expect(page.locator("#sql-state")).to_have_text("stable")
        expect(page.locator("#sql-results")).to_contain_text("2 rows changed")
        execute(page, "SELECT id, name FROM item ORDER BY id", "weak")
        rows = page.locator("#sql-results tbody tr")
        expect(rows).to_have_count(2)
        assert rows.nth(0).locator("td").all_inner_texts() == ["1", "tea; <b>green</b>"]
        assert rows.nth(1).locator("td").all_inner_texts() == ["2", "NULL"]
        expect(page.locator("#sql-state")).to_have_text("tentative")
        if SCREENSHOT is not None:
            page.locator("#sql").screenshot(path=Path(SCREENSHOT))
        execute(page, "SELECT 9007199254740993, -9007199254740993, 9.5, x'00ff'", "weak")
        expect(rows).to_have_count(1)
        cells = rows.nth(0).locator("td")
        assert cells.all_inner_texts() == [
            *("9007199254740993", "-9007199254740993"),
            *("9.5", "x'00ff'"),
        ]
        execute(page, "UPDATE item SET name = 'milk'", "weak")
        expect(page.locator("#sql-state")).to_have_text("stable")
        execute(page, "SELEC 1", "weak")
        expect(page.locator("#sql-results .bad")).to_contain_text('near "SELEC": syntax error')
        assert errors == []
        page.goto(f"{address}docs")
        article = page.locator("article", has=page.get_by_role("heading", name="POST /sql"))
        expect(article.locator("p").first).to_contain_text("Executes the statements")
        command = article.locator("pre").first.inner_text()
        output = subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout
        assert json.loads(output)["value"][0]["rows"] == [[1]]
        page.close()
    expect.set_options(timeout=5_000)
