"""`creek fuzz`: check random runs, one per seed."""

import os
from collections.abc import Iterator

import click
import msgspec
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from creekdb.checkers import verdict_rows
from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import DEFAULT_SCHEME, add_working_directory_to_path, command_limits
from creekdb.cli.output import (
    ProgressBar,
    command_name,
    new_table,
    pluralize,
    print_json,
    print_lines,
    print_table,
)
from creekdb.cli.scenario_options import SCHEME
from creekdb.cli.views.run_summary import scenario_lines
from creekdb.datatypes import SAMPLERS
from creekdb.errors import NotDeterministic, UsageError
from creekdb.evaluation.experiment import build_simulation
from creekdb.execution.debug import DebugDataType
from creekdb.protocol.extensions import (
    EXTENSION_PROBES,
    EXTENSIONS,
    NONE,
    extension_switches,
    join_extensions,
)
from creekdb.protocol.probes import Probe
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.fuzz.campaign import (
    FUZZ_EVENTS_MAX,
    NO_OVERRIDES,
    REPEAT_EVERY,
    CampaignSummary,
    Overrides,
    SeedResult,
    overridden_scenario,
    run_campaign,
)

FAILURES_DETAILED_MAX = 10
"""Upper bound for the failures described in full; for others, only the seed is printed."""


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@click.command(short_help="Check random runs under random faults.")
@declared
def fuzz(
    *,
    seeds: int = option("Number of seeds.", 200, click.IntRange(1)),
    first: int = option("First seed.", 0, click.IntRange(0), flag="--from", metavar="SEED"),
    jobs: int | None = option(
        "Number of worker processes.  [default: one per core]", type=click.IntRange(1, 256)
    ),
    scheme: str = SCHEME,
    extensions: str | None = option(
        "Extensions of every run, separated by commas: "
        f"{', '.join(EXTENSIONS)}; or all, or none.  [default: drawn by each seed]",
        metavar="NAMES",
    ),
    datatype: str | None = option(
        "Ready-made data type of every run, such as sql.  [default: drawn by each seed, never sql]",
        metavar="NAME",
    ),
    debug: bool = option("Repeat each run, and execute every operation twice."),
    verbose: bool = option("Describe each seed, and list the probes."),
    as_json: bool = option("Print one JSON object instead of tables.", flag="--json"),
) -> int:
    """Run a random cluster under random faults for each seed, and check every run.

    Exits with 1 if a seed fails or, with 2000 seeds or more, if a probe never fired. Such a probe
    marks a rare branch that no run has tested. With --extensions, only the probes of these
    extensions have to fire. With --datatype, no probe has to.

    \b
    Examples:
      creek fuzz --seeds 2000
      creek fuzz --from 291 --seeds 1 --verbose
      creek fuzz --seeds 3000 --extensions all
      creek fuzz --seeds 1000 --datatype sql
    """
    add_working_directory_to_path()
    summary = CampaignSummary(scheme)
    switches = {} if extensions is None else extension_switches(extensions)
    if datatype is not None:
        _check_datatype(datatype)
    overrides = Overrides(switches=switches, datatype=datatype)
    results = run_campaign(
        range(first, first + seeds), scheme, jobs or usable_cores(), overrides=overrides
    )
    if debug:
        results = map(_rerun_in_debug_mode, results)
    for result in _with_progress(results, seeds, summary):
        summary.add(result)
        if verbose and not as_json:
            scenario = overridden_scenario(result.seed, scheme, overrides)
            print_lines([*scenario_lines(scenario), _result_line(result)])
    missing = []
    if seeds >= command_limits().probes_required_seeds:
        required = _required_probes(summary, overrides)
        missing = [probe for probe in summary.unfired_probes if probe in required]
    if as_json:
        print_json(_json_summary(summary, first, scheme))
    else:
        _print_summary(summary, missing, verbose)
    return FAILURE if summary.failures or missing else SUCCESS


def _required_probes(summary: CampaignSummary, overrides: Overrides) -> set[Probe]:
    """Return the probes that must fire. The overrides determine which branches runs can reach."""
    if overrides == NO_OVERRIDES:
        return set(summary.probes)
    if overrides.datatype is not None:
        return set()
    names = [name for name, value in overrides.switches.items() if value]
    return {probe for name in names for probe in EXTENSION_PROBES[name]}


def replay_command(result: SeedResult) -> str:
    scheme = "" if result.scheme == DEFAULT_SCHEME else f" --scheme {result.scheme}"
    debug = " --debug" if isinstance(result, DebugFinding) else ""
    switches, name = result.overrides.switches, result.overrides.datatype
    names = join_extensions(name for name, value in switches.items() if value) or NONE
    extensions = f" --extensions {names}" if switches else ""
    datatype = f" --datatype {name}" if name else ""
    return f"{command_name()} simulate --replay {result.seed}{scheme}{extensions}{datatype}{debug}"


def _check_datatype(name: str) -> None:
    """Raise an error unless there is a data type with this name and a random workload of it."""
    load_datatype(name)
    if name not in SAMPLERS:
        raise UsageError(f"{name} has no random workload; use one of {', '.join(SAMPLERS)}")


class DebugFinding(SeedResult, frozen=True, kw_only=True):
    """Result of a seed with a nondeterministic operation, which is its `crash`."""


def _rerun_in_debug_mode(result: SeedResult) -> SeedResult:
    """Repeat the scenario in debug mode.

    Nondeterminism takes precedence over other failures of the seed, which it may have caused.
    """
    if result.crash is not None:
        return result
    scenario = overridden_scenario(result.seed, result.scheme, result.overrides)
    datatype = DebugDataType(load_datatype(scenario.datatype))
    try:
        build_simulation(scenario, datatype).run(FUZZ_EVENTS_MAX)
    except NotDeterministic as error:
        fields = {**msgspec.structs.asdict(result), "crash": str(error)}
        return DebugFinding(**fields)
    return result


def _with_progress(
    results: Iterator[SeedResult], seeds: int, summary: CampaignSummary
) -> Iterator[SeedResult]:
    """Yield the results under a progress bar, and describe each failure as it occurs."""
    columns: tuple[str | ProgressColumn, ...] = (
        *("fuzzing", BarColumn(), MofNCompleteColumn(), "seeds, {task.fields[failures]} failed"),
        *(TimeElapsedColumn(), "elapsed,", TimeRemainingColumn(), "remaining"),
    )
    with ProgressBar(*columns, total=seeds, failures=0) as bar:
        for result in results:
            yield result
            failures = len(summary.failures)
            bar.update(advance=1, failures=failures)
            if result.has_failed and failures <= FAILURES_DETAILED_MAX:
                bar.print(_failure_text(result))


def _failure_text(result: SeedResult) -> Text:
    return Text.assemble(
        (f"seed {result.seed} failed", "bold red"),
        f": {result.summary}\n{result.describe()}\n",
        ("replay it: ", "dim"),
        replay_command(result),
        "\n",
    )


def _result_line(result: SeedResult) -> Text:
    if result.has_failed:
        return Text(f"  failed     {replay_command(result)}\n", style="red")
    return Text(
        f"  ok         {pluralize(result.operations, 'operation')}, trace {result.trace_hash}\n"
    )


def _print_probes(summary: CampaignSummary, missing: list[Probe]) -> None:
    table = new_table("fired", "probe", left=("probe",))
    for probe, count in sorted(summary.probes.items(), key=lambda item: (-item[1], item[0].name)):
        style = "" if count else "bold red" if probe in missing else "yellow"
        table.add_row(str(count) if count else "never", probe.value, style=style)
    print_table(table)
    click.echo()


def _print_summary(summary: CampaignSummary, missing: list[Probe], verbose: bool) -> None:
    required = command_limits().probes_required_seeds
    probes, unfired = len(summary.probes), len(summary.unfired_probes)
    fired = f"{probes - unfired} of {pluralize(probes, 'probe')} fired"
    if missing:
        others = "the others" if len(missing) == unfired else f"{len(missing)} of the others"
        fired += f": {others} are branches that no run tested"
    elif unfired and summary.seeds < required:
        fired += f", sufficient below {required} seeds"
    if verbose or summary.seeds >= required:
        _print_probes(summary, missing)
    else:
        fired += "; --verbose lists them"
    click.echo(
        f"{pluralize(summary.seeds, 'seed')}, {pluralize(summary.operations, 'operation')}, "
        f"{len(summary.failures)} failed; {pluralize(summary.repeated_seeds, 'seed')} repeated "
        f"(one in {REPEAT_EVERY})"
    )
    click.echo(f"trace hash {summary.trace_hash}")
    click.echo(fired)
    print_lines(
        Text(f"failed: seed {each.seed}, replay it: {replay_command(each)}", style="red")
        for each in summary.failures
    )


def _json_summary(summary: CampaignSummary, first: int, scheme: str) -> dict[str, object]:
    return {
        "scheme": scheme,
        "from": first,
        "seeds": summary.seeds,
        "operations": summary.operations,
        "run_twice": summary.repeated_seeds,
        "trace_hash": summary.trace_hash,
        "probes": {probe.name.lower(): count for probe, count in summary.probes.items()},
        "never_fired": [probe.name.lower() for probe in summary.unfired_probes],
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
            for each in summary.failures
        ],
    }
