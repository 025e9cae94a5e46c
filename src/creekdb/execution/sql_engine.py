"""Port of the SQL engine, which executes the statements of `tx.sql`.

The engine (`creekdb.sql`) builds on transactions, so this package must not import it. A data type
that is declared with `sql=True` loads the engine by name. It fails there and then if a required
package is missing. So no operation of a running replica can fail on this replica alone.
"""

from importlib import import_module
from typing import Any, Final, Protocol

from creekdb.errors import UsageError

ENGINE_MODULE: Final = "creekdb.sql.engine"
REQUIRED_PACKAGE: Final = "apsw"


class SqlEngine(Protocol):
    """Executes SQL statements on transactions."""

    @property
    def version(self) -> str:
        """Version of the engine. Replicas with equal versions compute equal results."""

    def open_session(self, transaction: Any) -> Any:
        """Return the state that all statements of one transaction share."""

    def close_session(self, session: Any) -> None:
        """Release the resources of a session. A later statement reads the schema again."""

    def describe_tables(self, schema: bytes) -> dict[str, Any]:
        """Return the `TableDescription` of each table in an encoded schema, by lower-case name."""

    def execute(
        self, session: Any, text: Any, parameters: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Execute one statement and return its `SqlResult`."""

    def find_warnings(self, text: str) -> tuple[str, ...]:
        """Return the reasons for which the result of a statement may depend on its plan."""


def load_sql_engine(datatype: str) -> SqlEngine:
    """Return the engine for the data type with this name, or raise `UsageError`."""
    try:
        module = import_module(ENGINE_MODULE)
    except ModuleNotFoundError as error:
        if error.name != REQUIRED_PACKAGE:
            raise
        raise UsageError(
            f"data type '{datatype}' uses SQL, but the package {REQUIRED_PACKAGE} is missing; "
            "install creekdb[sql]"
        ) from error
    engine: SqlEngine = module.ENGINE
    return engine
