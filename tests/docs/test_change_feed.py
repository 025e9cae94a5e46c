"""The programs of the page about the change feed run as written."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import creekdb
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster
from tests.docs.pages import blocks

PAGE = "change-feed.md"
ADDRESSES = "127.0.0.1:7100,127.0.0.1:7101,127.0.0.1:7102"


async def test_the_programs_of_the_page_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_cluster(tmp_path, keep_changes="1h") as cluster, cluster.client() as db:
        programs: dict[str, Any] = {"creekdb": creekdb}
        for block in blocks(PAGE):
            if block.language == "python":
                text = block.text.replace(ADDRESSES, ",".join(cluster.addresses()))
                exec(text, programs)  # noqa: S102 - the page's own code
        following = [
            asyncio.create_task(programs["follow"]()),
            asyncio.create_task(programs["watch"](db)),
        ]
        shown = ""
        async with asyncio.timeout(TIMEOUT_S):
            while "final" not in shown or "put (('lamp 1', 1),) ()" not in shown:
                await db.weak.put("lamp 1", 1)
                await asyncio.sleep(0.02)
                shown += capsys.readouterr().out
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await programs["copy_state"](db)
        async with db.snapshot() as snapshot:
            text = snapshot.ticket.encode()
            rows = await asyncio.to_thread(programs["read_range"], text, None, None)
        assert rows == [("lamp 1", 1)]
