"""Operations on the page about SQL run as written."""

from typing import Any

import pytest

from creekdb.execution.datatype import DataType
from creekdb.execution.sequential import OperationRaised
from tests.docs.pages import blocks

SCHEMA = (
    "CREATE TABLE stock(item TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT",
    "CREATE INDEX stock_by_count ON stock(count)",
    "INSERT INTO stock VALUES ('lamp', 7)",
)


def test_the_operations_of_the_page_run_within_their_footprints() -> None:
    page: dict[str, Any] = {}
    for block in blocks("sql.md"):
        if block.language == "python" and "@shop.operation" in block.text:
            exec(f"import creekdb\n{block.text}", page)  # noqa: S102 - text of our own page
    shop = page["shop"]
    assert isinstance(shop, DataType)

    @shop.operation
    def execute(tx: Any, text: str) -> None:
        tx.sql(text)

    session = shop.sequential()
    for text in SCHEMA:
        session.call("execute", text)
    assert session.call("sell", "lamp", 1) == ((6,),)
    session.call("take", "lamp", 2)
    assert session.call("sell", "lamp", 1) == ((3,),)

    session.call("execute", "CREATE TABLE item(name TEXT PRIMARY KEY)")
    session.call("execute", "ALTER TABLE stock ADD COLUMN name TEXT REFERENCES item")
    session.call("take", "lamp", 1)

    @shop.operation(touches=lambda: [("sql", "stock")], reads=lambda: [("sql.schema",)])
    def rename(tx: Any) -> None:
        tx.sql("UPDATE stock SET name = 'brass lamp'")

    with pytest.raises(OperationRaised, match=r"'item', .* outside its footprint"):
        session.call("rename")
