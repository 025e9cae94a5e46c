"""`creek gather`: make a run of what replicas recorded."""

from pathlib import Path

import click

from creekdb.cli.exits import FINE
from creekdb.cli.options import NewFolder
from creekdb.cli.output import program
from creekdb.cli.words import counted
from creekdb.history import gather as gathered
from creekdb.history import save


@click.command(short_help="Make a run of what live replicas recorded.")
@click.argument("recordings", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", type=NewFolder(), required=True, help="The new run folder.")
def gather(recordings: Path, out: Path) -> int:
    """Make one run of what the replicas of a live cluster recorded into the folder RECORDINGS, or
    into folders inside it. Let them come to rest and stop them before.

    \b
    Example:
      creek serve --config replica-0.toml --record recordings
      creek gather recordings --out runs/live
      creek check runs/live
    """
    history = gathered(recordings)
    save(history, out)
    operations, replicas = len(history.operations), len(history.members)
    click.echo(f"{counted(operations, 'operation')} of {counted(replicas, 'replica')}: {out}")
    if not history.quiescent:
        click.echo("they were not at rest when they were stopped: what convergence asks for fails")
    click.echo(f"check it with '{program()} check {out}'")
    return FINE
