"""Record batches of Arrow: declared schemas, and errors that name the column."""

from typing import Any

import pytest

from creekdb.client.arrow import ArrowWriter
from creekdb.errors import BadValue
from creekdb.sql.table_rows import KeyPart, TableColumn, TableDescription


def table(*columns: tuple[str, str]) -> TableDescription:
    described = [
        TableColumn(f"c{number}", declared, affinity, number == 0, number)
        for number, (declared, affinity) in enumerate(columns)
    ]
    return TableDescription("t", "t", tuple(described), (KeyPart(0, "text", True),), False)


EVERY_AFFINITY = table(
    ("TEXT", "TEXT"),
    ("INT", "INTEGER"),
    ("REAL", "REAL"),
    ("BLOB", "BLOB"),
    ("DECIMAL(5, 2)", "NUMERIC"),
    ("DATETIME", "NUMERIC"),
    ("", "BLOB"),
)


def page(*rows: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    return [(("sql", "t", row[0]), row) for row in rows]


def test_a_table_has_its_columns() -> None:
    rows = [("a", 1, 1.5, b"x", 2, "2026-11-18", (1, b"y")), ("b", *[None] * 6)]
    batch = ArrowWriter(EVERY_AFFINITY).record_batch(page(*rows))

    types = ["string", "int64", "double", "binary", "double", "string", "string"]
    assert [str(field.type) for field in batch.schema] == types
    assert [field.nullable for field in batch.schema] == [False] + [True] * 6
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        ("a", 1, 1.5, b"x", 2.0, "2026-11-18", '[1,{"$bytes":"eQ=="}]'),
        rows[1],
    ]


def test_an_empty_page_has_the_schema() -> None:
    writer = ArrowWriter(EVERY_AFFINITY)
    batch = writer.record_batch([])

    assert (batch.num_rows, batch.schema) == (0, writer.schema)


def test_registers_are_keys_and_values_as_json() -> None:
    batch = ArrowWriter(None).record_batch([("a", 1), (("b", 2), {"x": (None,)})])

    assert batch.to_pylist() == [
        {"key": '"a"', "value": "1"},
        {"key": '["b",2]', "value": '{"x":[null]}'},
    ]


def test_a_value_of_another_type_is_an_error_that_names_the_column() -> None:
    writer = ArrowWriter(table(("TEXT", "TEXT"), ("INT", "INTEGER")))
    with pytest.raises(BadValue, match="column 'c1' of table 't' holds a value that is no int64"):
        writer.record_batch(page(("a", "many")))
