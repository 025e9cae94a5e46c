"""Interactive shell and script runner of `creek sql`."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from creekdb.cli.line_editor import line_editor, matching_word
from creekdb.cli.output import print_json
from creekdb.cli.sql_text import split_statements
from creekdb.cli.views.sql_results import (
    STATE_STYLES,
    printable,
    result_document,
    result_table,
    summary,
)
from creekdb.dbapi import Connection, Cursor, Error, Outcome, OutcomeState

PENDING_MAX: Final = 100
"""Maximum number of weak statements whose final responses the shell awaits."""
HELP: Final = """\
.weak            make statements weak: they respond at once, and may change.
.strong          make statements strong: they respond once their position is final.
.tables          list tables and views.
.schema [TABLE]  show the statements that created the schema.
.help            show this list.
.quit            leave the shell, as does Ctrl-D.
Any other line is SQL and ends with a semicolon. Ctrl-C abandons a statement."""
SYNONYMS: Final = {
    ".exit": ".quit",
    ".quit": ".quit",
    "exit": ".quit",
    "help": ".help",
    "quit": ".quit",
}
"""Commands as users of other shells type them. No statement begins with one of these words."""
KEYWORDS: Final = (
    "ALTER",
    "AND",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CASE",
    "CHECK",
    "COLUMN",
    "COMMIT",
    "CREATE",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXISTS",
    "FROM",
    "GROUP",
    "HAVING",
    "IN",
    "INDEX",
    "INSERT",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "ON",
    "OR",
    "ORDER",
    "PRIMARY",
    "REFERENCES",
    "RETURNING",
    "ROLLBACK",
    "SELECT",
    "SET",
    "TABLE",
    "THEN",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
)
TABLES: Final = "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name"
SCHEMA: Final = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY tbl_name, type DESC"
SCHEMA_OF_TABLE: Final = (
    "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND lower(tbl_name) = lower(?) "
    "ORDER BY type DESC"
)


class SqlRunner:
    """Executes statements and prints their results."""

    def __init__(self, connection: Connection, console: Console, *, as_json: bool) -> None:
        self.connection = connection
        self._console = console
        self._as_json = as_json

    def run(self, statement: str, *, wait: bool = False) -> tuple[Cursor, Outcome | None]:
        """Execute one statement and print its result. `wait` waits until it is final."""
        cursor = self.connection.cursor().execute(statement)
        outcome = None if self.connection.in_transaction else _outcome(cursor, wait)
        if self._as_json:
            print_json(result_document(cursor, outcome))
            return cursor, outcome
        if outcome is not None and outcome.state == OutcomeState.CHANGED:
            self._print_change(statement, outcome)
            return cursor, outcome
        table = result_table(cursor)
        if table is not None:
            self._console.print(table)
        self._console.print(summary(statement, cursor, outcome))
        return cursor, outcome

    def report_final(self, statement: str, outcome: Outcome) -> None:
        """Print that the response to an earlier weak statement is final."""
        if outcome.state == OutcomeState.CHANGED:
            self._print_change(statement, outcome)
        else:
            state = Text(outcome.state, STATE_STYLES[outcome.state])
            self._console.print(Text.assemble(_shortened(statement), ": ", state))

    def _print_change(self, statement: str, outcome: Outcome) -> None:
        line = Text.assemble(_shortened(statement), ": ", (outcome.state, "bold red"), ", now ")
        if outcome.error is not None:
            line.append(f"fails: {outcome.error}")
        elif outcome.result is not None:
            line.append(f"{outcome.result.row_count} rows: {outcome.result.rows!r}")
        self._console.print(line)


class SqlShell:
    """Prompt with history, completion and commands that begin with a dot."""

    def __init__(self, runner: SqlRunner, history: Path | None) -> None:
        self._runner = runner
        self._history = history
        self._pending: list[tuple[str, Cursor]] = []

    def run(self, read_line: Callable[[str], str] = input) -> None:
        """Read and execute lines until the end of the input."""
        click.echo("SQL ends with a semicolon; .help lists the commands, .quit leaves the shell.")
        with line_editor(self._history, self.complete):
            text = ""
            while True:
                self._report_final_responses()
                try:
                    line = read_line("   ...> " if text else f"{self._prompt()}> ")
                except EOFError:
                    return
                except KeyboardInterrupt:
                    text = ""
                    click.echo()
                    continue
                command = "" if text else _command_in(line)
                if command == ".quit":
                    return
                if command:
                    self._print_errors(lambda command=command: self._command(command))  # type: ignore[misc]
                    continue
                text = self._execute(f"{text}{line}\n")

    def _prompt(self) -> str:
        connection = self._runner.connection
        return f"{connection.consistency}{'*' if connection.in_transaction else ''}"

    def _execute(self, text: str) -> str:
        """Execute the complete statements of a text and return the rest."""
        statements, rest = split_statements(text)
        for statement in statements:
            if not self._print_errors(lambda statement=statement: self._run(statement)):  # type: ignore[misc]
                return ""
        return rest

    def _run(self, statement: str) -> None:
        cursor, outcome = self._runner.run(statement)
        is_query = cursor.description is not None and cursor.lastrowid is None
        if outcome is not None and outcome.state == OutcomeState.TENTATIVE and not is_query:
            self._pending = [*self._pending[1 - PENDING_MAX :], (statement, cursor)]

    def _report_final_responses(self) -> None:
        """Print which earlier statements are final now."""
        waiting = []
        for statement, cursor in self._pending:
            outcome = cursor.outcome()
            if outcome.state == OutcomeState.TENTATIVE:
                waiting.append((statement, cursor))
            else:
                self._runner.report_final(statement, outcome)
        self._pending = waiting

    def _command(self, line: str) -> None:
        name, *arguments = line.split()
        name = name.lower()
        connection = self._runner.connection
        if name in (".weak", ".strong"):
            connection.consistency = name[1:]
        elif name == ".tables":
            self._runner.run(TABLES)
        elif name == ".schema":
            query = (SCHEMA_OF_TABLE, tuple(arguments[:1])) if arguments else (SCHEMA, ())
            found = connection.execute(*query).fetchall()
            for (text,) in found:
                click.echo(f"{printable(text)};")
            if arguments and not found:
                click.echo(f"creek: no table or view {arguments[0]}; .tables lists all", err=True)
        elif name == ".help":
            click.echo(HELP)
        else:
            click.echo(f"creek: unknown command {name}; .help lists all commands", err=True)

    def _print_errors(self, work: Callable[[], None]) -> bool:
        """Run `work` and print its error, if any. Return True if there was none."""
        try:
            work()
        except Error as error:
            click.echo(f"creek: {printable(str(error))} [{error.sqlstate}]", err=True)
            return False
        except KeyboardInterrupt:
            click.echo("\ncreek: interrupted; a change may still take effect", err=True)
            return False
        return True

    def complete(self, prefix: str, state: int) -> str | None:
        """Return the completion number `state` of a prefix, or None."""
        return matching_word((*KEYWORDS, *self._schema_names()), prefix, state)

    def _schema_names(self) -> list[str]:
        connection = self._runner.connection
        if connection.in_transaction:
            return []  # a query would become a part of the transaction
        names = "SELECT name FROM sqlite_schema UNION SELECT c.name FROM sqlite_schema AS t, "
        try:
            cursor = connection.cursor("weak").execute(f"{names}pragma_table_info(t.name) AS c")
        except Error:
            return []
        return sorted(str(name) for (name,) in cursor)


def _outcome(cursor: Cursor, wait: bool) -> Outcome | None:
    """Return the outcome of a statement, or None for one that only controls a transaction."""
    try:
        return cursor.outcome(wait)
    except Error as error:
        if isinstance(error, cursor.connection.InterfaceError):
            return None
        raise


def _command_in(line: str) -> str:
    """Return the command of a line that begins a statement, or '' if that is SQL."""
    stripped = line.strip()
    word = stripped.removesuffix(";").rstrip().lower()
    return SYNONYMS.get(word, stripped if stripped.startswith(".") else "")


def _shortened(statement: str) -> str:
    line = " ".join(statement.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
