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

from creekdb.checkers import verdict_rows
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import DEFAULT_SCHEME, add_working_directory_to_path, scheme_option
from creekdb.cli.output import (
    command_name,
    pluralize,
    print_json,
    print_lines,
    print_table,
    stderr_console,
)
from creekdb.cli.views.run_summary import scenario_lines
from creekdb.errors import NotDeterministic
from creekdb.evaluation.experiment import build_simulation, resolve_datatype
from creekdb.execution.debug import DebugDataType
from creekdb.simulation.fuzz.campaign import (
    FUZZ_EVENTS_MAX,
    REPEAT_EVERY,
    CampaignSummary,
    SeedResult,
    run_campaign,
)
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed

PROBES_REQUIRED_SEEDS = 2000
"""So many seeds are expected to reach every probe."""

FAILURES_DETAILED_MAX = 10
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
    add_working_directory_to_path()
    score = CampaignSummary(scheme)
    findings = run_campaign(range(first, first + seeds), scheme, jobs or usable_cores())
    if debug:
        findings = map(_rerun_in_debug_mode, findings)
    for finding in _with_progress(findings, seeds, score):
        score.add(finding)
        if verbose and not as_json:
            print_lines(
                [*scenario_lines(scenario_from_seed(finding.seed, scheme)), _result_line(finding)]
            )
    silent = score.unfired_probes if seeds >= PROBES_REQUIRED_SEEDS else []
    if as_json:
        print_json(_json_summary(score, first, scheme))
    else:
        if verbose or seeds >= PROBES_REQUIRED_SEEDS:
            _print_probes(score, bool(silent))
        _print_summary(score, bool(silent), verbose)
    return FAILURE if score.failures or silent else SUCCESS


def replay_command(finding: SeedResult) -> str:
    scheme = "" if finding.scheme == DEFAULT_SCHEME else f" --scheme {finding.scheme}"
    debug = " --debug" if isinstance(finding, DebugFinding) else ""
    return f"{command_name()} simulate --replay {finding.seed}{scheme}{debug}"


class DebugFinding(SeedResult, frozen=True, kw_only=True):
    """Of a seed with an operation that is not deterministic, which is its `crash`."""


def _rerun_in_debug_mode(finding: SeedResult) -> SeedResult:
    """The same scenario in debug mode: what else it shows may follow from what is found there."""
    if finding.crash is not None:
        return finding
    scenario = scenario_from_seed(finding.seed, finding.scheme)
    datatype = DebugDataType(resolve_datatype(scenario.datatype))
    try:
        build_simulation(scenario, datatype).run(FUZZ_EVENTS_MAX)
    except NotDeterministic as error:
        known = {**msgspec.structs.asdict(finding), "crash": str(error)}
        return DebugFinding(**known)
    return finding


def _with_progress(
    findings: Iterator[SeedResult], seeds: int, score: CampaignSummary
) -> Iterator[SeedResult]:
    """Each finding in turn, under a progress bar; failures are described as they come."""
    console = stderr_console()
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
            if finding.has_failed and failures <= FAILURES_DETAILED_MAX:
                bar.console.print(_failure_text(finding), soft_wrap=True)


def _failure_text(finding: SeedResult) -> Text:
    return Text.assemble(
        (f"seed {finding.seed} failed", "bold red"),
        f": {finding.summary}\n{finding.describe()}\n",
        ("replay it: ", "dim"),
        replay_command(finding),
        "\n",
    )


def _result_line(finding: SeedResult) -> Text:
    if finding.has_failed:
        return Text(f"  failed     {replay_command(finding)}\n", style="red")
    return Text(
        f"  ok         {pluralize(finding.operations, 'operation')}, trace {finding.trace_hash}\n"
    )


def _print_probes(score: CampaignSummary, must_fire: bool) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("fired", justify="right")
    table.add_column("probe")
    for probe, count in sorted(score.probes.items(), key=lambda item: (-item[1], item[0].name)):
        style = "" if count else "bold red" if must_fire else "yellow"
        table.add_row(str(count) if count else "never", probe.value, style=style)
    print_table(table)
    print_lines([Text()])


def _print_summary(score: CampaignSummary, must_fire: bool, verbose: bool) -> None:
    lines = [
        Text(
            f"{pluralize(score.seeds, 'seed')}, {pluralize(score.operations, 'operation')}, "
            f"{len(score.failures)} failed; {pluralize(score.repeated_seeds, 'seed')} run twice "
            f"(one in {REPEAT_EVERY})"
        ),
        Text(f"trace hash {score.trace_hash}"),
        Text(_probe_summary(score, must_fire, verbose)),
    ]
    lines += [
        Text(f"failed: seed {each.seed}, replay it: {replay_command(each)}", style="red")
        for each in score.failures
    ]
    print_lines(lines)


def _probe_summary(score: CampaignSummary, must_fire: bool, verbose: bool) -> str:
    probes, silent = len(score.probes), len(score.unfired_probes)
    fired = f"{probes - silent} of {pluralize(probes, 'probe')} fired"
    if must_fire:
        return f"{fired}: the others are a hole in the test"
    few = f", fine below {PROBES_REQUIRED_SEEDS} seeds" if silent else ""
    listed = verbose or score.seeds >= PROBES_REQUIRED_SEEDS
    return f"{fired}{few}" if listed else f"{fired}{few}; --verbose lists them"


def _json_summary(score: CampaignSummary, first: int, scheme: str) -> dict[str, object]:
    return {
        "scheme": scheme,
        "from": first,
        "seeds": score.seeds,
        "operations": score.operations,
        "run_twice": score.repeated_seeds,
        "trace_hash": score.trace_hash,
        "probes": {probe.name.lower(): count for probe, count in score.probes.items()},
        "never_fired": [probe.name.lower() for probe in score.unfired_probes],
        "failures": [
            {
                "seed": each.seed,
                "summary": each.summary,
                "replay": replay_command(each),
                "unsettled": each.quiescence_failure,
                "crash": each.crash,
                "repeatable": each.is_repeatable,
                "verdicts": verdict_rows(each.verdicts),
            }
            for each in score.failures
        ],
    }
