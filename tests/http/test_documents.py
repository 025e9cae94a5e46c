"""What the pages on HTTP, metrics and the log say is so. Only ports and numbers are others."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from creekdb.http.responses import PROBLEM_KINDS
from creekdb.wire import event_log
from tests.http.served import run, served

ROOT = Path(__file__).parents[2]
HTTP = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
NUMBERS = re.compile(r'(?<="call":"0\.)-?\d+|(?<="at":)\d+|(?<="oldest":)\d+|(?<="newest":)\d+')
"""How many no-ops were needed meanwhile depends on the time."""


def shown() -> list[tuple[str, str]]:
    """Commands, each with what is shown to come out of it."""
    blocks = re.findall(r"```console\n(.*?)```", HTTP, re.DOTALL)
    return [
        (command, output)
        for block in blocks
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl")
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            here = http.url("").removeprefix("http://")
            for command, expected in shown():
                process = await asyncio.create_subprocess_exec(
                    *("bash", "-c", command.replace("127.0.0.1:7300", here)),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                )
                output, _ = await process.communicate()
                assert NUMBERS.sub("N", output.decode()) == NUMBERS.sub("N", expected), command
                if "/state" not in command and "operations" in command:
                    await http.cluster.until_settled()

    assert len(shown()) > 10
    run(story())


def test_all_problems_are_listed() -> None:
    listed = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.*) \|$", HTTP, re.MULTILINE)
    assert listed == [(str(kind.status), name, kind.title) for name, kind in PROBLEM_KINDS.items()]


def test_all_metrics_are_listed(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path) as http:
            told = (await http.get("/metrics")).body
        listed = re.findall(r"^\| `(\w+)` \| (\w+) \| ", METRICS, re.MULTILINE)
        found = [
            (family.name + "_total" * (family.type == "counter"), family.type)
            for family in text_string_to_metric_families(told)
        ]
        assert listed == found

    run(story())


def test_all_events_are_listed() -> None:
    rooms = (ROOT / "src" / "creekdb" / room for room in ("cluster", "gateway", "cli"))
    sources = [source for room in rooms for source in room.glob("*.py")]
    event = re.compile(r"(?:events|_log)\.(?:info|warning|error)\(\s*(?:\"([a-z.]+)\"|([A-Z_]+))")
    found = [pair for source in sources for pair in event.findall(source.read_text("utf-8"))]
    named = {name or getattr(event_log, constant) for name, constant in found}
    table = METRICS.partition("| event |")[2]
    assert named == set(re.findall(r"`([a-z]+\.[a-z]+)`", table))
