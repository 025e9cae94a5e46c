"""Differential test: the same statements on Creek and on plain SQLite.

Both must return the same rows or the same error, and hold the same tables afterwards. Every index
of Creek must have the entries of its rows. A difference is reported with the statements that it
needs. Run many statements with `python -m tests.sql.differential --statements 20000`.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any, Final, TypeAlias

import apsw

from creekdb.datatypes.sql import create_sql_type
from creekdb.errors import SqlError
from creekdb.execution.operation_errors import error_text
from creekdb.execution.sequential import OperationRaised
from creekdb.execution.transaction import Transaction
from creekdb.sql.catalog import INDEX_PREFIX, SCHEMA_KEY, Schema, Table
from creekdb.sql.connection import SessionSlot
from creekdb.sql.probe import Probe
from tests.sql.grammar import Grammar, bind_literals

STATEMENTS_PER_DATABASE: Final = 60
_POSITION: Final = re.compile(r" \(line \d+, column \d+\)$")
_CONSTRAINT: Final = re.compile("cannot store|UNIQUE|NOT NULL|CHECK|FOREIGN KEY|datatype mismatch")
_CLASS: Final = re.compile(r"^\w+: ")


SqlStatement: TypeAlias = tuple[str, tuple[Any, ...]]
"""Text and parameters."""

TOLERANT: Final = create_sql_type("tolerant")


@TOLERANT.operation
def attempt(tx: Transaction, text: str, parameters: tuple[Any, ...]) -> Any:
    """Execute a statement. Return its rows, or its error, after which the operation goes on."""
    try:
        return tx.sql(text, *parameters).rows
    except SqlError as error:
        return error_text(error)


class Difference(AssertionError):
    """Statement with another result than on SQLite."""


class Pair:
    """A database of Creek and a database of SQLite with the same contents."""

    def __init__(self) -> None:
        self.machine = TOLERANT.sequential()
        self.reference = apsw.Connection(":memory:")
        self.reference.execute("PRAGMA foreign_keys = ON")
        self.reference.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        self.reference.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        self.statements: list[SqlStatement] = []
        self.refusal: str | None = None
        """Error of the last statement, if it has a feature that Creek does not support."""

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> bool:
        """Execute a statement on both. Return False if it raised an error on both."""
        self.statements.append((statement, parameters))
        ours = self._execute_on_creek(statement, parameters)
        theirs = self._execute_on_sqlite(statement, parameters)
        if ours != theirs and not _is_choice_of_errors(ours, theirs):
            raise self._difference(ours, theirs)
        return not isinstance(ours, str)

    def execute_supported(self, statement: str) -> bool | None:
        """Execute a statement on both, or return None if Creek refuses it by name."""
        self.statements.append((statement, ()))
        ours = self._execute_on_creek(statement, ())
        if isinstance(ours, str) and self.refusal is not None:
            self.statements.pop()
            return None
        theirs = self._execute_on_sqlite(statement, ())
        if ours != theirs and not _is_choice_of_errors(ours, theirs):
            raise self._difference(ours, theirs)
        return not isinstance(ours, str)

    def check_state(self) -> None:
        """Compare the contents of all tables, and the index entries with the rows."""
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        for (name,) in self.reference.execute(names).fetchall():
            ours = self._execute_on_creek(f"SELECT * FROM {name}", ())
            theirs = self._execute_on_sqlite(f"SELECT * FROM {name}", ())
            if ours != theirs:
                self.statements.append((f"contents of {name}", ()))
                raise self._difference(ours, theirs)
        self._check_indexes()

    def _check_indexes(self) -> None:
        state = self.machine.state
        expected, found = {}, {}
        for table in _tables(state.get(SCHEMA_KEY, b"")):
            for key, value in state.items():
                assert type(key) is tuple
                if key[:2] == (INDEX_PREFIX, table.storage.name):
                    found[key] = value
                elif key[:2] == table.row_prefix:
                    for index in table.indexes:
                        entry = table.index_key(index, table.load(value), key[2:])
                        expected[entry] = key[2:]
        if found != expected:
            self.statements.append(("index entries", ()))
            raise self._difference(found, expected)

    def _execute_on_creek(self, statement: str, parameters: tuple[Any, ...]) -> list[str] | str:
        self.refusal = None
        try:
            found = self.machine.call("attempt", statement, parameters)
        except OperationRaised as error:
            return f"not an error of SQL: {error}"
        if not isinstance(found, str):
            return _comparable(statement, found)
        if found.startswith("SqlUnsupported") or "found more" in found:
            self.refusal = found
        return _POSITION.sub("", _CLASS.sub("", found))

    def _execute_on_sqlite(self, statement: str, parameters: tuple[Any, ...]) -> list[str] | str:
        try:
            rows = self.reference.execute(self._adapted(statement), parameters).fetchall()
        except apsw.Error as error:
            return str(error)
        return _comparable(statement, rows)

    def _adapted(self, statement: str) -> str:
        """Store a table with another primary key than a row id by its key, as Creek does."""
        has_other_key = "PRIMARY KEY" in statement and "INTEGER PRIMARY KEY" not in statement
        is_complete = statement.upper().endswith("WITHOUT ROWID")
        if not statement.startswith("CREATE TABLE") or not has_other_key or is_complete:
            return statement
        return statement + (", " if statement.endswith("STRICT") else " ") + "WITHOUT ROWID"

    def _difference(self, ours: Any, theirs: Any) -> Difference:
        script = ";\n".join(
            text if not parameters else f"{text} -- {parameters}"
            for text, parameters in self.statements
        )
        return Difference(f"{script}\n--- Creek:\n{ours}\n--- SQLite:\n{theirs}")


@lru_cache(maxsize=4)
def _tables(encoded: bytes) -> tuple[Table, ...]:
    if not encoded:
        return ()
    schema = Schema.decode(encoded)
    return tuple(Probe(schema, SessionSlot()).catalog(schema).tables.values())


def _is_choice_of_errors(ours: list[str] | str, theirs: list[str] | str) -> bool:
    """True if a row violates the type of a STRICT column and another constraint.

    SQLite checks the type before or after the other constraint, depending on both.
    """
    errors = (ours, theirs)
    return all(isinstance(error, str) and _CONSTRAINT.match(error) for error in errors) and any(
        str(error).startswith("cannot store") for error in errors
    )


def _comparable(statement: str, rows: Any) -> list[str]:
    """Return the rows as texts, with their types. Only a total order is compared."""
    if "RETURNING" in statement:
        # RETURNING of SQLite may yield a whole number of a REAL column as an integer.
        rows = [[float(item) if type(item) is int else item for item in row] for row in rows]
    texts = [repr(tuple(row)) for row in rows]
    is_ordered = re.search(r"ORDER BY \d", statement) and "INSERT" not in statement
    return texts if is_ordered else sorted(texts)


def run(random: Random, count: int) -> Iterator[str]:
    """Execute `count` random statements on a new pair, and yield each."""
    pair, grammar = Pair(), Grammar(random)
    try:
        for _ in range(count):
            statement, parameters = bind_literals(grammar.statement(), random)
            succeeded = _execute_and_check(pair, statement, parameters)
            grammar.apply(statement, succeeded)
            yield statement
    except Difference as difference:
        raise shrink(pair.statements, difference) from None


def _execute_and_check(pair: Pair, statement: str, parameters: tuple[Any, ...]) -> bool:
    succeeded = pair.execute(statement, parameters)
    if not statement.startswith(("SELECT", "WITH")):
        pair.check_state()
    return succeeded


def shrink(script: list[SqlStatement], difference: Difference) -> Difference:
    """Return the difference of a script without the statements that it does not need."""
    size = len(script) // 2
    while size:
        start = 0
        while start < len(script):
            shorter = script[:start] + script[start + size :]
            found = find_difference(shorter)
            if found is None:
                start += size
            else:
                script, difference = shorter, found
        size //= 2
    return difference


def find_difference(script: list[SqlStatement]) -> Difference | None:
    """Execute a script on a new pair. Return the first difference."""
    pair = Pair()
    try:
        for statement, parameters in script:
            _execute_and_check(pair, statement, parameters)
    except Difference as difference:
        return difference
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=20_000, help="number of statements")
    parser.add_argument("--last", type=int, default=0, help="print only the last statements")
    parser.add_argument("--seed", type=int, default=0, help="first seed; each database has its own")
    options = parser.parse_args()
    executed, seed, failures = 0, options.seed, 0
    while executed < options.statements:
        try:
            executed += sum(1 for _ in run(Random(seed), STATEMENTS_PER_DATABASE))
        except Difference as difference:
            lines = str(difference).splitlines()
            print(f"seed {seed}:", *lines[-options.last :], sep="\n")
            failures += 1
            if failures == 3:
                break
        seed += 1
    print(f"{executed} statements on {seed - options.seed} databases, {failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
