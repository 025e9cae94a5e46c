"""Databases for the tests of SQL: one machine, whose statements and reads can be observed."""

from collections.abc import Iterator
from typing import Any

import pytest

from creekdb.datatypes.sql import SQL
from creekdb.execution.keys import CollationKey
from creekdb.execution.sequential import OperationRaised, Sequential
from creekdb.execution.transaction import RangeScan
from creekdb.protocol.values import Key
from creekdb.sql.catalog import Schema, Table
from creekdb.sql.connection import SessionSlot
from creekdb.sql.probe import Probe


class RecordingMachine(Sequential):
    """Sequential execution that records the reads of SQL rows and index entries."""

    def __init__(self) -> None:
        super().__init__(SQL)
        self.reads: list[tuple[Any, ...]] = []
        """Key of each register that was read, with the picked items, None for all of them."""

    def read(self, key: Key) -> Any:
        self._record(key, None)
        return super().read(key)

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        self._record(key, items)
        return super().read(key)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        self._record((start, stop), "range")
        return super().keys(start, stop, reverse)

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        before = len(self.reads)
        found = super().pick_range(scan, items, limit)
        del self.reads[before:]  # it reads whole registers
        for key, _ in found:
            self._record(key, items)
        return found

    def _record(self, key: Any, items: Any) -> None:
        if type(key) is tuple and key[0] in ("sql", "sql.index"):
            self.reads.append((*key, items))


class Database:
    """A database on a sequential machine."""

    def __init__(self, *statements: str) -> None:
        self.machine = RecordingMachine()
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

    def reads(self, text: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Execute a statement and return the rows and index entries that it read."""
        self.machine.reads.clear()
        self.execute(text, *parameters)
        return [each for each in self.machine.reads if each[-1] != "range"]

    def table(self, name: str) -> Table:
        """Return the description of a table."""
        schema = Schema.decode(self.state[("sql.schema",)])
        return Probe(schema, SessionSlot()).catalog(schema).tables[name]
