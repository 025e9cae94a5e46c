"""Conversion of Arrow batches to the rows that a cluster stores."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from creekdb.client.sinks import InvalidRow
from creekdb.errors import UsageError
from creekdb.pipeline.source.row_plan import RowPlan, find_converter

KEY_VALUE = RowPlan("put", ("key", "value"), required=("key",))


def rows(plan: RowPlan, **columns: Any) -> list[Any]:
    return list(plan.rows([pa.record_batch(list(columns.values()), names=list(columns))]))


def test_columns_become_arguments_in_the_order_of_the_plan() -> None:
    assert rows(KEY_VALUE, value=[1, None], key=["a", "b"]) == [("a", 1), ("b", None)]


def test_rows_for_a_table_are_the_parameters_of_a_statement() -> None:
    plan = RowPlan("sql", ("id", "name"), ("INSERT …",), True)
    assert rows(plan, id=[1, 2], name=["x", None]) == [((1, "x"),), ((2, None),)]
    assert plan.column_values(((1, "x"),)) == {"id": 1, "name": "x"}


def test_values_are_converted_to_values_that_a_cluster_stores() -> None:
    moment = datetime.datetime(2026, 11, 18, 20, 30, 1)  # noqa: DTZ001 - as Arrow returns it
    plan = RowPlan("put", ("key", "value"))
    assert rows(plan, key=[moment], value=[moment.date()]) == [
        ("2026-11-18 20:30:01", "2026-11-18")
    ]
    nested = pa.array([{"tags": ["x", "y"], "blob": b"\x00"}])
    assert rows(plan, key=["a"], value=nested) == [("a", {"tags": ("x", "y"), "blob": b"\x00"})]
    dates = pa.array([{"on": [moment.date(), None], "at": {"t": moment}, "tags": ["x"]}])
    assert rows(plan, key=["a"], value=dates) == [
        ("a", {"on": ("2026-11-18", None), "at": {"t": "2026-11-18 20:30:01"}, "tags": ("x",)})
    ]


def test_json_columns_are_decoded() -> None:
    plan = RowPlan("put", ("key", "value"), json_columns=frozenset(("value",)))
    texts = ['{"n": [1, 2]}', None, "3", "{bad"]
    first, second, third, bad = rows(plan, key=list("abcd"), value=texts)
    assert (first, second, third) == (("a", {"n": (1, 2)}), ("b", None), ("c", 3))
    assert isinstance(bad, InvalidRow)
    assert bad.row == ("d", "{bad")
    assert "'{bad' is no JSON text" in bad.error


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        (pa.array([1, 2**62], pa.timestamp("us", "UTC")), 2**62),
        (pa.array([1, 2**30], pa.date32()), 2**30),
        (pa.array([{"at": 1}, {"at": 2**62}], pa.struct({"at": pa.timestamp("us")})), None),
        (pa.array([b"x", b"\xff"], pa.binary()).view(pa.string()), None),
    ],
)
def test_a_value_that_python_cannot_represent_is_an_error_of_the_row(
    column: pa.Array, stored: Any
) -> None:
    first, second = rows(KEY_VALUE, key=["a", "b"], value=column)
    assert first[0] == "a"
    assert isinstance(second, InvalidRow)
    assert second.row == ("b", stored)
    assert second.error.startswith("column 'value' has no valid ")


def test_a_null_key_is_an_error_of_the_row() -> None:
    first, second = rows(KEY_VALUE, key=["a", None], value=[1, 2])
    assert first == ("a", 1)
    assert second == InvalidRow((None, 2), "column 'key' is null, and belongs to the key")


def test_types_that_a_cluster_cannot_store_name_the_column() -> None:
    with pytest.raises(UsageError, match=r"column 'value' has the type decimal128.*cast it"):
        rows(KEY_VALUE, key=["a"], value=[Decimal("1.5")])
    with pytest.raises(UsageError, match="column 'tags'"):
        find_converter("tags", pa.list_(pa.time64("us")))
    with pytest.raises(UsageError, match="column 'tags'"):
        find_converter("tags", pa.map_(pa.string(), pa.int64()))
