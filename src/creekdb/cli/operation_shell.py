"""Interactive shell of `creek shell`: calls of operations from a prompt."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from creekdb.cli.line_editor import line_editor, matching_word
from creekdb.cli.options import parse_argument
from creekdb.cli.views.responses import ShownResponse, response_line, result_text
from creekdb.client import BlockingCall, BlockingDatabase, CallFailed, CallResponse, OperationFailed
from creekdb.errors import UsageError
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.request import Operation
from creekdb.wire.deduplication import describe_call

PENDING_MAX: Final = 100
"""Upper bound for the weak calls whose final responses the shell awaits."""
LEVELS: Final = ("weak", "strong")
COMMANDS: Final = {
    ".weak": "make calls weak: they respond at once, and may change",
    ".strong": "make calls strong: they respond once their position is final",
    ".help": "show this list",
    ".quit": "leave the shell, as does Ctrl-D",
}
ALIASES: Final = {"help": ".help", "quit": ".quit", "exit": ".quit"}
"""Words that stand for commands, unless they name operations."""
HELP: Final = """\
Write an operation and its arguments, quoted as in a shell, such as: put lamp 3
An argument that is JSON is parsed. 'strong' or 'weak' before the operation holds for one call."""


class OperationShell:
    """Prompt with history, completion and commands that begin with a dot. It is one session."""

    def __init__(self, db: BlockingDatabase, history: Path | None) -> None:
        self._db = db
        self._history = history
        self._level = LEVELS[0]
        self.pending: list[tuple[Operation, BlockingCall[Any]]] = []
        """Weak calls whose final responses have not been reported."""

    def run(self, read_line: Callable[[str], str] = input) -> None:
        """Read and execute lines until the end of the input."""
        with line_editor(self._history, self.complete):
            while True:
                self._report_final_responses()
                try:
                    line = self._without_alias(read_line(f"{self._level}> ").strip())
                    if line == ".quit":
                        return
                    self._execute(line)
                except EOFError:
                    click.echo()
                    return
                except KeyboardInterrupt:
                    click.echo()
                except (CallFailed, UsageError) as error:
                    click.echo(f"creek: {error}", err=True)

    def complete(self, prefix: str, number: int) -> str | None:
        """Return the completion `number` of a prefix, or None. A space follows the only match."""
        words = (*self._db.operations.names(), *LEVELS, *COMMANDS)
        word = matching_word(words, prefix, number)
        is_only = number == 0 and matching_word(words, prefix, 1) is None
        return f"{word} " if word is not None and is_only else word

    def _without_alias(self, line: str) -> str:
        return line if line in self._db.operations.names() else ALIASES.get(line, line)

    def _execute(self, line: str) -> None:
        if line.startswith("."):
            self._command(line)
            return
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"{error}: close the quotation") from error
        level = words.pop(0) if words[1:] and words[0] in LEVELS else self._level
        if words:
            self._call(level, Operation(words[0], tuple(map(parse_argument, words[1:]))))

    def _command(self, name: str) -> None:
        if name not in COMMANDS:
            raise UsageError(f"unknown command {name}; .help lists all commands")
        if name == ".help":
            operations = self._db.operations
            width = max(map(len, COMMANDS))
            signatures = (f"  {operations.signature_text(each)}" for each in operations.names())
            commands = (f"  {each:{width}}  {text}" for each, text in COMMANDS.items())
            click.echo("\n".join((HELP, *signatures, *commands)))
        else:
            self._level = name[1:]

    def _call(self, level: str, operation: Operation) -> None:
        proxy = self._db.strong if level == "strong" else self._db.weak
        call = proxy.begin(operation.name, *operation.arguments)
        with suppress(OperationFailed):  # the error is the response, which is shown below
            _ = call.stable if level == "strong" else call.tentative
        response = call.latest
        assert response is not None, "the awaited response has arrived"
        is_readonly = self._db.operations.is_readonly(operation.name)
        click.echo(response_line(shown(response), operation, is_readonly))
        if response.kind == ResponseKind.TENTATIVE and not is_readonly:
            self.pending = [*self.pending[1 - PENDING_MAX :], (operation, call)]

    def _report_final_responses(self) -> None:
        """Print which earlier weak calls are final now."""
        waiting = []
        for operation, call in self.pending:
            if not call.is_complete:
                waiting.append((operation, call))
                continue
            response, text = call.latest, describe_call(operation)
            if response is None or response.kind == ResponseKind.TENTATIVE:
                click.echo(f"{text}: the outcome is unknown; the replica was lost")
            elif response.changed:
                result = result_text(shown(response))
                click.secho(f"{text}: changed, finally {result}", fg="red", bold=True)
            else:
                click.secho(f"{text}: final", dim=True)
        self.pending = waiting


def shown(response: CallResponse) -> ShownResponse:
    """Return a response as the commands show it."""
    kind, changed = ResponseKind(response.kind).value, response.changed
    if response.error is not None:
        return {"kind": kind, "error": response.error, "changed": changed}
    return {"kind": kind, "value": response.value, "changed": changed}
