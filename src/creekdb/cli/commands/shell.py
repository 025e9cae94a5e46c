"""`creek shell`: calls of operations on a live cluster, from a prompt."""

import sys

import click

from creekdb.cli.declaration import declared, option
from creekdb.cli.line_editor import history_path
from creekdb.cli.operation_shell import OperationShell
from creekdb.cli.options import command_limits
from creekdb.cli.target import ClusterTarget
from creekdb.client import CallFailed
from creekdb.errors import UsageError


@click.command(short_help="Call operations from a prompt.")
@declared
def shell(
    *,
    timeout: float = option(
        "Upper bound for the wait for a response, in seconds.",
        10.0,
        click.FloatRange(0, 86_400, min_open=True),
    ),
    target: ClusterTarget,
) -> None:
    """Call operations from a prompt with history and completion, weakly by default. All calls form
    one session. The shell also prints when a weak call is final, and if its result changed.

    \b
    Examples:
      creek shell
      creek shell --at 127.0.0.1:7101
    """
    if not sys.stdin.isatty():
        raise UsageError("the shell requires a terminal; use 'creek call' in a script")
    try:
        db = target.connection(timeout, command_limits().refused_retry_s).open()
    except CallFailed as error:
        raise target.failure("no connection", error) from error
    try:
        click.echo(f"Connected to replica {db.replica}. Press Tab, or write .help, for operations.")
        OperationShell(db, history_path("shell")).run()
    finally:
        db.close()
