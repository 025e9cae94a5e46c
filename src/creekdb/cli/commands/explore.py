"""`creek explore`: every state of a small cluster of real replicas."""

import shlex
import sys
from typing import Literal

import click
import msgspec
from rich.progress import TimeElapsedColumn
from rich.text import Text

from creekdb.cli.declaration import argument, declared, option
from creekdb.cli.exit_codes import FAILURE, INCOMPLETE, SUCCESS
from creekdb.cli.options import AS_JSON, add_working_directory_to_path
from creekdb.cli.output import (
    ProgressBar,
    command_name,
    new_table,
    pluralize,
    print_json,
    print_lines,
    print_table,
)
from creekdb.exploration.scope import SCOPES, Scope, get_scope, with_calls
from creekdb.exploration.search import Exploration, Explorer
from creekdb.schemes.registry import get_spec

PROGRESS_DELAY_S = 2.0
COUNT = click.IntRange(0, 9)


@click.command(short_help="Visit every state of a small cluster.")
@declared
def explore(
    scope: str = argument(required=False, default="smallest", metavar="[SCOPE]"),
    *,
    scheme: Literal["creek", "basic", "differential"] = option("Replication scheme.", "creek"),
    operations: int | None = option("Number of calls.  [default: of the scope]"),
    crashes: int | None = option("Number of crashes.", type=COUNT),
    leader_changes: int | None = option("Number of new ballots.", type=COUNT),
    partitions: int | None = option("Number of partitions.", type=COUNT),
    losses: int | None = option("Number of lost messages.", type=COUNT),
    duplicates: int | None = option("Number of messages delivered twice.", type=COUNT),
    ticks: int | None = option("Number of ticks.", type=COUNT),
    links: Literal["any", "fifo"] | None = option("Order of delivery on one link."),
    max_states: int = option("Stop after this many states.", 1_000_000, click.IntRange(1)),
    random_walks: int | None = option(
        "Take this many random paths instead of all.", type=click.IntRange(1)
    ),
    seed: int = option("Seed of the random paths.", 1, click.IntRange(0)),
    replay: str | None = option("Take the steps of this path instead.", metavar="PATH"),
    list_scopes: bool = option("List the scopes.", flag="--list"),
    as_json: bool = AS_JSON,
) -> int:
    """Visit every state that real replicas can reach in SCOPE, in every order of calls, messages,
    disk writes and faults, and check all safety properties in each. Options change the bounds of
    the scope.

    Exits with 1 if a state violates a property, and prints a shortest path to it. Exits with 4 if
    --max-states ended the search before all states were visited.

    \b
    Examples:
      creek explore --list
      creek explore crash --scheme basic
      creek explore two-strong --crashes 1 --random-walks 500 --seed 7
    """
    add_working_directory_to_path()
    if list_scopes:
        _print_scopes()
        return SUCCESS
    bounds = {
        "crashes": crashes,
        "leader_changes": leader_changes,
        "partitions": partitions,
        "losses": losses,
        "duplicates": duplicates,
        "ticks": ticks,
        "links": links,
    }
    chosen = {name: value for name, value in bounds.items() if value is not None}
    bounded = msgspec.structs.replace(get_scope(scope), **chosen)
    if operations is not None:
        bounded = with_calls(bounded, operations)
    with _SearchProgress() as progress:
        explorer = Explorer(bounded, get_spec(scheme), progress.show)
        if replay is not None:
            result = explorer.replay(replay)
        elif random_walks is not None:
            result = explorer.walk(random_walks, seed)
        else:
            result = explorer.search(max_states)
    is_search = replay is None and random_walks is None
    if as_json:
        print_json(_json_result(result))
    else:
        _print_result(result, is_search)
    if result.violation is not None:
        return FAILURE
    return INCOMPLETE if is_search and not result.is_exhausted else SUCCESS


class _SearchProgress(ProgressBar):
    def __init__(self) -> None:
        super().__init__(
            *("exploring:", "{task.fields[states]:,} states at depth {task.fields[depth]}"),
            TimeElapsedColumn(),
            delay_s=PROGRESS_DELAY_S,
            states=0,
            depth=0,
        )

    def show(self, result: Exploration) -> None:
        self.update(states=result.states, depth=result.depth)


def _print_scopes() -> None:
    table = new_table("scope", "links", "description", left=("scope", "links", "description"))
    for each in SCOPES.values():
        table.add_row(each.name, each.links, each.description)
    print_table(table)


def _print_result(result: Exploration, is_search: bool) -> None:
    click.echo(f"{result.scope.name}, {result.scheme}: {_bounds_text(result.scope)}")
    steps = [Text(f"{number:3}. {each.text}") for number, each in enumerate(result.steps, 1)]
    for line, step in zip(steps, result.steps, strict=True):
        print_lines([line, *(Text(f"       {each}", style="dim") for each in step.outputs)])
    click.echo(
        f"{pluralize(result.states, 'state')}, {pluralize(result.transitions, 'transition')}, "
        f"depth {result.depth}, {pluralize(result.terminal_states, 'terminal state')}; "
        f"{pluralize(result.local_states, 'local state')}, "
        f"{pluralize(result.local_steps, 'local step')}"
    )
    if result.violation is not None:
        print_lines([Text(f"violated: {result.violation}", style="bold red")])
        click.echo(f"replay it: {_replay_command(result)}")
    elif result.is_exhausted:
        click.echo("exhausted: every state was visited, and no property is violated")
    elif is_search:
        click.echo("not exhausted: the search stopped at --max-states, without a violation")
    else:
        click.echo("not exhaustive: no property is violated on these paths")


def _bounds_text(scope: Scope) -> str:
    faults = {
        "crash": scope.crashes,
        "leader change": scope.leader_changes,
        "partition": scope.partitions,
        "loss": scope.losses,
        "duplicate": scope.duplicates,
        "tick": scope.ticks,
    }
    counted = [f"{count} × {name}" for name, count in faults.items() if count]
    calls = f"{pluralize(scope.replicas, 'replica')}, {pluralize(len(scope.calls), 'call')}"
    return ", ".join([calls, *counted, f"links {scope.links}"])


def _replay_command(result: Exploration) -> str:
    """Return the command that takes the path to the violation, with the options of this one."""
    given = shlex.join(each for each in sys.argv[1:] if each != "--json")
    return f"{command_name()} {given} --replay {result.path}"


def _json_result(result: Exploration) -> dict[str, object]:
    return {**msgspec.to_builtins(result), "path": result.path}
