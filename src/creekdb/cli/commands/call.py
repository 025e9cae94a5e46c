"""`creek call`: call one operation on a live cluster."""

import asyncio
from typing import Any, Final

import click

from creekdb.cli.completion import complete_operation
from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.exit_codes import APOLOGY, FAILURE, SUCCESS, CommandFailed
from creekdb.cli.options import AS_JSON, parse_argument
from creekdb.cli.output import print_json
from creekdb.cli.target import ClusterTarget, pending_notice
from creekdb.cli.views.responses import ShownResponse, response_line, result_text
from creekdb.client import NotDone, OperationFailed, Unknown
from creekdb.client.calls import Call
from creekdb.client.errors import CallFailed
from creekdb.errors import UsageError
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.request import Operation
from creekdb.wire.reject_reason import RejectReason

FAILURES: Final[dict[type[CallFailed], str]] = {
    NotDone: "the call was not executed",
    Unknown: "the outcome of the call is unknown",
}
MISTAKES: Final = (RejectReason.UNKNOWN_OPERATION, RejectReason.BAD_ARGUMENTS)
"""Rejections of a call that is wrong itself: the exit code is 2."""


@click.command(short_help="Call an operation on a live cluster.")
@declared
def call(
    operation: str = argument(shell_complete=complete_operation),
    arguments: tuple[str, ...] = argument(),
    *,
    strong: bool = option("Make a strong call, and wait for its stable response."),
    final: bool = option("Make a weak call, but wait for its final response."),
    timeout: float = option(
        "Upper bound for the wait for the response, in seconds.",
        10.0,
        click.FloatRange(0, 86_400, min_open=True),
    ),
    as_json: bool = AS_JSON,
    target: ClusterTarget,
) -> int:
    """Call an operation, weakly by default. An argument that is JSON is parsed, any other is a
    string; write '--' before an argument that begins with '-'. Exits with 1 if the operation raised
    an error, was not executed, or got no last response in time. Exits with 2 if the call is wrong,
    and with 5 if --final finds an error after a tentative success, which needs an apology.

    \b
    Examples:
      creek call put lamp 3
      creek call get lamp --strong
      creek call increment visits --at 127.0.0.1:7101 --final
      creek call --strong -- increment visits -1
    """
    if strong and final:
        raise UsageError("--strong and --final exclude each other: omit one of them")
    values = tuple(map(parse_argument, arguments))

    async def invoke() -> tuple[ShownResponse, bool, list[str]]:
        """Return the response, True if the operation is read-only, and notices."""
        async with target.open(timeout) as db:
            call = (db.strong if strong else db.weak)(operation, *values)
            try:
                response = await (_wait_final(call, timeout) if final else _wait_response(call))
                return response, db.operations.is_readonly(operation), []
            except Unknown as error:
                return await _first_response(call), True, _timeout_lines(call, error)

    try:
        response, is_readonly, notices = asyncio.run(invoke())
    except OperationFailed as error:
        if as_json:
            print_json({"kind": error.kind, "error": str(error), "changed": error.changed})
        raise _operation_failure(error, is_shown=final) from error
    except CallFailed as error:
        if isinstance(error, NotDone) and error.reason in MISTAKES:
            raise UsageError(str(error)) from error
        raise target.failure(FAILURES[type(error)], error) from error
    if notices and strong:
        click.echo(f"creek: tentative response: {result_text(response)}", err=True)
    elif as_json:
        print_json(response)
    else:
        click.echo(response_line(response, Operation(operation, values), is_readonly))
    for line in notices:
        click.echo(f"creek: {line}", err=True)
    return FAILURE if notices else SUCCESS


def _operation_failure(error: OperationFailed, *, is_shown: bool) -> CommandFailed:
    """Return the failure of the command. `is_shown` is True if a user acts on the first response.

    An apology is due if that response was a success.
    """
    if not (error.changed and is_shown):
        return CommandFailed(f"the operation raised an error: {error}")
    first = result_text(asyncio.run(_first_response(error.call)))
    return CommandFailed(
        f"the result changed: the tentative response was {first}, and the {error.kind} one is the "
        f"error {error}; apologise to the user of the first one",
        APOLOGY,
    )


async def _wait_response(call: Call[Any]) -> ShownResponse:
    return {
        "kind": ResponseKind.STABLE if call.message.strong else ResponseKind.TENTATIVE,
        "value": await call,
    }


async def _wait_final(call: Call[Any], timeout: float) -> ShownResponse:
    """Wait for the final response; print the tentative one if the wait takes long."""
    tentative = result_text(await _first_response(call))
    notice = f"tentative response: {tentative}; waiting up to {timeout:g} s for the final response"
    with pending_notice(lambda: notice):
        last = await call.final
    return {"kind": ResponseKind.FINAL, "value": last.value, "changed": last.changed}


async def _first_response(call: Call[Any]) -> ShownResponse:
    """Return the first response, which may be an error. Raises the failure if there is none."""
    try:
        return {"kind": ResponseKind.TENTATIVE, "value": await call.tentative}
    except OperationFailed as error:
        return {"kind": ResponseKind.TENTATIVE, "error": str(error)}


def _timeout_lines(call: Call[Any], error: Unknown) -> list[str]:
    """Describe the future of a call with a tentative response but no last one in time."""
    replica = "the replica" if call.id is None else f"replica {call.id.replica}"
    return [
        f"{error}; check with 'creek status' whether a majority is up",
        f"the call is not lost: {replica} retains it until a majority fixes its position; "
        "then read the result with a strong call",
    ]
