"""SQL tables for readers of snapshots and of the change feed.

A reader names a table. The replica looks it up in the schema, which is a register, and sends its
description with the rows. Descriptions are derived once per schema.
"""

from typing import Final

from creekdb.errors import UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.keys import collation_key, prefix_range
from creekdb.execution.mvcc.pinned_state import PinnedState
from creekdb.server.runtime.driver import Driver
from creekdb.sql.catalog import SCHEMA_KEY
from creekdb.sql.table_rows import TableDescription

_SCHEMA_RANGE: Final = (collation_key(SCHEMA_KEY), prefix_range(SCHEMA_KEY)[1])


class SqlTables:
    """Tables of the database that the cluster replicates, if its data type uses SQL."""

    def __init__(self, driver: Driver, datatype: DataType) -> None:
        self._driver = driver
        self._datatype = datatype
        self._schema = b""
        self._tables: dict[str, TableDescription] = {}
        """Descriptions of the tables of `_schema`, by lower-case name."""

    def find(self, name: str) -> TableDescription:
        """Return the table in the newest committed state. Raise `UsageError` if there is none."""
        view = self._driver.replica.view
        with self._driver.executor.lock:
            newest = view.readable_lengths()[-1]
            schemas = [value for _, value in view.committed_items(newest, *_SCHEMA_RANGE)]
        return self._describe(name, schemas)

    def find_in(self, state: PinnedState, name: str) -> TableDescription:
        """Return the table in a pinned state. Raise `UsageError` if there is none."""
        with self._driver.executor.lock:
            schemas = [value for _, value in state.items(*_SCHEMA_RANGE)]
        return self._describe(name, schemas)

    def _describe(self, name: str, schemas: list[bytes]) -> TableDescription:
        engine = self._datatype.sql_engine
        if engine is None:
            raise UsageError(
                f"data type '{self._datatype.name}' has no tables; select registers by a prefix"
            )
        schema = schemas[0] if schemas else b""
        if schema != self._schema:
            self._schema, self._tables = schema, engine.describe_tables(schema)
        table = self._tables.get(name.lower())
        if table is None:
            raise UnknownName("table", name, [each.name for each in self._tables.values()])
        return table
