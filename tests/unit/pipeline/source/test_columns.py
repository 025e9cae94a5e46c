"""Arrow batches of registers and changes."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from creekdb.errors import UsageError
from creekdb.pipeline.source.columns import operations_schema, row_count, write_rows, writes_schema
from creekdb.pipeline.source.options import Selection
from creekdb.pipeline.source.reading import BatchMaker
from creekdb.protocol.ids.version_vector import Dot
from creekdb.wire.changes import Change

CHANGE = Change(
    index=7,
    id=Dot(2, 5),
    timestamp=1_000_000,
    operation="transfer",
    arguments=("a", "b", 3),
    strong=True,
    changed=None,
    value=("ok", b"\x00"),
    error=None,
    writes=(("a", 1), ("b", {"n": 2**70})),
    deleted=("c",),
    before=(("a", 4), ("c", "old")),
    client="someone",
    number=9,
    commit_timestamp=2_000_000,
)


def make(key_type: str = "string") -> BatchMaker:
    return BatchMaker(Selection(key_type=key_type), writes_schema(key_type), None)


def test_writes_have_their_kinds_and_values_before_on_request() -> None:
    plain = make().writes([CHANGE], before_images=False).to_pylist()
    complete = make().writes([CHANGE], before_images=True).to_pylist()

    assert [(row["key"], row["value"], row["_change_type"]) for row in plain] == [
        ("a", "1", "update_postimage"),
        ("b", '{"n":1180591620717411303424}', "insert"),
        ("c", None, "delete"),
    ]
    assert [(row["key"], row["value"], row["_change_type"]) for row in complete] == [
        ("a", "4", "update_preimage"),
        ("a", "1", "update_postimage"),
        ("b", '{"n":1180591620717411303424}', "insert"),
        ("c", '"old"', "delete"),
    ]
    assert {row["_commit_timestamp"].second for row in plain} == {2}
    assert row_count(CHANGE, False) == len(plain)
    assert row_count(CHANGE, True) == len(complete)


def test_without_values_before_every_write_is_an_update() -> None:
    change = Change(*[getattr(CHANGE, name) for name in CHANGE.__struct_fields__[:11]])

    assert [row.change_type for row in write_rows([change], True)] == [
        "update_postimage",
        "update_postimage",
        "delete",
    ]


@pytest.mark.parametrize(
    ("key_type", "keys", "texts"),
    [
        ("string", ["a", "5"], ["a", "5"]),
        ("int", [1, -7], [1, -7]),
        ("json", ["a", 5, ("stock", 1)], ['"a"', "5", '["stock",1]']),
    ],
)
def test_keys_have_the_requested_type(key_type: str, keys: list[Any], texts: list[Any]) -> None:
    batch = make(key_type).snapshot([(key, None) for key in keys], 3)

    assert batch.column("key").to_pylist() == texts
    assert batch.column("value").to_pylist() == ["null"] * len(keys)
    assert set(batch.column("_commit_index").to_pylist()) == {3}


@pytest.mark.parametrize(("key_type", "key"), [("string", 5), ("int", "a"), ("int", 2**63)])
def test_a_key_of_another_type_is_refused(key_type: str, key: Any) -> None:
    with pytest.raises(UsageError, match=f"option keyType is '{key_type}', and the register"):
        make(key_type).snapshot([(key, 1)], 3)


def test_operations_have_their_results_and_writes() -> None:
    batch = BatchMaker(Selection(), operations_schema(), None).operations([CHANGE])

    (row,) = batch.to_pylist()
    assert row["arguments"] == '["a","b",3]'
    assert row["value"] == '["ok",{"$bytes":"AA=="}]'
    assert (row["_replica"], row["_event"], row["_client"], row["_number"]) == (2, 5, "someone", 9)
    assert row["writes"] == [
        {"key": '"a"', "value": "1"},
        {"key": '"b"', "value": '{"n":1180591620717411303424}'},
        {"key": '"c"', "value": None},
    ]


def test_a_schema_selects_columns_and_its_mistakes_are_named() -> None:
    (key, *_) = writes_schema("string").fields
    selected = BatchMaker(Selection(), StructType([key]), None).writes([CHANGE], False)
    missing = StructType([StructField("nope", LongType())])

    assert selected.schema == pa.schema([pa.field("key", pa.string(), False)])
    with pytest.raises(UsageError, match="the column 'nope' of type int64, and the cluster has no"):
        BatchMaker(Selection(), missing, None).writes([CHANGE], False)
