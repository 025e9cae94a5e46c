"""`creek gather` and `creek check`: make a run of recordings, and check a saved run."""

from pathlib import Path

import click

from creekdb.checkers import check_all, verdict_rows
from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import EXISTING_DIRECTORY, NEW_RUN, add_working_directory_to_path
from creekdb.cli.output import command_name, pluralize, print_json, print_lines
from creekdb.cli.views.run_summary import is_legal, verdict_lines
from creekdb.errors import UsageError
from creekdb.evaluation.experiment import datatype_of_history
from creekdb.history import load_run, merge_recordings, save_run, save_verdicts


@click.command(short_help="Merge the recordings of live replicas into a run.")
@declared
def gather(recordings: Path = argument(type=EXISTING_DIRECTORY), *, out: Path = NEW_RUN) -> None:
    """Merge the recordings of the replicas of a live cluster, in the directory RECORDINGS or below
    it, into one run. Before stopping the replicas, wait until they are quiescent.

    \b
    Example:
      creek serve --config replica-0.toml --record recordings
      creek gather recordings --out runs/live
      creek check runs/live
    """
    history = merge_recordings(recordings)
    save_run(history, out)
    operations, replicas = len(history.operations), len(history.members)
    click.echo(f"{pluralize(operations, 'operation')} of {pluralize(replicas, 'replica')}: {out}")
    if not history.quiescent:
        click.echo(
            "the replicas were not quiescent when they stopped: convergence checks will fail"
        )
    click.echo(f"check it with '{command_name()} check {out}'")


@click.command(short_help="Check a saved run.")
@declared
def check(
    run_directory: Path, *, as_json: bool = option("Print the verdicts as JSON.", flag="--json")
) -> int:
    """Check the run in RUN_DIRECTORY for every property that Creek guarantees.

    The verdicts are printed and saved in the directory, in verdicts.json. Exits with 1 if one of
    them is illegal.

    \b
    Example:
      creek simulate --random-faults --seed 7 --out runs/seven
      creek check runs/seven
    """
    if not run_directory.exists():
        raise UsageError(f"{run_directory} does not exist: name a directory of 'simulate --out'")
    history = load_run(run_directory)
    if history.operations and not any(log.events for log in history.logs):
        raise UsageError(
            f"{run_directory} contains measurements only, no events of replicas: "
            f"check it with '{command_name()} pipeline verify {run_directory}'"
        )
    add_working_directory_to_path()
    verdicts = check_all(history, datatype_of_history(history))
    save_verdicts(run_directory, verdict_rows(verdicts))
    if as_json:
        print_json(verdict_rows(verdicts))
    else:
        print_lines(verdict_lines(verdicts))
    return SUCCESS if is_legal(verdicts) else FAILURE
