"""The command itself: its subcommands, its exit codes, and how it complains.

A mistake of the user is one line on stderr and exit code 2, never a traceback.
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
from creekdb.cli.exit_codes import FAILURE, INTERRUPTED, IO_ERROR, PIPE_CLOSED, USAGE_ERROR
from creekdb.cli.lazy_group import LazyGroup
from creekdb.errors import SUGGESTION_CUTOFF, HelperEnded, StorageFault, UsageError
from creekdb.execution.python_runtime import build_kind

SECTIONS = {
    "A live cluster": ("up", "call", "status", "serve", "member", "certs"),
    "What it keeps": ("backup", "restore", "export"),
    "Simulation": ("simulate", "fuzz", "check"),
    "Measuring": ("bench", "live-run", "gather", "pipeline"),
}
"""Commands as the help shows them: what one needs first goes first."""


MODULES: Final = {
    "restore": "backup",
    "export": "backup",
    "gather": "history",
    "check": "history",
    "pipeline": "pipeline.group",
}
"""Modules of commands that share a file with others."""


@click.group(
    cls=LazyGroup,
    lazily={
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
    """Creek, a replicated store in which every operation chooses its own consistency.

    \b
    Examples:
      creek up                              a cluster of three, on this machine
      creek call put lamp 3                 while it runs, an operation on it
      creek status                          how its replicas are
      creek backup shop.backup              what it has committed, in a file
      creek serve --config replica.toml     one replica of a live cluster
      creek simulate --story                a network breaks and heals, told
      creek simulate --seed 7 --out runs/7  one run, measured, checked and kept
      creek check runs/7                    check it again
      creek fuzz --seeds 200                look for a seed that breaks it
      creek pipeline run                    the paper's experiments, as a page

    \b
    Exit codes:
      0  fine                                  2  a mistake in the command
      1  something illegal found, or not done  3  a file or disk failed
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign shows another
    try:
        code = command.main(arguments, prog_name="creek", standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        return _print_error(str(error), USAGE_ERROR)
    except NoArgsIsHelpError as error:  # a group, and none of its commands
        click.echo(error.format_message(), err=True)
        return USAGE_ERROR
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "creek"
        return _print_error(f"{_usage_message(error)} (see '{path} --help')", USAGE_ERROR)
    except click.ClickException as error:
        return _print_error(error.format_message(), USAGE_ERROR)
    except StorageFault as error:
        return _print_error(str(error), IO_ERROR)
    except HelperEnded as error:
        return _print_error(str(error), FAILURE)
    except click.Abort:
        return _print_error("interrupted", INTERRUPTED)
    except (SystemExit, BrokenPipeError):  # click and rich exit when nobody reads any more
        _discard_stdout()
        return PIPE_CLOSED
    except OSError as error:
        _discard_stdout()
        broke = isinstance(error, ConnectionError)
        what = error.filename or ("a connection broke" if broke else "cannot write the output")
        return _print_error(f"{what}: {error.strerror or error}", IO_ERROR)
    return code if isinstance(code, int) else 0


def _usage_message(error: click.UsageError) -> str:
    """The message; of an unknown name with the one that was probably meant, if there is one."""
    name = getattr(error, "option_name", None) or getattr(error, "command_name", None)
    known = getattr(error, "possibilities", None)
    if name and name[1:].isdigit():
        return f"{error.message} Before a number below zero write '--'."
    if not name or known is None:
        return error.format_message()
    bare = {each.lstrip("-"): each for each in known}
    likely = get_close_matches(name.lstrip("-"), bare, n=1, cutoff=SUGGESTION_CUTOFF)
    return f"{error.message} Did you mean '{bare[likely[0]]}'?" if likely else error.message


def _print_error(message: str, code: int) -> int:
    with suppress(OSError):  # when nobody listens, the code still tells
        click.echo(f"creek: {' '.join(message.split())}", err=True)
    return code


def _discard_stdout() -> None:
    """What is still buffered goes nowhere, lest Python fail once more when it ends."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # not a real file, as in a test
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
