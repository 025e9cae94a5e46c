"""`creek load`: Parquet files and exports into a live cluster."""

import asyncio
import json
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from creekdb.cli.app import main
from tests.cluster.in_process_cluster import InProcessCluster, running_cluster

Capture = pytest.CaptureFixture[str]


class Result(NamedTuple):
    exit_code: int
    output: str
    error: str


async def run(capsys: Capture, cluster: InProcessCluster, *arguments: str) -> Result:
    command = ["load", *arguments, "--servers", ",".join(cluster.addresses())]
    exit_code = await asyncio.to_thread(main, command)
    return Result(exit_code, *capsys.readouterr())


def write(directory: Path, name: str, table: dict[str, list[object]]) -> str:
    directory.mkdir(exist_ok=True)
    pq.write_table(pa.table(table), directory / f"{name}.parquet")
    return str(directory)


async def test_files_are_loaded_and_a_repetition_changes_nothing(
    tmp_path: Path, capsys: Capture
) -> None:
    words = write(tmp_path / "words", "a", {"key": ["x", "y"], "value": [1, None]})
    write(tmp_path / "words", "b", {"key": ["z"], "value": [3]})
    async with running_cluster(tmp_path / "cluster", 1) as cluster, cluster.client() as db:
        result = await run(capsys, cluster, words)
        assert result.exit_code == 0, result.error
        assert result.output.startswith(f"{words}: 3 rows loaded in ")
        result = await run(capsys, cluster, words, "--json")
        summary = json.loads(result.output)
        assert (summary["rows"], summary["files"], summary["target"]) == (3, 2, "put")
        assert await db.strong.scan("") == (("x", 1), ("y", None), ("z", 3))


async def test_an_export_is_loaded_into_another_cluster(tmp_path: Path, capsys: Capture) -> None:
    out = str(tmp_path / "export")
    async with running_cluster(tmp_path / "first", 1) as cluster, cluster.client() as db:
        await db.strong.put("lamp", {"watt": (40, 60), "raw": b"\x00"})
        command = ["export", "--at", *cluster.addresses(), "--out", out]
        assert await asyncio.to_thread(main, command) == 0
    capsys.readouterr()
    async with running_cluster(tmp_path / "second", 1) as cluster, cluster.client() as db:
        result = await run(capsys, cluster, out)
        assert result.exit_code == 0, result.error
        assert await db.strong.get("lamp") == {"watt": (40, 60), "raw": b"\x00"}


async def test_bad_input_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    words = write(tmp_path / "words", "a", {"key": ["x", None], "value": [1, 2]})
    pairs = write(tmp_path / "pairs", "a", {"word": ["x"], "count": [1]})
    mixed = write(tmp_path / "mixed", "a", {"key": ["x"], "value": [1]})
    write(tmp_path / "mixed", "b", {"key": ["y"], "value": ["text"]})
    (tmp_path / "empty").mkdir()
    async with running_cluster(tmp_path / "cluster", 1) as cluster, cluster.client() as db:
        for arguments, message in (
            ([words], "column 'key' is null, and belongs to the key (row: (None, 2))"),
            ([pairs], "set option table or operation"),
            ([mixed], "its columns differ from those of"),
            ([str(tmp_path / "empty")], "no Parquet files"),
            ([str(tmp_path / "absent")], "no such directory"),
            ([words, "--table", "t"], "which has no tables"),
            ([words, "--json-column", "valeu"], "valeu"),
        ):
            result = await run(capsys, cluster, *arguments)
            assert result.exit_code == 2, result
            assert message in result.error
            assert result.error.count("\n") == 1
        assert await db.strong.scan("") == ()
