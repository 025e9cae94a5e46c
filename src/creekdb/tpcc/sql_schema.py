"""Tables of TPC-C in SQL, for the layout `sql`.

The tables and their columns are those of `creekdb.tpcc.schema`. Every table is stored by its
primary key. The two indexes find customers by name and the orders of a customer.

`oldest_new_order` holds the number of the next order to deliver in each district. Without this
table, a Delivery would search for the least number in `new_order`, and pass all deleted rows.
"""

from functools import cache
from typing import Final

from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.sql.catalog import SCHEMA_KEY
from creekdb.tpcc.layout import CUSTOMERS_NAMED, LAST_ORDER, OLDEST_NEW_ORDER
from creekdb.tpcc.schema import NULLABLE_COLUMNS, TABLES, TEXT_COLUMNS, TableSchema

INDEXES: Final = (
    f"CREATE INDEX {CUSTOMERS_NAMED} ON customer(c_w_id, c_d_id, c_last, c_first)",
    f"CREATE INDEX {LAST_ORDER} ON orders(o_w_id, o_d_id, o_c_id)",
)
QUEUE: Final = (
    f"CREATE TABLE {OLDEST_NEW_ORDER}("
    "w_id INTEGER NOT NULL, d_id INTEGER NOT NULL, o_id INTEGER NOT NULL, "
    "PRIMARY KEY (w_id, d_id)) STRICT, WITHOUT ROWID"
)


def schema_statements() -> tuple[str, ...]:
    """Return the statements that create the tables and indexes."""
    return (*map(_create_table, TABLES.values()), QUEUE, *INDEXES)


@cache
def encoded_schema() -> bytes:
    """Return the content of the schema register after these statements."""
    datatype = DataType("tpcc schema", sql=True)

    @datatype.operation
    def create(tx: Transaction) -> None:
        for statement in schema_statements():
            tx.sql(statement)

    machine = datatype.sequential()
    machine.call(create)
    encoded: bytes = machine.state[SCHEMA_KEY]
    return encoded


def _create_table(table: TableSchema) -> str:
    columns = ", ".join(_definition(name) for name in (*table.key, *table.columns))
    key = ", ".join(table.key)
    return f"CREATE TABLE {table.name}({columns}, PRIMARY KEY ({key})) STRICT, WITHOUT ROWID"


def _definition(column: str) -> str:
    declared = "TEXT" if column in TEXT_COLUMNS else "INTEGER"
    return f"{column} {declared}" + ("" if column in NULLABLE_COLUMNS else " NOT NULL")
