"""`creek call` without a majority, and calls whose final response differs."""

import asyncio
import json
from pathlib import Path

import pytest

from creekdb.cli import main
from creekdb.cli.options import CommandLimits
from tests.cluster.in_process_cluster import running_cluster


@pytest.mark.parametrize(
    ("call", "stdout", "stderr"),
    [
        ("put a 2 --final", "1  (tentative)\n", "creek: put: no final response within 0.3 s"),
        (
            "put a 2 --strong",
            "",
            "creek: tentative response: 1\ncreek: put: no stable response within 0.3 s",
        ),
        ("put a 2", "1  (tentative), executed put('a', 2)\n", None),
        (
            "increment text 1 --final",
            "raised BadValue: can only add to an int, and 'text' holds a str  (tentative)\n",
            "creek: increment: no final response",
        ),
    ],
)
async def test_the_tentative_response_is_shown_at_the_timeout(
    call: str, stdout: str, stderr: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client(0) as db:
        await db.strong.put("a", 1)
        await db.strong.put("text", "x")
        await cluster.stop(1, 2)
        arguments = ["call", *call.split(), "--at", *cluster.addresses(0), "--timeout", "0.3"]
        code = await asyncio.to_thread(main, arguments)
        assert code == (0 if stderr is None else 1)
    output = capsys.readouterr()
    assert output.out == stdout
    if stderr is None:
        assert not output.err
    else:
        assert output.err.startswith(stderr)
        assert "check with 'creek status' whether a majority is up" in output.err
        retained = "replica 0 retains it until a majority fixes its position"
        assert f"the call is not lost: {retained}" in output.err


async def test_json_marks_tentative_values_and_stderr_reports_the_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = CommandLimits(notice_delay_s=0.1)
    async with running_cluster(tmp_path) as cluster, cluster.client(0) as db:
        await db.strong.put("a", 1)
        await cluster.stop(1, 2)
        arguments = ["call", "put", "a", "2", "--final", "--json", "--timeout", "0.5"]
        arguments += ["--at", *cluster.addresses(0)]
        assert await asyncio.to_thread(main, arguments, limits) == 1
    output = capsys.readouterr()
    assert json.loads(output.out) == {"kind": "tentative", "value": 1}
    notice = "creek: tentative response: 1; waiting up to 0.5 s for the final response"
    assert output.err.splitlines()[0] == notice


async def test_a_success_that_becomes_an_error_needs_an_apology(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client(0) as db:
        links = [pair for other in (0, 1) for pair in ((2, other), (other, 2))]
        restore = [cluster.drop_messages(*link) for link in links]
        await db.strong.put("stock", "none")
        arguments = ["call", "increment", "stock", "--final", "--json"]
        command = asyncio.create_task(
            asyncio.to_thread(main, [*arguments, "--at", *cluster.addresses(2)])
        )
        while not cluster.servers[2].driver.replica.view.tentative_length():
            await asyncio.sleep(0.01)
        for restore_link in reversed(restore):
            restore_link()
        assert await command == 5

        output = capsys.readouterr()
        shown = json.loads(output.out)
        assert (shown["kind"], shown["changed"]) == ("final", True)
        assert "the tentative response was 1, and the final one is the error BadValue" in output.err
        assert "apologise" in output.err

        assert await asyncio.to_thread(main, [*arguments, "--at", *cluster.addresses(2)]) == 1
        output = capsys.readouterr()
        assert not json.loads(output.out)["changed"]
        assert output.err.startswith("creek: the operation raised an error: BadValue")
