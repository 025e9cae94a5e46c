"""`creek gather` and `creek check`: make a run of recordings, and check a run or a history."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from creekdb.atomic_write import atomic_write
from creekdb.checkers import Inconclusive, Verdict, check_all, verdict_rows
from creekdb.checkers.blackbox import Judgement, ObservedRun, judge, read_calls
from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.exit_codes import FAILURE, INCOMPLETE, SUCCESS
from creekdb.cli.model_loader import ModelArguments, load_model
from creekdb.cli.options import EXISTING_DIRECTORY, NEW_RUN, add_working_directory_to_path
from creekdb.cli.output import command_name, pluralize, print_json, print_lines
from creekdb.cli.views.run_summary import is_legal, verdict_lines
from creekdb.errors import UsageError
from creekdb.evaluation.experiment import datatype_of_history
from creekdb.history import load_run, merge_recordings, save_run, save_verdicts

CALLS_FILE: Final = "calls.jsonl"
"""File in a run directory with the calls that clients observed."""


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


@click.command(short_help="Check a saved run, or a history of any system.")
@declared
def check(
    path: Path,
    *,
    model_arguments: ModelArguments,
    picture: Path | None = option("SVG file for the picture of a counterexample."),
    as_json: bool = option("Print the verdicts as JSON.", flag="--json"),
) -> int:
    """Check the run in the directory PATH for every property that Creek guarantees, or check the
    calls in the file PATH for linearizability.

    A file contains the calls that clients of any system observed: one JSON object per call, or
    events of Jepsen. docs/check-histories.md describes the formats and the models. In a run
    directory, the calls in calls.jsonl are checked too.

    The verdicts are printed, and those on a run are saved in its directory, in verdicts.json. Exits
    with 1 if one of them is illegal. Exits with 4 if none is, but one on the calls is unknown.

    \b
    Examples:
      creek simulate --random-faults --seed 7 --out runs/seven
      creek check runs/seven
      creek check calls.jsonl --model kv
      creek check history.edn --model register --picture counterexample.svg
      creek check calls.jsonl --model shop:shop --json
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist: name a run directory, or a file of calls")
    if path.is_dir():
        verdicts, judgements = _check_run(path, model_arguments)
    else:
        judgements = _check_calls(path, model_arguments)
        verdicts = [each.verdict for each in judgements]
    if as_json:
        print_json(verdict_rows(verdicts))
    else:
        print_lines(verdict_lines(verdicts))
    _draw(judgements, picture, is_hinted=not as_json)
    if not is_legal(verdicts):
        return FAILURE
    is_unknown = any(isinstance(each.verdict, Inconclusive) for each in judgements)
    return INCOMPLETE if is_unknown else SUCCESS


def _check_run(directory: Path, arguments: ModelArguments) -> tuple[list[Verdict], list[Judgement]]:
    """Check what replicas recorded and what clients observed, and save the verdicts."""
    history = load_run(directory)
    if history.operations and not any(log.events for log in history.logs):
        raise UsageError(
            f"{directory} contains measurements only, no events of replicas: "
            f"check it with '{command_name()} pipeline verify {directory}'"
        )
    add_working_directory_to_path()
    verdicts = check_all(history, datatype_of_history(history))
    judgements: list[Judgement] = []
    calls = directory / CALLS_FILE
    if calls.is_file():
        name = arguments.model or str(history.config.get("imported", history.datatype))
        judgements = _check_calls(calls, arguments._replace(model=name))
        verdicts += [each.verdict for each in judgements]
    save_verdicts(directory, verdict_rows(verdicts))
    return verdicts, judgements


def _check_calls(path: Path, arguments: ModelArguments) -> list[Judgement]:
    model = load_model(arguments.model, path)
    run = ObservedRun(datatype=model.name, calls=read_calls(path, model))
    return judge(run, model, arguments.steps)


def _draw(judgements: Sequence[Judgement], path: Path | None, is_hinted: bool) -> None:
    """Write the first picture to the file. Without a file, name the option."""
    pictures = [each.picture for each in judgements if each.picture is not None]
    if pictures and path is not None:
        with atomic_write(path) as partial:
            partial.write_text(pictures[0])
    if pictures and is_hinted:
        click.echo(f"picture: {path}" if path else "draw it with --picture FILE.svg")
