"""`creek gather`: make a run of what replicas recorded.

`creek check`: judge a run that was kept.
"""

from pathlib import Path

import click

from creekdb.checkers import check_all, verdict_rows
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import NewDirectory, add_working_directory_to_path
from creekdb.cli.output import command_name, pluralize, print_json, print_lines
from creekdb.cli.views.run_summary import is_legal, verdict_lines
from creekdb.errors import UsageError
from creekdb.evaluation.experiment import datatype_of_history
from creekdb.history import load_run, save_run, save_verdicts
from creekdb.history import merge_recordings as gathered


@click.command(short_help="Make a run of what live replicas recorded.")
@click.argument("recordings", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", type=NewDirectory(), required=True, help="The new run folder.")
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
    save_run(history, out)
    operations, replicas = len(history.operations), len(history.members)
    click.echo(f"{pluralize(operations, 'operation')} of {pluralize(replicas, 'replica')}: {out}")
    if not history.quiescent:
        click.echo("they were not at rest when they were stopped: what convergence asks for fails")
    click.echo(f"check it with '{command_name()} check {out}'")
    return SUCCESS


@click.command(short_help="Check a run that was kept.")
@click.argument("run_folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
def check(run_folder: Path, as_json: bool) -> int:
    """Check the run in RUN_FOLDER for every property that Creek promises.

    The verdicts are printed and kept in the folder, in verdicts.json. Exits with 1 when one of them
    is illegal.

    \b
    Example:
      creek simulate --random-faults --seed 7 --out runs/seven
      creek check runs/seven
    """
    if not run_folder.exists():
        raise UsageError(f"{run_folder} does not exist: name a folder that simulate --out has kept")
    history = load_run(run_folder)
    if history.operations and not any(log.events for log in history.logs):
        raise UsageError(
            f"{run_folder} was only measured, and does not say what replicas did: "
            f"check it with '{command_name()} pipeline verify {run_folder}'"
        )
    add_working_directory_to_path()
    verdicts = check_all(history, datatype_of_history(history))
    save_verdicts(run_folder, verdict_rows(verdicts))
    if as_json:
        print_json(verdict_rows(verdicts))
    else:
        print_lines(verdict_lines(verdicts))
    return SUCCESS if is_legal(verdicts) else FAILURE
