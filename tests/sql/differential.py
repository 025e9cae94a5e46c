"""Differential test: the same statements on Creek and on plain SQLite.

Both must return the same rows or the same error, and hold the same tables afterwards. Run many
statements with `python -m tests.sql.differential --statements 20000`.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import apsw

from creekdb.datatypes.sql import SQL
from creekdb.execution.sequential import OperationRaised
from tests.sql.grammar import Grammar

STATEMENTS_PER_DATABASE: Final = 60
_POSITION: Final = re.compile(r" \(line \d+, column \d+\)$")
_CONSTRAINT: Final = re.compile("cannot store|UNIQUE|NOT NULL|CHECK|FOREIGN KEY|datatype mismatch")
_CLASS: Final = re.compile(r"^\w+: ")


class Difference(AssertionError):
    """Statement with another result than on SQLite."""


class Pair:
    """A database of Creek and a database of SQLite with the same contents."""

    def __init__(self) -> None:
        self.machine = SQL.sequential()
        self.reference = apsw.Connection(":memory:")
        self.reference.execute("PRAGMA foreign_keys = ON")
        self.reference.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        self.reference.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        self.statements: list[str] = []
        self.refusal: str | None = None
        """Error of the last statement, if it has a feature that Creek does not support."""

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> bool:
        """Execute a statement on both. Return False if it raised an error on both."""
        self.statements.append(statement)
        ours = self._execute_on_creek(statement, parameters)
        theirs = self._execute_on_sqlite(statement, parameters)
        if ours != theirs and not _is_choice_of_errors(ours, theirs):
            raise self._difference(ours, theirs)
        return not isinstance(ours, str)

    def execute_supported(self, statement: str) -> bool | None:
        """Execute a statement on both, or return None if Creek refuses it by name."""
        self.statements.append(statement)
        ours = self._execute_on_creek(statement, ())
        if isinstance(ours, str) and self.refusal is not None:
            self.statements.pop()
            return None
        theirs = self._execute_on_sqlite(statement, ())
        if ours != theirs and not _is_choice_of_errors(ours, theirs):
            raise self._difference(ours, theirs)
        return not isinstance(ours, str)

    def check_state(self) -> None:
        """Compare the contents of all tables."""
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        for (name,) in self.reference.execute(names).fetchall():
            ours = self._execute_on_creek(f"SELECT * FROM {name}", ())
            theirs = self._execute_on_sqlite(f"SELECT * FROM {name}", ())
            if ours != theirs:
                self.statements.append(f"contents of {name}")
                raise self._difference(ours, theirs)

    def _execute_on_creek(self, statement: str, parameters: tuple[Any, ...]) -> list[str] | str:
        self.refusal = None
        try:
            result = self.machine.call("sql", statement, parameters)
        except OperationRaised as error:
            if str(error).startswith("SqlUnsupported") or "found more" in str(error):
                self.refusal = str(error)
            return _POSITION.sub("", _CLASS.sub("", str(error)))
        return _comparable(statement, result["rows"])

    def _execute_on_sqlite(self, statement: str, parameters: tuple[Any, ...]) -> list[str] | str:
        try:
            rows = self.reference.execute(self._adapted(statement), parameters).fetchall()
        except apsw.Error as error:
            return str(error)
        return _comparable(statement, rows)

    def _adapted(self, statement: str) -> str:
        """Store a table with another primary key than a row id by its key, as Creek does."""
        if "PRIMARY KEY (" not in statement or "WITHOUT ROWID" in statement:
            return statement
        return statement + (", " if statement.endswith("STRICT") else " ") + "WITHOUT ROWID"

    def _difference(self, ours: Any, theirs: Any) -> Difference:
        script = ";\n".join(self.statements)
        return Difference(f"{script}\n--- Creek:\n{ours}\n--- SQLite:\n{theirs}")


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
    for _ in range(count):
        statement = grammar.statement()
        succeeded = pair.execute(statement)
        grammar.apply(statement, succeeded)
        if not statement.startswith(("SELECT", "WITH")):
            pair.check_state()
        yield statement


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
