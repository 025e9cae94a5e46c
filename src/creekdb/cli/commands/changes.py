"""`creek changes`: the changes that a live cluster commits."""

import asyncio
from contextlib import suppress
from typing import NamedTuple

import click
import msgspec

from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import SUCCESS, CommandFailed
from creekdb.cli.options import parse_argument
from creekdb.cli.target import ClusterTarget
from creekdb.client import Change, ChangePosition, Database
from creekdb.client.changes import parse_position
from creekdb.client.errors import CallFailed
from creekdb.errors import ChangesUnavailable, UsageError
from creekdb.protocol.request import Operation
from creekdb.protocol.values import freeze
from creekdb.wire.changes import change_to_json, parse_start
from creekdb.wire.deduplication import describe_call
from creekdb.wire.json_values import to_json
from creekdb.wire.table_changes import TableChange, table_change_to_json
from creekdb.wire.tentative import StagedChange, staged_change_to_json

CONNECT_TIMEOUT_S = 10.0


@click.command(short_help="Print the changes that a live cluster commits.")
@declared
def changes(
    *,
    follow: bool = option("Wait for further changes, until interrupted."),
    start: str = option(
        "Index of the first change, 'earliest' or 'latest'.  [default: latest with --follow, "
        "otherwise earliest]",
        "",
        show_default=False,
    ),
    prefix: str | None = option(
        "Print only changes of keys that begin with this: text, or a JSON array for tuple keys."
    ),
    table: str = option(
        "Print only changes of the rows of this SQL table, with their columns.",
        "",
        show_default=False,
    ),
    view: str = option(
        "'tentative' also prints the changes that are not final, with their stages. Implies "
        "--follow.",
        "",
        show_default=False,
    ),
    cluster: str = option(
        "Identity of the cluster that --start belongs to; another cluster is an error.",
        "",
        show_default=False,
    ),
    as_json: bool = option("Print one JSON object per change.", flag="--json"),
    target: ClusterTarget,
) -> int:
    """Print the committed requests and the registers that they wrote, in commit order.

    The replicas must keep changes: start them with --keep-changes. Exits with 1 if the changes at
    --start are no longer kept, do not exist yet, or belong to another cluster.

    \b
    Examples:
      creek changes
      creek changes --follow --prefix lamp
      creek changes --follow --table account
      creek changes --view tentative --prefix lamp
      creek changes --follow --start 4711 --json
    """

    parse_position(start, follow)  # rejects a wrong value before the connection

    async def read() -> None:
        async with target.open(CONNECT_TIMEOUT_S) as db:
            await _print_changes(
                db, Selection(prefix, table, view), start, cluster, follow or bool(view), as_json
            )

    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(read())
    except CallFailed as error:
        raise target.failure("cannot read the changes", error) from error
    except ChangesUnavailable as error:
        raise CommandFailed(f"cannot read the changes: {error}") from error
    return SUCCESS


class Selection(NamedTuple):
    """Changes to print."""

    prefix: str | None
    table: str
    view: str

    @property
    def key_prefix(self) -> str | tuple[str | int, ...] | None:
        prefix = self.prefix
        parsed = None if prefix is None else freeze(parse_argument(prefix))
        return parsed if isinstance(parsed, tuple) else prefix


async def _print_changes(
    db: Database, selection: Selection, start: str, cluster: str, follow: bool, as_json: bool
) -> None:
    position = ChangePosition(cluster, _checked_index(start)) if cluster else start
    prefix, table, view = selection.key_prefix, selection.table, selection.view
    stream = db.changes(position, prefix, table=table, view=view, follow=follow)
    async with stream:
        async for change in stream:
            click.echo(_json_line(change) if as_json else _text_line(change))


def _checked_index(start: str) -> int:
    index = parse_start(start)
    if index is None or index < 1:
        raise UsageError(f"--start is '{start}': with --cluster, it must be an index of at least 1")
    return index


def _json_line(change: Change) -> str:
    if isinstance(change, StagedChange):
        content = staged_change_to_json(change)
    elif isinstance(change, TableChange):
        content = table_change_to_json(change)
    else:
        content = change_to_json(change)
    return msgspec.json.encode(content).decode()


def _text_line(change: Change) -> str:
    call = describe_call(Operation(change.operation, change.arguments))
    result = f"raised {change.error}" if change.error is not None else _text(change.value)
    if isinstance(change, TableChange) and change.table:
        writes = _row_texts(change)
    else:
        writes = _register_texts(change)
    level = "strong" if change.strong else "weak"
    notes = ", ".join([level, f"replica {change.replica}", *["changed"] * bool(change.changed)])
    index = f"{change.index}  "
    if isinstance(change, StagedChange):
        index = f"{change.stage:<9}  "
    return f"{index}{call} → {result}  [{'; '.join(writes)}]  ({notes})"


def _register_texts(change: Change) -> list[str]:
    writes = [f"{_text(key)} = {_text(value)}" for key, value in change.writes]
    return writes + [f"{_text(key)} deleted" for key in change.deleted]


def _row_texts(change: TableChange) -> list[str]:
    return [
        f"{row.kind} {_text(row.key_columns if row.values is None else row.values)}"
        for row in change.rows
    ]


def _text(value: object) -> str:
    return msgspec.json.encode(to_json(value)).decode()
