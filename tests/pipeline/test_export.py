"""What a cluster has committed, as Parquet."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from creekdb.cli.app import main
from creekdb.errors import UsageError
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.http.schema import from_json
from creekdb.pipeline.schemas import COMMITTED, REGISTERS, VALUE_KINDS
from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.stages.export import export_backup
from creekdb.protocol.checkpoint.stream import InMemoryRegisterCursor
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Operation, Request
from creekdb.server.backup.format import BackupHeader, encode_backup
from tests.cluster.house import house

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
    (CALLS_PREFIX, "somebody", 1): (1, 100, None, None, 0),
}


def made(path: Path, requests: int = 3, length: int = 5) -> Path:
    """A backup with a bit of everything."""
    told = tuple(
        Request(100 + each, Dot(0, each + 1), Operation("put", ("a", (each,))), False)
        for each in range(length - requests, length)
    )
    ids = Dots({0: (1, length + 1)})
    checkpoint = Checkpoint(9, length, ids, 104, tuple(STATE.items()), (), (("gone", 1),))
    head = BackupHeader(
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
            piece.data for piece in encode_backup(head, InMemoryRegisterCursor(checkpoint), told)
        )
    )
    return path


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return found


def test_every_kind_of_key_and_value_comes_back(tmp_path: Path) -> None:
    exported = export_backup(made(tmp_path / "one.backup"), tmp_path / "out")
    found = {from_json(json.loads(row["key"])): row for row in rows(tmp_path / "out" / "state")}
    assert exported.registers == len(found) == len(STATE)  # less a call, and one deleted
    assert {row["kind"] for row in found.values()} == set(VALUE_KINDS)
    for key, row in found.items():
        if row["kind"] == "deleted":
            assert (key, row["value"]) == (("gone", 1), None)
        else:
            assert from_json(json.loads(row["value"])) == STATE[key]
    assert found["number"]["value_int"] == -7
    assert found["number"]["key_text"] == "number"
    assert found[2]["key_int"] == 2
    assert found[2]["value_bool"] is True
    assert found[2]["value_int"] is None
    assert found[2**63]["value_int"] is None
    assert found["bytes"]["value_bytes"] == b"\x00\xff"
    assert found["half"]["value_float"] == 0.5
    assert found["text"]["value_text"] == "größer"
    assert found["stock", "lamp", 3]["key_parts"] == ["stock", "lamp", "3"]


def test_operations_have_their_places(tmp_path: Path) -> None:
    exported = export_backup(made(tmp_path / "one.backup"), tmp_path / "out")
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
    told = json.loads((tmp_path / "out" / "export.json").read_text())
    assert (told["cluster"], told["length"], told["complete_from"]) == ("shop", 5, 2)


def test_a_folder_in_which_something_is_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "something").touch()
    with pytest.raises(UsageError, match="holds something"):
        export_backup(made(tmp_path / "one.backup"), tmp_path / "out")
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["something"]


def test_a_live_cluster_with_its_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it, what the journals have: from the last checkpoint on, here from the first."""
    recorded = str(tmp_path / "recorded")

    async def story() -> None:
        async with house(tmp_path / "data", record=recorded) as cluster:
            async with cluster.client(0) as db, cluster.client(1) as other:
                for number in range(20):
                    await db.weak.put("a", number)
                    await other.strong.increment("total")
            await cluster.until_settled()
            at = ["export", "--at", *cluster.addresses(2)]
            alone = [*at, "--out", str(tmp_path / "alone")]
            assert await asyncio.to_thread(main, alone) == 0
            both = [*at, "--out", str(tmp_path / "both"), "--recording", recorded]
            assert await asyncio.to_thread(main, both) == 0

    asyncio.run(story())
    assert "complete from index 0 on" in capsys.readouterr().out
    found = rows(tmp_path / "both" / "operations")
    assert found == rows(tmp_path / "alone" / "operations")
    assert [row["index"] for row in found] == list(range(len(found)))
    called = [row for row in found if row["client"] is not None]
    assert len([row for row in called if row["operation"] == "increment"]) == 20
    state = {row["key_text"]: row["value_int"] for row in rows(tmp_path / "both" / "state")}
    assert state == {"a": 19, "total": 20}


@pytest.mark.parametrize("cluster", ["shop", "bank"])
def test_a_recording_of_another_cluster_is_refused(
    tmp_path: Path, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = str(tmp_path / "recorded")

    async def story() -> None:
        settings = {"cluster": cluster, "record": recorded}
        async with house(tmp_path / "data", 1, **settings) as built, built.client(0) as db:
            for number in range(5):
                await db.strong.put("a", number)

    asyncio.run(story())
    path, out = made(tmp_path / "one.backup", requests=5), tmp_path / "out"
    assert main(["export", str(path), "--out", str(out), "--recording", recorded]) == 2
    said = capsys.readouterr().err
    assert ("of the same name" if cluster == "shop" else "recorded by cluster 'bank'") in said
    assert not out.exists()


def test_spark_reads_both(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_backup(made(tmp_path / "one.backup"), out)
    state = spark.read.parquet(str(out / "state"))
    assert [(each.name, each.dataType) for each in state.schema] == [
        (each.name, each.dataType) for each in spark_schema(REGISTERS)
    ]
    (row,) = state.where("key_parts[0] = 'stock'").collect()
    assert row["value"] == '[1,["two",{"$bytes":"Mw=="}]]'
    operations = spark.read.parquet(str(out / "operations"))
    assert [each.name for each in operations.schema] == COMMITTED.names
    assert operations.count() == 3
