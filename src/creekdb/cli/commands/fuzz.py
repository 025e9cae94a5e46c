"""`creek fuzz`: look for a seed that breaks the protocol."""

import os
from collections.abc import Iterator

import click
import msgspec
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from creekdb.checkers import rows
from creekdb.cli.exit_codes import FINE, ILLEGAL
from creekdb.cli.options import USUAL_SCHEME, import_from_here, scheme_option
from creekdb.cli.output import complaints, counted, program, show, show_json, show_table
from creekdb.cli.views.run_summary import scenario_lines
from creekdb.errors import NotDeterministic
from creekdb.evaluation.experiment import datatype_named, simulation_of
from creekdb.execution.debug import Debugged
from creekdb.simulation.fuzz.campaign import FUZZ_EVENTS_MAX, TWICE_EVERY, Finding, Score, campaign
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed

PROBES_FROM = 2000
"""So many seeds are expected to reach every probe."""

DETAILS_MAX = 10
"""Failures that are described in full; of the others the seed is enough."""


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@click.command(short_help="Look for a seed that breaks the protocol.")
@click.option("--seeds", type=click.IntRange(1), default=200, show_default=True, help="How many.")
@click.option(
    "--from",
    "first",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="SEED",
    help="The first seed.",
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes.  [default: one per core]")
@scheme_option
@click.option("--debug", is_flag=True, help="Run once more, with every operation executed twice.")
@click.option("--verbose", is_flag=True, help="Describe each seed, and list the probes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def fuzz(
    seeds: int,
    first: int,
    jobs: int | None,
    scheme: str,
    debug: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run random clusters under random faults, one for each seed, and check every run.

    Exits with 1 when a seed fails. Also, with 2000 seeds or more, when a probe never fired: a rare
    branch that no run reached is a hole in the test.

    \b
    Examples:
      creek fuzz --seeds 2000
      creek fuzz --from 291 --seeds 1 --verbose
    """
    import_from_here()
    score = Score(scheme)
    findings = campaign(range(first, first + seeds), scheme, jobs or usable_cores())
    if debug:
        findings = map(_debugged, findings)
    for finding in _watched(findings, seeds, score):
        score.add(finding)
        if verbose and not as_json:
            show([*scenario_lines(scenario_from_seed(finding.seed, scheme)), _short(finding)])
    silent = score.silent if seeds >= PROBES_FROM else []
    if as_json:
        show_json(_plain(score, first, scheme))
    else:
        if verbose or seeds >= PROBES_FROM:
            _show_probes(score, bool(silent))
        _show(score, bool(silent), verbose)
    return ILLEGAL if score.failures or silent else FINE


def replay_command(finding: Finding) -> str:
    scheme = "" if finding.scheme == USUAL_SCHEME else f" --scheme {finding.scheme}"
    debug = " --debug" if isinstance(finding, DebugFinding) else ""
    return f"{program()} simulate --replay {finding.seed}{scheme}{debug}"


class DebugFinding(Finding, frozen=True, kw_only=True):
    """Of a seed with an operation that is not deterministic, which is its `crash`."""


def _debugged(finding: Finding) -> Finding:
    """The same scenario in debug mode: what else it shows may follow from what is found there."""
    if finding.crash is not None:
        return finding
    scenario = scenario_from_seed(finding.seed, finding.scheme)
    datatype = Debugged(datatype_named(scenario.datatype))
    try:
        simulation_of(scenario, datatype).run(FUZZ_EVENTS_MAX)
    except NotDeterministic as error:
        known = {**msgspec.structs.asdict(finding), "crash": str(error)}
        return DebugFinding(**known)
    return finding


def _watched(findings: Iterator[Finding], seeds: int, score: Score) -> Iterator[Finding]:
    """Each finding in turn, under a progress bar; failures are described as they come."""
    console = complaints()
    bar = Progress(
        TextColumn("fuzzing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("seeds, {task.fields[failures]} failed"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("fuzzing", total=seeds, failures=0)
        for finding in findings:
            yield finding
            failures = len(score.failures)
            bar.update(task, advance=1, failures=failures)
            if finding.failed and failures <= DETAILS_MAX:
                bar.console.print(_failure(finding), soft_wrap=True)


def _failure(finding: Finding) -> Text:
    return Text.assemble(
        (f"seed {finding.seed} failed", "bold red"),
        f": {finding.summary}\n{finding.describe()}\n",
        ("replay it: ", "dim"),
        replay_command(finding),
        "\n",
    )


def _short(finding: Finding) -> Text:
    if finding.failed:
        return Text(f"  failed     {replay_command(finding)}\n", style="red")
    return Text(
        f"  ok         {counted(finding.operations, 'operation')}, trace {finding.trace_hash}\n"
    )


def _show_probes(score: Score, must_fire: bool) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("fired", justify="right")
    table.add_column("probe")
    for probe, count in sorted(score.probes.items(), key=lambda item: (-item[1], item[0].name)):
        style = "" if count else "bold red" if must_fire else "yellow"
        table.add_row(str(count) if count else "never", probe.value, style=style)
    show_table(table)
    show([Text()])


def _show(score: Score, must_fire: bool, verbose: bool) -> None:
    lines = [
        Text(
            f"{counted(score.seeds, 'seed')}, {counted(score.operations, 'operation')}, "
            f"{len(score.failures)} failed; {counted(score.repeated, 'seed')} run twice "
            f"(one in {TWICE_EVERY})"
        ),
        Text(f"trace hash {score.trace_hash}"),
        Text(_probes(score, must_fire, verbose)),
    ]
    lines += [
        Text(f"failed: seed {each.seed}, replay it: {replay_command(each)}", style="red")
        for each in score.failures
    ]
    show(lines)


def _probes(score: Score, must_fire: bool, verbose: bool) -> str:
    probes, silent = len(score.probes), len(score.silent)
    fired = f"{probes - silent} of {counted(probes, 'probe')} fired"
    if must_fire:
        return f"{fired}: the others are a hole in the test"
    few = f", fine below {PROBES_FROM} seeds" if silent else ""
    listed = verbose or score.seeds >= PROBES_FROM
    return f"{fired}{few}" if listed else f"{fired}{few}; --verbose lists them"


def _plain(score: Score, first: int, scheme: str) -> dict[str, object]:
    return {
        "scheme": scheme,
        "from": first,
        "seeds": score.seeds,
        "operations": score.operations,
        "run_twice": score.repeated,
        "trace_hash": score.trace_hash,
        "probes": {probe.name.lower(): count for probe, count in score.probes.items()},
        "never_fired": [probe.name.lower() for probe in score.silent],
        "failures": [
            {
                "seed": each.seed,
                "summary": each.summary,
                "replay": replay_command(each),
                "unsettled": each.unsettled,
                "crash": each.crash,
                "repeatable": each.repeatable,
                "verdicts": rows(each.verdicts),
            }
            for each in score.failures
        ],
    }
