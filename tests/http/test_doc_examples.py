"""Examples and lists of the pages on HTTP and metrics match the source, except for ports."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from creekdb.wire.event_log import EventName
from creekdb.wire.reject_reason import REJECT_RULES
from tests.http.http_cluster import http_cluster

ROOT = Path(__file__).parents[2]
HTTP = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
NUMBERS = re.compile(r'(?<="call":"0\.)-?\d+|(?<="at":)\d+|(?<="oldest":)\d+|(?<="newest":)\d+')
"""Numbers that depend on the count of no-ops, and thus on time."""


def documented_commands() -> list[tuple[str, str]]:
    """Return the commands of the page, each with its documented output."""
    blocks = re.findall(r"```console\n(.*?)```", HTTP, re.DOTALL)
    return [
        (command, output)
        for block in blocks
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl")
async def test_documented_commands_produce_the_documented_output(tmp_path: Path) -> None:
    assert len(documented_commands()) > 10
    async with http_cluster(tmp_path) as http:
        address = http.url("").removeprefix("http://")
        for command, expected in documented_commands():
            process = await asyncio.create_subprocess_exec(
                *("bash", "-c", command.replace("127.0.0.1:7300", address)),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            assert NUMBERS.sub("N", output.decode()) == NUMBERS.sub("N", expected), command
            if "/state" not in command and "operations" in command:
                await http.cluster.until_quiescent()


def test_the_documentation_lists_all_problems() -> None:
    listed = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.*) \|$", HTTP, re.MULTILINE)
    assert listed == [
        (str(rule.http_status), reason, rule.text)
        for reason, rule in REJECT_RULES.items()
        if rule.http_status is not None
    ]


async def test_the_documentation_lists_all_metrics(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, keep_changes="1h") as http:
        response_body = (await http.get("/metrics")).body
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \| ", METRICS, re.MULTILINE)
    exported = [
        (family.name + "_total" * (family.type == "counter"), family.type)
        for family in text_string_to_metric_families(response_body)
    ]
    assert listed == exported


def test_the_documentation_lists_all_events() -> None:
    table = METRICS.partition("| event |")[2]
    assert set(re.findall(r"`([a-z]+\.[a-z]+)`", table)) == {*EventName}


def test_the_sources_emit_all_events() -> None:
    sources = "".join(
        source.read_text(encoding="utf-8") for source in (ROOT / "src" / "creekdb").rglob("*.py")
    )
    assert set(re.findall(r"EventName\.([A-Z_]+),", sources)) == {*EventName.__members__}
