"""`creek changes` on a live cluster."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from creekdb.cli.app import main
from creekdb.cli.commands.changes import _json_line, _text_line
from creekdb.client import Change
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.tentative import StageTracker
from tests.cluster.in_process_cluster import InProcessCluster, running_cluster

KEPT: dict[str, Any] = {"keep_changes": "1h"}


class Result(NamedTuple):
    exit_code: int
    output: str
    error: str


Capture = pytest.CaptureFixture[str]


async def run(cluster: InProcessCluster, capsys: Capture, *options: str) -> Result:
    command = ["changes", "--at", cluster.addresses(0)[0], *options]
    exit_code = await asyncio.to_thread(main, command)
    return Result(exit_code, *capsys.readouterr())


async def test_changes_are_printed_as_lines(tmp_path: Path, capsys: Capture) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await db.strong.put("lamp", 1)
        await db.strong.delete("lamp")
        result = await run(cluster, capsys)

        first, second = result.output.splitlines()
        assert result.exit_code == 0
        assert first.endswith("put('lamp', 1) → null  [\"lamp\" = 1]  (strong, replica 0)")
        assert second.endswith("delete('lamp') → 1  [\"lamp\" deleted]  (strong, replica 0)")


async def test_changes_are_printed_as_json(tmp_path: Path, capsys: Capture) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await db.strong.put("lamp", 1)
        await db.strong.put("chair", 2)
        result = await run(cluster, capsys, "--json", "--prefix", "ch")

        (line,) = result.output.splitlines()
        assert json.loads(line)["writes"] == [{"key": "chair", "value": 2}]


async def test_changes_of_a_table_are_printed_with_columns(tmp_path: Path, capsys: Capture) -> None:
    async with running_cluster(tmp_path, 1, datatype="sql", **KEPT) as cluster:
        async with cluster.client() as db:
            await db.strong.sql("CREATE TABLE item(name TEXT PRIMARY KEY, price INTEGER)")
            await db.strong.sql("INSERT INTO item VALUES ('a', 1)")
            await db.strong.sql("DELETE FROM item")
        lines = await run(cluster, capsys, "--table", "item")
        objects = await run(cluster, capsys, "--table", "item", "--json")
        unknown = await run(cluster, capsys, "--table", "items")

        first, second = lines.output.splitlines()
        assert first.endswith("""[write {"name":"a","price":1}]  (strong, replica 0)""")
        assert second.endswith("""[delete {"name":"a"}]  (strong, replica 0)""")
        assert json.loads(objects.output.splitlines()[1])["rows"][0]["kind"] == "delete"
        assert unknown.exit_code == 2
        assert "unknown table 'items'" in unknown.error


async def test_expired_and_foreign_positions_fail_with_one_line(
    tmp_path: Path, capsys: Capture
) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await db.strong.put("lamp", 1)
        foreign = await run(cluster, capsys, "--start", "1", "--cluster", "creek:other")
        wrong = await run(cluster, capsys, "--start", "soon")

        assert foreign.exit_code == 1
        assert "the position belongs to cluster creek:other" in foreign.error
        assert wrong.exit_code == 2
        assert "start is 'soon'" in wrong.error


async def test_a_cluster_without_a_feed_fails_with_the_remedy(
    tmp_path: Path, capsys: Capture
) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        result = await run(cluster, capsys)

        assert result.exit_code == 1
        assert "start its replicas with --keep-changes 24h" in result.error


async def test_an_expired_position_fails_with_one_line(tmp_path: Path, capsys: Capture) -> None:
    async with running_cluster(tmp_path, 1, **KEPT) as cluster, cluster.client() as db:
        await db.strong.put("lamp", 1)
        feed = cluster.servers[0].changes
        assert feed is not None
        first = feed.log.next_index + 5
        feed.log.skip_to(first)
        expired = await run(cluster, capsys, "--start", str(first - 1))

    assert expired.exit_code == 1
    assert f"has all changes from {first} on" in expired.error
    assert expired.error.count("\n") == 1


def test_a_staged_change_is_printed_with_its_stage() -> None:
    change = Change(0, Dot(0, 1), 5, "put", ("a", 1), False, None, 7, None, (("a", 1),), ())
    (staged,) = StageTracker().add_image([change], (), None)

    assert _text_line(staged) == """tentative  put('a', 1) → 7  ["a" = 1]  (weak, replica 0)"""
    assert json.loads(_json_line(staged))["stage"] == "tentative"
