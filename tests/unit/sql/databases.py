"""Databases for the tests of SQL: one machine, and replicas that receive late requests."""

from typing import Any

import pytest

from creekdb.datatypes.sql import SQL
from creekdb.execution.sequential import OperationRaised
from creekdb.protocol.values import Key


class Database:
    """A database on a sequential machine."""

    def __init__(self, *statements: str) -> None:
        self.machine = SQL.sequential()
        for statement in statements:
            self.execute(statement)

    @property
    def state(self) -> dict[Key, Any]:
        return self.machine.state

    def execute(self, text: str, *parameters: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.machine.call("sql", text, parameters)
        return result

    def rows(self, text: str, *parameters: Any) -> tuple[tuple[Any, ...], ...]:
        rows: tuple[tuple[Any, ...], ...] = self.execute(text, *parameters)["rows"]
        return rows

    def error(self, text: str, *parameters: Any) -> str:
        """Return the error of a statement, which must leave the state unchanged."""
        before = dict(self.state)
        with pytest.raises(OperationRaised) as raised:
            self.execute(text, *parameters)
        assert self.state == before
        return str(raised.value)
