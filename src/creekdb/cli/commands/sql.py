"""`creek sql`: SQL on a live cluster, interactive or from a script."""

import sys

import click

from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import SUCCESS, CommandFailed
from creekdb.cli.line_editor import history_path
from creekdb.cli.options import AS_JSON, command_limits
from creekdb.cli.output import stdout_console
from creekdb.cli.sql_shell import SqlRunner, SqlShell
from creekdb.cli.sql_text import split_statements
from creekdb.cli.target import ClusterTarget
from creekdb.cli.views.sql_results import printable
from creekdb.dbapi import Connection, Error
from creekdb.dbapi.connection import DATATYPE
from creekdb.errors import UsageError


@click.command(short_help="Query and change tables with SQL.")
@declared
def sql(
    *,
    commands: tuple[str, ...] = option(
        "SQL to execute, instead of reading it from the terminal or from stdin.",
        flag="-c --command",
    ),
    strong: bool = option("Make statements strong, and wait for their stable responses."),
    final: bool = option("Make statements weak, but wait for their final responses."),
    timeout: float = option(
        "Upper bound for the wait for a response, in seconds.",
        10.0,
        click.FloatRange(0, 86_400, min_open=True),
    ),
    as_json: bool = AS_JSON,
    target: ClusterTarget,
) -> int:
    """Execute SQL on a cluster with the data type 'sql', weakly by default. Without -c, read SQL
    from stdin, or show a prompt if that is a terminal. Stops at the first error and exits with 1.

    \b
    Examples:
      creek up --datatype sql
      creek sql
      creek sql -c "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)"
      creek sql --strong --json -c "SELECT * FROM item"
      creek sql < shop.sql
    """
    if strong and final:
        raise click.UsageError("--strong and --final exclude each other: omit one of them")
    client = target.connection(timeout, command_limits().refused_retry_s, DATATYPE)
    try:
        connection = Connection(client, "strong" if strong else "weak", autocommit=True)
        try:
            runner = SqlRunner(connection, stdout_console(), as_json=as_json)
            if not commands and sys.stdin.isatty():
                SqlShell(runner, history_path("sql")).run()
            else:
                _run_script(runner, commands or (sys.stdin.read(),), final)
        finally:
            connection.close()
    except Error as error:
        if isinstance(error.__cause__, UsageError):
            raise UsageError(str(error)) from error
        hint = target.hint_for(error.__cause__)
        raise CommandFailed(f"{printable(str(error))}{hint} [{error.sqlstate}]") from error
    return SUCCESS


def _run_script(runner: SqlRunner, texts: tuple[str, ...], wait: bool) -> None:
    for text in texts:
        statements, rest = split_statements(text)
        position = 0
        for statement in (*statements, *([rest] if rest else [])):
            position = text.index(statement, position)
            line = text.count("\n", 0, position) + 1
            try:
                runner.run(statement, wait=wait)
            except Error as error:
                if line > 1:
                    error.args = (f"{error}, in the statement at line {line} of the input",)
                raise
    if runner.connection.in_transaction:
        raise CommandFailed("the script ended inside a transaction: add COMMIT or ROLLBACK")
