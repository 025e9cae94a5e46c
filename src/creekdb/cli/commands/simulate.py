"""The language of faults, explained: what `creek simulate --help-faults` prints.

Running a simulation while somebody watches.

`creek simulate`: one run of a simulated cluster, measured and checked.
"""

import shlex
import time
import traceback
from pathlib import Path
from textwrap import wrap
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from creekdb import tpcc
from creekdb.checkers import Verdict, check_all, verdict_rows
from creekdb.cli.arguments import CALL_SYNTAX, DurationParam
from creekdb.cli.commands.pipeline.group import populated_datatype
from creekdb.cli.determinism import compare_with_child
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import NewDirectory, scheme_option
from creekdb.cli.output import (
    command_name,
    pluralize,
    print_json,
    print_lines,
    print_table,
    stderr_console,
)
from creekdb.cli.scenario_options import (
    DEFAULT_SESSIONS,
    DEFAULT_STRONG_SHARE,
    DEFAULT_TPCC_LOAD_TPS,
    DEFAULT_WAREHOUSES,
    scenario_from_options,
    with_load,
)
from creekdb.cli.views.measures import peak_table, print_measures
from creekdb.cli.views.run_summary import is_legal, scenario_lines, verdict_lines
from creekdb.cli.views.timeline import timeline_lines
from creekdb.cli.views.walkthrough import walkthrough_lines
from creekdb.errors import NotDeterministic, UsageError
from creekdb.evaluation import (
    Measures,
    build_simulation,
    find_peak,
    measure,
    resolve_datatype,
    violated_conditions,
)
from creekdb.evaluation.experiment import CORES_MAX, REPLICAS_MAX, TPCC
from creekdb.execution.debug import DebugDataType
from creekdb.execution.python_runtime import reduced_gc
from creekdb.history import save_run, save_verdicts
from creekdb.simulation.faults.language import FAULT_EXAMPLES
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun
from creekdb.simulation.kernel.scenario import Scenario

EXAMPLE_WIDTH = 37
MEANING_WIDTH = 80 - EXAMPLE_WIDTH

_INTRODUCTION = """\
Give faults with --fault, once for each, or in a file with --faults. A fault is a name, what it is
about, and when it happens. Replicas are numbered from 0. A time is a number and its unit, without a
space: us, ms, s, m, h or d. A probability is 10% or 0.1."""

_REMARKS = """\
Of five replicas, 'partition 0,1 at 1s' is 'partition 0,1|2,3,4 at 1s': the rest is one group.
At the end of --duration every fault is healed, but for death, severed links and wrong clocks."""


def fault_help() -> str:
    lines = [*wrap(_INTRODUCTION, 80), ""]
    for example, meaning in FAULT_EXAMPLES.values():
        first, *rest = wrap(meaning, MEANING_WIDTH)
        lines.append(f"{example:{EXAMPLE_WIDTH}}{first}")
        lines += [f"{'':{EXAMPLE_WIDTH}}{line}" for line in rest]
    return "\n".join([*lines, "", *wrap(_REMARKS, 80)])


BAR_DELAY_S = 1.0
BAR_STEPS = 200


def run_with_progress(simulation: Simulation, what: str = "simulating") -> SimulationRun:
    """Run it, with a progress bar if it takes a while and somebody watches."""
    with reduced_gc():
        return _run_with_progress(simulation, what)


def _run_with_progress(simulation: Simulation, what: str) -> SimulationRun:
    console, duration_us = stderr_console(), simulation.scenario.duration_us
    if not console.is_terminal or not duration_us:
        return simulation.run()
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} ms"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(what, total=duration_us / 1000)
    begun = time.monotonic()

    def moved(now_us: int) -> None:
        if time.monotonic() - begun > BAR_DELAY_S:
            bar.start()
        bar.update(task, completed=now_us / 1000)

    # Events that touch nothing: they change neither the run nor its trace.
    for step in range(1, BAR_STEPS):
        at_us = duration_us * step // BAR_STEPS
        simulation.heap.schedule_at(at_us, moved, at_us)
    try:
        return simulation.run()
    finally:
        bar.stop()


def _print_fault_help(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(fault_help())
        context.exit()


@click.command(short_help="Run a simulated cluster once, measure and check it.")
@click.option("--seed", default=0, show_default=True, help="All chance in the run comes from it.")
@scheme_option
@click.option(
    "--datatype",
    default="bank",
    show_default=True,
    help="What is replicated: bank, kv, …, or yours as package.module:variable, which may be in "
    "this folder, with --call.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, REPLICAS_MAX),
    default=5,
    show_default=True,
    help="How many. More than about 20 take long to simulate.",
)
@click.option(
    "--duration",
    type=DurationParam(),
    default="2s",
    show_default=True,
    help="How long clients ask and faults happen, in simulated time; then all is healed.",
)
@click.option(
    "--strong-share",
    type=float,
    help="The share of operations that are strong, from 0 to 1.  "
    f"[default: {DEFAULT_STRONG_SHARE}; of TPC-C every Payment and nothing else]",
)
@click.option(
    "--sessions",
    "--clients",
    type=click.IntRange(0),
    help=f"Clients at each replica.  [default: {DEFAULT_SESSIONS}, or 0 with --call]",
)
@click.option(
    "--think",
    type=DurationParam(),
    default="10ms",
    show_default=True,
    help="How long a client thinks, on average, before it asks again.",
)
@click.option(
    "--load",
    type=float,
    metavar="TPS",
    help="Ask for so many operations per second in all, answered or not, instead of --sessions.  "
    f"[default for TPC-C: {DEFAULT_TPCC_LOAD_TPS:.0f}]",
)
@click.option(
    "--cores",
    type=click.IntRange(1, CORES_MAX),
    default=16,
    show_default=True,
    help="Of each replica: how many operations it can execute at once.",
)
@click.option(
    "--exec-scale",
    type=float,
    default=1.0,
    show_default=True,
    help="How many times longer than usual an execution takes.",
)
@click.option(
    "--workload",
    type=click.Choice([TPCC]),
    help="Measure TPC-C instead of checking a small run: five transactions, an open loop of "
    "clients, Payment strong. Only answers are recorded, unless the run is kept with --out.",
)
@click.option(
    "--warehouses",
    type=int,
    default=DEFAULT_WAREHOUSES,
    show_default=True,
    help="Of TPC-C: its scale.",
)
@click.option(
    "--layout",
    type=click.Choice(tpcc.LAYOUTS),
    default="rows",
    show_default=True,
    help="Of TPC-C: a register per row, or the columns that change in registers of their own.",
)
@click.option(
    "--find-peak",
    is_flag=True,
    help="Of TPC-C: run again and again, to find the highest load that it keeps up with.",
)
@click.option(
    "--local-reads",
    is_flag=True,
    help="Of TPC-C, scheme creek: execute a weak operation that only reads at one replica alone "
    "(Section 4.4).  [default: at all of them, as the paper's figures have it]",
)
@click.option(
    "--population",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Of TPC-C: initial data that creek pipeline generate wrote.  [default: computed]",
)
@click.option(
    "--warm-up",
    type=DurationParam(),
    help="Of TPC-C: how much of the duration passes before anything is measured.  "
    "[default: a fifth]",
)
@click.option(
    "--call",
    "calls",
    multiple=True,
    metavar="CALL",
    help=f"One operation of your own; may be repeated. Write {CALL_SYNTAX}.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="Such as 'crash 2 at 150ms', 'restart 2 at 1s', 'partition 0,1|2,3,4 at 300ms', "
    "'heal at 1s', 'loss 10% at 0s'; may be repeated. See --help-faults.",
)
@click.option(
    "--faults",
    "fault_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file with one fault per line; # begins a comment.",
)
@click.option("--random-faults", is_flag=True, help="Faults drawn from the seed.")
@click.option("--story", is_flag=True, help="Tell what happens when a network breaks and heals.")
@click.option("--replay", type=click.IntRange(0), metavar="SEED", help="Run a seed of the fuzzer.")
@click.option(
    "--debug",
    is_flag=True,
    help="Execute every operation twice, and all again in another process, and compare.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--out", type=NewDirectory(), help="Keep the run in this folder, for creek check.")
@click.option(
    "--help-faults",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_fault_help,
    help="Show every fault, how to write it and what it means, and exit.",
)
@click.pass_context
def simulate(context: click.Context, /, as_json: bool, out: Path | None, **options: Any) -> int:
    """Run a simulated cluster once, measure it, and check what it did.

    The same options give the same run, on any machine. Exits with 1 when a checker finds something
    that must not be, or --debug an operation that is not deterministic.

    \b
    Examples:
      creek simulate --story
      creek simulate --replicas 3 --strong-share 0.5 --fault 'crash 0 at 500ms'
      creek simulate --call 'open ann 9 on 0 at 1ms' \\
                     --call 'strong balance ann on 4 at 5ms'
      creek simulate --replay 291
      creek simulate --datatype kv --debug
      creek simulate --workload tpcc --scheme creek --load 10000 --duration 500ms
      creek simulate --workload tpcc --scheme smr --find-peak --duration 1s

    \b
    What is measured, all in simulated time, while clients ask:
      tentative        an answer that may still change
      stable           the answer that never changes; of a weak operation: final,
                       when it is certain how it ended
      throughput       operations per second that were done: weak ones with their
                       first answer, strong ones with their stable answer
      saturated        when more is asked for than is done: less than 97 % of it,
                       or with a backlog that grows
      accuracy         weak operations whose first answer was the final one; of
                       TPC-C, but for the numbers that orders got
      execution ratio  executions per operation and replica: 1 without repetition
      came to rest     when, with clients gone and all healed, every replica had
                       committed all; strong no-ops, which replicas add by
                       themselves, may be among the requests
      trace hash       the same hash is the same run, event by event
    """
    scenario = scenario_from_options(context, options, kept=out is not None)
    if out is not None and out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} exists already, and a run is never written over: name another")
    if options["find_peak"]:
        return _find_peak(scenario, as_json)
    initial: Path | None = options["population"]
    datatype = (
        resolve_datatype(scenario.datatype)
        if initial is None
        else populated_datatype(initial, scenario)
    )
    debugged = DebugDataType(datatype) if options["debug"] else None
    try:
        run = run_with_progress(build_simulation(scenario, debugged, datatype))
        if debugged is not None and (
            difference := compare_with_child(scenario, debugged.execution_log)
        ):
            raise difference
        verdicts = check_all(run.history, datatype) if scenario.record_events else []
    except NotDeterministic as error:
        click.echo(f"creek: {error}", err=True)
        return FAILURE
    except Exception:  # noqa: BLE001 - a replica that raises is a finding, as in the fuzzer
        print_lines([*scenario_lines(scenario), Text("a replica or a checker raised", style="red")])
        click.echo(traceback.format_exc(), err=True)
        return FAILURE
    if out is not None:
        save_run(run.history, out)
        save_verdicts(out, verdict_rows(verdicts))
    conditions = violated_conditions(run.history, datatype) if options["workload"] == TPCC else []
    measures = measure(scenario, run, verdicts, conditions)
    if as_json:
        print_json(measures)
    else:
        _print_run(scenario, run, verdicts, measures, options)
        if debugged is not None:
            print_lines([Text(), Text(_debug_summary(debugged))])
        if out is not None:
            folder = shlex.quote(str(out))
            print_lines(
                [Text(), Text(f"kept in {out}; check it with: {command_name()} check {folder}")]
            )
    return SUCCESS if is_legal(verdicts) and not conditions else FAILURE


def _find_peak(scenario: Scenario, as_json: bool) -> int:
    datatype = resolve_datatype(scenario.datatype)

    def attempt(load_tps: float) -> Measures:
        tried = with_load(scenario, load_tps)
        run = run_with_progress(build_simulation(tried), f"{load_tps:.0f} operations per second")
        return measure(tried, run, [], violated_conditions(run.history, datatype))

    peak = find_peak(attempt, scenario.clients.rate_per_second * scenario.replicas)
    conditions = [each for tried in peak.tried for each in tried.violated]
    if as_json:
        print_json(peak)
    else:
        print_lines([*scenario_lines(scenario), Text()])
        print_table(peak_table(peak))
        found = f"peak: {peak.peak_tps:.0f} operations per second"
        higher = f"at a load of {peak.saturating_tps:.0f} it is saturated"
        print_lines([Text(), Text(f"{found}; {higher}"), *_condition_lines(conditions)])
    return FAILURE if conditions else SUCCESS


def _debug_summary(datatype: DebugDataType) -> str:
    executions = pluralize(len(datatype.execution_log), "execution")
    return f"{executions}, repeated here and in another process: all operations are deterministic"


def _print_run(
    scenario: Scenario,
    run: SimulationRun,
    verdicts: list[Verdict],
    measures: Measures,
    options: dict[str, Any],
) -> None:
    if options["story"]:
        print_lines(walkthrough_lines(run.history, verdicts))
        return
    print_lines(scenario_lines(scenario))
    print_lines([Text()])
    if scenario.script and not scenario.clients.sessions:
        print_lines([*timeline_lines(run.history), Text()])
    print_measures(measures)
    if verdicts:
        print_lines([Text(), *verdict_lines(verdicts)])
    if options["workload"] == TPCC:
        print_lines([Text(), *_condition_lines(measures.violated)])


def _condition_lines(violated: list[str]) -> list[Text]:
    if not violated:
        return [Text("TPC-C's consistency conditions hold on every replica")]
    return [Text(each, style="red") for each in violated]
