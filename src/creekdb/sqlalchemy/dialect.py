"""Dialect for SQLAlchemy 2: SQL of SQLite, sent with `creekdb.dbapi`.

Statements and types are those of SQLAlchemy's dialect for SQLite. This module replaces the parts
that depend on a file or on a connection of SQLite: settings in the URL, isolation levels, and
reflection of temporary tables.
"""

from types import ModuleType
from typing import Any, Final

from sqlalchemy import exc
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.engine import URL, Connection, reflection
from sqlalchemy.engine.interfaces import IsolationLevel

from creekdb import dbapi
from creekdb.dbapi.connection import url_settings

PORT: Final = 7100
"""Port of a URL without one: that of the first replica of `creek up`."""
MAIN: Final = "main"
"""Name of the only schema."""
AUTOCOMMIT: Final = "AUTOCOMMIT"
SERIALIZABLE: Final = "SERIALIZABLE"
_CLOSED_SQLSTATE: Final = "08003"


class CreekDialect(SQLiteDialect):
    """SQL of SQLite on a Creek cluster.

    URL: `creek://HOST:PORT/?consistency=weak`. Further replicas are further parameters
    `host=HOST:PORT`. The other parameters are those of `creekdb.dbapi.connect`.

    The execution option `consistency` of a statement, connection or engine is `weak` or `strong`.
    """

    name = "creek"
    driver = "dbapi"
    supports_statement_cache = True
    supports_sane_rowcount_returning = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return dbapi

    # --- connections ----------------------------------------------------------------------------

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        query = dict(url.query)
        others = query.pop("host", ())
        addresses = [others] if isinstance(others, str) else list(others)
        if url.host is not None:
            is_list = ":" in url.host and url.port is None
            addresses.insert(0, url.host if is_list else f"{url.host}:{url.port or PORT}")
        try:
            settings = url_settings({name: str(value) for name, value in query.items()})
        except dbapi.InterfaceError as error:
            raise exc.ArgumentError(str(error)) from error
        return [",".join(addresses)], settings

    def get_isolation_level_values(self, dbapi_connection: Any) -> list[IsolationLevel]:
        return [SERIALIZABLE, AUTOCOMMIT]

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        dbapi_connection.autocommit = level == AUTOCOMMIT

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        return AUTOCOMMIT if dbapi_connection.autocommit else SERIALIZABLE

    def get_default_isolation_level(self, dbapi_conn: Any) -> IsolationLevel:
        return SERIALIZABLE

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """True if the connection was closed. A client whose replica fails finds another one."""
        return getattr(e, "sqlstate", None) == _CLOSED_SQLSTATE

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        return dbapi.sqlite_version_info

    # --- consistency ----------------------------------------------------------------------------

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        _set_consistency(cursor, context)
        cursor.execute(statement, parameters)

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        _set_consistency(cursor, context)
        cursor.executemany(statement, parameters)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        _set_consistency(cursor, context)
        cursor.execute(statement)

    # --- reflection -----------------------------------------------------------------------------

    @reflection.cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return [MAIN]

    @reflection.cache
    def get_temp_table_names(  # type: ignore[override]
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return []

    @reflection.cache
    def get_temp_view_names(  # type: ignore[override]
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return []

    @reflection.cache
    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        text = "SELECT sql FROM sqlite_master WHERE name = ? AND type = 'view'"
        definition = connection.exec_driver_sql(text, (view_name,)).scalar()
        if definition is None or schema not in (None, MAIN):
            raise exc.NoSuchTableError(f"{schema}.{view_name}" if schema else view_name)
        return str(definition)

    @reflection.cache
    def _get_table_sql(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> str | None:
        text = "SELECT sql FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')"
        definition = connection.exec_driver_sql(text, (table_name,)).scalar()
        is_system = table_name in ("sqlite_master", "sqlite_schema")
        if (definition is None or schema not in (None, MAIN)) and not is_system:
            raise exc.NoSuchTableError(f"{schema}.{table_name}" if schema else table_name)
        return definition

    def _get_table_pragma(
        self, connection: Connection, pragma: str, table_name: str, schema: str | None = None
    ) -> list[Any]:
        if schema not in (None, MAIN):
            return []
        name = self.identifier_preparer.quote_identifier(table_name)
        return list(connection.exec_driver_sql(f"PRAGMA {pragma}({name})").fetchall())


def _set_consistency(cursor: Any, context: Any) -> None:
    """Apply the execution option `consistency`, if there is one."""
    if context is not None:
        cursor.consistency = context.execution_options.get("consistency")
