"""Export of committed state and operations as Parquet."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from creekdb.cli.app import main
from creekdb.errors import UsageError
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.pipeline.schemas import COMMITTED, REGISTERS, VALUE_KINDS
from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.stages.export import export_backup
from creekdb.protocol.checkpoint.stream import InMemoryRegisterCursor
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Operation, Request
from creekdb.server.backup.format import BackupHeader, encode_backup
from creekdb.wire.json_values import from_json
from tests.cluster.in_process_cluster import running_cluster

STATE: dict[Any, Any] = {
    2: True,
    2**63: 2**63,
    "text": "größer",
    "number": -7,
    "half": 0.5,
    "nothing": None,
    "bytes": b"\x00\xff",
    ("stock", "lamp", 3): (1, ("two", b"3")),
    ("dict",): {"a": (1, 2)},
    (CALLS_PREFIX, "client", 1): (1, 100, None, None, 0),
}


def write_backup(path: Path, requests: int = 3, length: int = 5) -> Path:
    """Write a backup with every kind of key and value."""
    committed = tuple(
        Request(100 + each, Dot(0, each + 1), Operation("put", ("a", (each,))), False)
        for each in range(length - requests, length)
    )
    ids = Dots({0: (1, length + 1)})
    checkpoint = Checkpoint(9, length, ids, 104, tuple(STATE.items()), (), (("gone", 1),))
    header = BackupHeader(
        cluster="shop",
        replica=0,
        members=(0,),
        datatype="kv",
        imported="kv",
        scheme="creek",
        release="0",
        taken_us=1,
        length=length,
        instance=9,
        ids=ids,
        timestamp=104,
        first=length - requests,
    )
    path.write_bytes(
        b"".join(
            piece.data
            for piece in encode_backup(header, InMemoryRegisterCursor(checkpoint), committed)
        )
    )
    return path


def rows(directory: Path) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pq.read_table(directory).to_pylist()
    return table


def test_every_kind_of_key_and_value_is_exported(tmp_path: Path) -> None:
    exported = export_backup(write_backup(tmp_path / "one.backup"), tmp_path / "out")
    registers = {from_json(json.loads(row["key"])): row for row in rows(tmp_path / "out" / "state")}
    # The call record is internal, and the deleted register is not in STATE.
    assert exported.registers == len(registers) == len(STATE)
    assert {row["kind"] for row in registers.values()} == set(VALUE_KINDS)
    for key, row in registers.items():
        if row["kind"] == "deleted":
            assert (key, row["value"]) == (("gone", 1), None)
        else:
            assert from_json(json.loads(row["value"])) == STATE[key]
    assert registers["number"]["value_int"] == -7
    assert registers["number"]["key_text"] == "number"
    assert registers[2]["key_int"] == 2
    assert registers[2]["value_bool"] is True
    assert registers[2]["value_int"] is None
    assert registers[2**63]["value_int"] is None
    assert registers["bytes"]["value_bytes"] == b"\x00\xff"
    assert registers["half"]["value_float"] == 0.5
    assert registers["text"]["value_text"] == "größer"
    assert registers["stock", "lamp", 3]["key_parts"] == ["stock", "lamp", "3"]


def test_operations_have_their_commit_indexes(tmp_path: Path) -> None:
    exported = export_backup(write_backup(tmp_path / "one.backup"), tmp_path / "out")
    assert (exported.operations, exported.complete_from) == (3, 2)
    assert rows(tmp_path / "out" / "operations")[0] == {
        "index": 2,
        "origin": 0,
        "event": 3,
        "timestamp_us": 102,
        "strong": False,
        "operation": "put",
        "arguments": '["a",[2]]',
        "client": None,
        "number": None,
    }
    manifest = json.loads((tmp_path / "out" / "export.json").read_text())
    assert (manifest["cluster"], manifest["length"], manifest["complete_from"]) == ("shop", 5, 2)


def test_a_directory_with_files_is_rejected_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "something").touch()
    with pytest.raises(UsageError, match="not empty; name an empty or a new directory"):
        export_backup(write_backup(tmp_path / "one.backup"), tmp_path / "out")
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["something"]


async def test_a_recording_completes_the_export_of_a_live_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a recording, the export holds the journals' operations since the last checkpoint."""
    recorded = str(tmp_path / "recorded")
    async with running_cluster(tmp_path / "data", record=recorded) as cluster:
        async with cluster.client(0) as db, cluster.client(1) as other:
            for number in range(20):
                await db.weak.put("a", number)
                await other.strong.increment("total")
        await cluster.until_quiescent()
        at = ["export", "--at", *cluster.addresses(2)]
        alone = [*at, "--out", str(tmp_path / "alone")]
        assert await asyncio.to_thread(main, alone) == 0
        both = [*at, "--out", str(tmp_path / "both"), "--recording", recorded]
        assert await asyncio.to_thread(main, both) == 0
    assert "complete from index 0 on" in capsys.readouterr().out
    exported = rows(tmp_path / "both" / "operations")
    assert exported == rows(tmp_path / "alone" / "operations")
    assert [row["index"] for row in exported] == list(range(len(exported)))
    calls = [row for row in exported if row["client"] is not None]
    assert len([row for row in calls if row["operation"] == "increment"]) == 20
    state = {row["key_text"]: row["value_int"] for row in rows(tmp_path / "both" / "state")}
    assert state == {"a": 19, "total": 20}


@pytest.mark.parametrize("cluster", ["shop", "bank"])
async def test_a_recording_of_another_cluster_is_rejected(
    tmp_path: Path, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = str(tmp_path / "recorded")
    async with (
        running_cluster(tmp_path / "data", 1, cluster=cluster, record=recorded) as built,
        built.client(0) as db,
    ):
        for number in range(5):
            await db.strong.put("a", number)
    path, out = write_backup(tmp_path / "one.backup", requests=5), tmp_path / "out"
    assert main(["export", str(path), "--out", str(out), "--recording", recorded]) == 2
    error = capsys.readouterr().err
    assert ("with the same name" if cluster == "shop" else "recording of cluster 'bank'") in error
    assert not out.exists()


def test_a_backup_is_exported_without_spark_and_numpy(tmp_path: Path) -> None:
    """The extra `export` installs pyarrow alone."""
    backup = write_backup(tmp_path / "one.backup")
    program = (
        "import sys; sys.modules |= dict.fromkeys(('numpy', 'pandas', 'pyspark', 'py4j')); "
        "from creekdb.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "export", str(backup), "--out", str(tmp_path / "out")]
    subprocess.run(command, check=True)
    assert rows(tmp_path / "out" / "state")


def test_spark_reads_both_tables(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_backup(write_backup(tmp_path / "one.backup"), out)
    state = spark.read.parquet(str(out / "state"))
    assert [(each.name, each.dataType) for each in state.schema] == [
        (each.name, each.dataType) for each in spark_schema(REGISTERS)
    ]
    (row,) = state.where("key_parts[0] = 'stock'").collect()
    assert row["value"] == '[1,["two",{"$bytes":"Mw=="}]]'
    operations = spark.read.parquet(str(out / "operations"))
    assert [each.name for each in operations.schema] == COMMITTED.names
    assert operations.count() == 3
