"""`creek export`: what a cluster has committed, as Parquet."""

import tempfile
from importlib.util import find_spec
from pathlib import Path

import click

from creekdb.cli.backup import fetch
from creekdb.cli.call import addresses_option, authority_option, token_option, why
from creekdb.cli.exits import FINE, ILLEGAL
from creekdb.cli.options import NewFolder, is_given
from creekdb.cli.output import show_json
from creekdb.cli.words import counted
from creekdb.client import NotDone
from creekdb.errors import UsageError


@click.command(short_help="Write what a cluster has committed as Parquet, for Spark.")
@click.argument("backup", required=False, type=click.Path(path_type=Path))
@click.option("--out", type=NewFolder(), required=True, help="The new folder.")
@click.option(
    "--recording",
    "recordings",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where replicas recorded what they did ('creek serve --record'): more operations.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@addresses_option
@token_option
@authority_option
@click.pass_context
def export(
    context: click.Context,
    backup: Path | None,
    out: Path,
    recordings: tuple[Path, ...],
    as_json: bool,
    addresses: tuple[str, ...],
    token: str,
    authority: str | None,
) -> int:
    """Write the state and the committed operations of a cluster as Parquet: of a cluster that runs,
    or of a BACKUP. A replica has the operations since its last checkpoint, and a recording those
    since it began: from which one on they are complete is told, and stands in export.json.

    \b
    Examples:
      creek export --out shop
      creek export --at 10.0.0.2:7100 --out shop --recording recordings
      creek export shop.backup --out shop
      spark.read.parquet("shop/state")         in Spark
    """
    if backup is not None and is_given(context, "addresses"):
        raise UsageError("name a backup, or replicas with --at, but not both")
    if find_spec("pyarrow") is None:
        raise UsageError("creek export needs another package: pip install 'creekdb[pipeline]'")
    from creekdb.pipeline.export import export as write  # noqa: PLC0415 - if it is there

    if backup is not None:
        exported = write(backup, out, recordings)
    else:
        with tempfile.TemporaryDirectory(prefix="creek-") as folder:
            fetched = Path(folder) / "fetched.backup"
            try:
                fetch(fetched, addresses, token, authority, operations=True)
            except NotDone as error:
                click.echo(f"creek: nothing was exported: {why(error, addresses)}", err=True)
                return ILLEGAL
            exported = write(fetched, out, recordings)
    if as_json:
        show_json(exported)
        return FINE
    click.echo(
        f"{out}: {counted(exported.registers, 'register')} of '{exported.datatype}' after "
        f"{counted(exported.length, 'committed operation')}"
    )
    operations = counted(exported.operations, "operation")
    if exported.complete_from == exported.length:
        click.echo(f"{operations}; the last ones are not at hand")
    else:
        click.echo(f"{operations}, complete from index {exported.complete_from} on")
    return FINE
