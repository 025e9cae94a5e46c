"""Root of the `creek` command: subcommands, exit codes and error messages.

A usage error is one line on stderr and exit code 2, never a traceback.
"""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Final

import click
from click.exceptions import NoArgsIsHelpError

import creekdb
from creekdb.cli.exit_codes import (
    FAILURE,
    INTERRUPTED,
    IO_ERROR,
    PIPE_CLOSED,
    SUCCESS,
    USAGE_ERROR,
    CommandFailed,
)
from creekdb.cli.lazy_group import LazyGroup
from creekdb.cli.options import CommandLimits
from creekdb.errors import SUGGESTION_CUTOFF, HelperEnded, StorageFault, UsageError
from creekdb.execution.python_runtime import build_kind

SECTIONS = {
    "Live cluster": (
        "up",
        "call",
        "status",
        "shell",
        "sql",
        "changes",
        "load",
        "cut",
        "heal",
        "kill",
        "serve",
        "member",
        "certs",
        "torture",
    ),
    "Backup and export": ("backup", "restore", "export"),
    "Simulation": ("simulate", "fuzz", "explore", "check"),
    "Measurement": ("bench", "live-run", "gather", "pipeline"),
}
"""Commands by help section, in the order of the help."""


MODULES: Final = {
    "cut": "faults",
    "heal": "faults",
    "kill": "faults",
    "restore": "backup",
    "export": "backup",
    "gather": "history",
    "check": "history",
    "pipeline": "pipeline.group",
}
"""Modules of the commands that share a module."""


WRONG_PATH_ERRORS: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""Errors of the system for a path that a user has named wrongly."""


@click.group(
    cls=LazyGroup,
    modules={
        name: MODULES.get(name, name.replace("-", "_"))
        for names in SECTIONS.values()
        for name in names
    },
    sections=SECTIONS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(creekdb.__version__, message=f"creek %(version)s, {build_kind()}")
@click.pass_context
def command(context: click.Context) -> None:
    """Creek, a replicated store with a consistency level for every operation.

    \b
    Examples:
      creek up                              run three replicas on this machine
      creek call put lamp 3                 call an operation on them
      creek status                          show the state of the replicas
      creek backup shop.backup              write the committed state to a file
      creek serve --config replica.toml     run one replica of a live cluster
      creek simulate --story                walk through a network partition
      creek simulate --seed 7 --out runs/7  measure, check and save one run
      creek check runs/7                    check a saved run again
      creek fuzz --seeds 200                check runs under random faults
      creek pipeline run                    reproduce the paper's experiments

    \b
    Exit codes:
      0  success                            3  file or disk error
      1  violation found, or call failed    4  check or search without a verdict
      2  usage error                        5  success that became an error
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None, limits: CommandLimits | None = None) -> int:
    """Run the command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals that lack a character
    try:
        code = command.main(arguments, prog_name="creek", standalone_mode=False, obj=limits)
        sys.stdout.flush()
    except UsageError as error:
        return _print_error(str(error), USAGE_ERROR)
    except NoArgsIsHelpError as error:  # a group without a command
        click.echo(error.format_message(), err=True)
        return USAGE_ERROR
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "creek"
        return _print_error(f"{_usage_message(error)} (see '{path} --help')", USAGE_ERROR)
    except click.ClickException as error:
        return _print_error(error.format_message(), USAGE_ERROR)
    except StorageFault as error:
        return _print_error(str(error), _storage_exit_code(error.__cause__))
    except CommandFailed as error:
        return _print_error(str(error), error.exit_code)
    except HelperEnded as error:
        return _print_error(str(error), FAILURE)
    except click.Abort:
        return _print_error("interrupted", INTERRUPTED)
    except (SystemExit, BrokenPipeError) as error:
        if isinstance(error, SystemExit) and error.code == SUCCESS:  # shell completion
            return SUCCESS
        _discard_stdout()  # click and rich exit when the reader closes the pipe
        return PIPE_CLOSED
    except OSError as error:
        _discard_stdout()
        is_connection = isinstance(error, ConnectionError)
        subject = error.filename or (
            "connection lost" if is_connection else "cannot write the output"
        )
        return _print_error(f"{subject}: {error.strerror or error}", _storage_exit_code(error))
    return code if isinstance(code, int) else 0


def _storage_exit_code(error: BaseException | None) -> int:
    """Return the exit code for a failed access to a file. A wrong path is a usage error."""
    return USAGE_ERROR if isinstance(error, WRONG_PATH_ERRORS) else IO_ERROR


def _usage_message(error: click.UsageError) -> str:
    """Return the message, with the most similar name if a name is unknown."""
    name = getattr(error, "option_name", None) or getattr(error, "command_name", None)
    known = getattr(error, "possibilities", None)
    if name and name[1:].isdigit():
        return f"{error.message} Write '--' before a negative number."
    if not name or known is None:
        message = error.format_message()
        is_sql = error.ctx is not None and error.ctx.info_name == "sql"
        is_extra = message.startswith("Got unexpected extra argument")
        return f"{message}. Write '-c' before SQL." if is_sql and is_extra else message
    bare = {each.lstrip("-"): each for each in known}
    likely = get_close_matches(name.lstrip("-"), bare, n=1, cutoff=SUGGESTION_CUTOFF)
    return f"{error.message} Did you mean '{bare[likely[0]]}'?" if likely else error.message


def _print_error(message: str, code: int) -> int:
    with suppress(OSError):  # the exit code reports the error even if stderr is closed
        click.echo(f"creek: {' '.join(message.split())}", err=True)
    return code


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that Python does not fail again at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # not a real file, as in a test
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
