"""`creek load`: Parquet files into a live cluster."""

import asyncio
import time
from importlib.util import find_spec
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import CommandFailed
from creekdb.cli.output import ProgressBar, pluralize, print_json
from creekdb.cli.target import AUTHORITY, DEFAULT_ADDRESSES, TOKEN, ClusterTarget
from creekdb.client.errors import CallFailed
from creekdb.errors import UsageError

CALL_TIMEOUT_S = 60.0


@click.command(short_help="Load Parquet files into a live cluster.")
@declared
def load(
    directory: str,
    *,
    servers: tuple[str, ...] = option(
        "Client addresses of replicas.  [default: the first three replicas of 'creek up']",
        DEFAULT_ADDRESSES,
        flag="--servers --at",
        metavar="HOST:PORT,…",
        envvar="CREEK_AT",
        show_envvar=True,
        show_default=False,
    ),
    table: str | None = option(
        "SQL table that the rows are written to. Without it, the columns are 'key' and 'value'."
    ),
    json_columns: tuple[str, ...] = option(
        "Column of JSON texts, whose values are stored. May be repeated.", flag="--json-column"
    ),
    as_json: bool = option("Print the result as JSON.", flag="--json"),
    token: str = TOKEN,
    authority: str | None = AUTHORITY,
) -> None:
    """Write the rows of the Parquet files in DIRECTORY to a cluster, many at a time.

    The columns must be 'key' and 'value', or with --table columns of that table, including its
    primary key. A row replaces an earlier one with the same key, so an interrupted load can be
    repeated. DIRECTORY may also be an output of 'creek export'.

    \b
    Examples:
      creek load words
      creek load s3a://lake/orders --table orders --servers 10.0.0.2:7100
      creek load shop --json         'shop' was written by 'creek export'
    """
    if find_spec("pyarrow") is None:
        raise UsageError("creek load requires pyarrow: pip install 'creekdb[export]'")
    target = ClusterTarget(servers, token, authority)
    try:
        result = asyncio.run(_load(target, directory, table, json_columns))
    except CallFailed as error:
        raise target.failure(f"cannot load {directory}", error) from error
    if as_json:
        print_json(result)
        return
    rows, rate = pluralize(result["rows"], "row"), round(result["rows_per_second"])
    click.echo(f"{directory}: {rows} loaded in {result['seconds']:.1f} s, {rate:,} rows/s")


async def _load(
    target: ClusterTarget, directory: str, table: str | None, json_columns: tuple[str, ...]
) -> dict[str, Any]:
    from creekdb.pipeline.stages.load import find_files, load_files  # noqa: PLC0415 - optional

    files = find_files(directory)
    progress = ProgressBar(
        BarColumn(), MofNCompleteColumn(), "rows", TimeRemainingColumn(), total=files.row_count
    )
    loaded = 0

    def advance(count: int) -> None:
        nonlocal loaded
        loaded += count
        progress.update(completed=loaded)

    async with target.open(CALL_TIMEOUT_S) as db:
        begin_s = time.perf_counter()
        with progress:
            try:
                rows = await load_files(db, files, table, json_columns, advance)
            except CallFailed as error:
                if loaded == 0:
                    raise
                done = f"{pluralize(loaded, 'row')} of {files.row_count} were loaded"
                raise CommandFailed(
                    f"cannot load all of {directory}: {error}; {done}, repeat the load"
                ) from error
        seconds = time.perf_counter() - begin_s
    return {
        "rows": rows,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / max(seconds, 1e-9), 1),
        "files": len(files.files),
        "target": table or "put",
    }
