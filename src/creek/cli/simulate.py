"""`creek simulate`: one run of a simulated cluster, measured and checked."""

import shlex
import time
import traceback
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from creek import datatypes
from creek.checkers import Verdict, check_all, rows
from creek.cli.again import debugged_simulation, repeat
from creek.cli.exits import FINE, ILLEGAL
from creek.cli.fault_help import fault_help
from creek.cli.measures import measure
from creek.cli.options import CALL_FORM, Duration, check_in_time, parse_call, read_faults
from creek.cli.output import complaints, program, show, show_json
from creek.cli.scenario_text import scenario_lines
from creek.cli.story import story_scenario, tell
from creek.cli.table import measures_table
from creek.cli.timeline import timeline
from creek.cli.verdicts import all_legal, verdict_lines
from creek.cli.words import counted
from creek.errors import NotDeterministic, UsageError
from creek.execution.debug import Debugged
from creek.history import save, save_verdicts
from creek.schemes import registry
from creek.simulation.cluster import Run
from creek.simulation.fault_mix import fault_mix
from creek.simulation.fuzz import simulation_of
from creek.simulation.plan import scenario_from_seed
from creek.simulation.scenario import Scenario
from creek.simulation.seeds import derive
from creek.simulation.workload import ClientModel

REPLICAS_MAX = 99
SESSIONS = 2
PATIENCE_BEFORE_BAR_S = 1.0
BAR_STEPS = 200

_GIVEN_BY_A_SCENARIO = (
    "datatype",
    "replicas",
    "duration",
    "strong_share",
    "sessions",
    "think",
    "load",
    "fault_file",
    "faults",
    "random_faults",
    "calls",
)


def _help_faults(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(fault_help())
        context.exit()


@click.command(short_help="Run a simulated cluster once, measure and check it.")
@click.option("--seed", default=0, show_default=True, help="All chance in the run comes from it.")
@click.option("--scheme", default="basic", show_default=True, help="The replication scheme.")
@click.option("--datatype", default="bank", show_default=True, help="What is replicated.")
@click.option(
    "--replicas",
    type=click.IntRange(1, REPLICAS_MAX),
    default=5,
    show_default=True,
    help="How many. More than about 20 take long to simulate.",
)
@click.option(
    "--duration",
    type=Duration(),
    default="2s",
    show_default=True,
    help="How long clients ask and faults happen, in simulated time; then all is healed.",
)
@click.option(
    "--strong-share",
    type=float,
    default=0.1,
    show_default=True,
    help="The share of operations that are strong, from 0 to 1.",
)
@click.option(
    "--sessions",
    "--clients",
    type=click.IntRange(0),
    help=f"Clients at each replica.  [default: {SESSIONS}, or 0 with --call]",
)
@click.option(
    "--think",
    type=Duration(),
    default="10ms",
    show_default=True,
    help="How long a client thinks, on average, before it asks again.",
)
@click.option(
    "--load",
    type=float,
    metavar="TPS",
    help="Ask for so many operations per second in all, answered or not, instead of --sessions.",
)
@click.option(
    "--call",
    "calls",
    multiple=True,
    metavar="CALL",
    help=f"One operation of your own; may be repeated. Write {CALL_FORM}.",
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
@click.option(
    "--out", type=click.Path(path_type=Path), help="Keep the run in this folder, for creek check."
)
@click.option(
    "--help-faults",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_help_faults,
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

    \b
    What is measured, all in simulated time:
      tentative        an answer that may still change
      stable           the answer to a strong operation that never changes
      throughput       operations answered for good while clients asked
      accuracy         first tentative answers that were equal to the final ones
      execution ratio  executions per operation and replica: 1 without repetition
      came to rest     when, with clients gone and all healed, every replica had
                       committed all; strong no-ops, which replicas add by
                       themselves, may be among the requests
      trace hash       the same hash is the same run, event by event
    """
    scenario = _scenario(context, options)
    if out is not None and out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} exists already, and a run is never written over: name another")
    datatype = Debugged(datatypes.named(scenario.datatype)) if options["debug"] else None
    try:
        run = _run(scenario, datatype)
        if datatype is not None and (difference := repeat(scenario, datatype.journal)):
            raise difference
        verdicts = check_all(run.history)
    except NotDeterministic as error:
        click.echo(f"creek: {error}", err=True)
        return ILLEGAL
    except Exception:  # noqa: BLE001 - a replica that raises is a finding, as in the fuzzer
        show([*scenario_lines(scenario), Text("a replica or a checker raised", style="red")])
        click.echo(traceback.format_exc(), err=True)
        return ILLEGAL
    if out is not None:
        save(run.history, out)
        save_verdicts(out, rows(verdicts))
    if as_json:
        show_json(measure(scenario, run, verdicts))
    else:
        _show(scenario, run, verdicts, options)
        if datatype is not None:
            show([Text(), Text(_debugged(datatype))])
        if out is not None:
            folder = shlex.quote(str(out))
            show([Text(), Text(f"kept in {out}; check it with: {program()} check {folder}")])
    return FINE if all_legal(verdicts) else ILLEGAL


def _debugged(datatype: Debugged) -> str:
    executions = counted(len(datatype.journal), "execution")
    return f"{executions}, repeated here and in another process: all operations are deterministic"


def _show(scenario: Scenario, run: Run, verdicts: list[Verdict], options: dict[str, Any]) -> None:
    if options["story"]:
        show(tell(run.history, verdicts))
        return
    show(scenario_lines(scenario))
    show([Text()])
    if scenario.script and not scenario.clients.sessions:
        show([*timeline(run.history), Text()])
    measures_table(measure(scenario, run, verdicts))
    show([Text(), *verdict_lines(verdicts)])


# --- from options to a scenario ---------------------------------------------------------------


def _scenario(context: click.Context, options: dict[str, Any]) -> Scenario:
    seed, scheme, replay = options["seed"], options["scheme"], options["replay"]
    registry.named(scheme)
    if options["story"]:
        _refuse_others(context, "--story", ("replay", *_GIVEN_BY_A_SCENARIO))
        return story_scenario(seed, scheme)
    if replay is not None:
        _refuse_others(context, "--replay", ("seed", *_GIVEN_BY_A_SCENARIO))
        return scenario_from_seed(replay, scheme)
    datatype = datatypes.named(options["datatype"])
    replicas, duration_us = options["replicas"], options["duration"]
    faults = read_faults(options["fault_file"], options["faults"], replicas, duration_us)
    script = tuple(parse_call(each, datatype) for each in options["calls"])
    for call in script:
        check_in_time("call", call.at_us, duration_us)
    if options["random_faults"]:
        mix = fault_mix(derive(seed, "plan", "faults"), replicas, duration_us)
        faults = tuple(sorted((*faults, *mix), key=lambda fault: fault.at_us))
    return Scenario(
        seed=seed,
        scheme=scheme,
        datatype=datatype.name,
        replicas=replicas,
        duration_us=duration_us,
        clients=_clients(options, replicas),
        faults=faults,
        script=script,
    )


def _clients(options: dict[str, Any], replicas: int) -> ClientModel:
    strong_share, load, sessions = options["strong_share"], options["load"], options["sessions"]
    if not 0 <= strong_share <= 1:
        raise UsageError(f"--strong-share is {strong_share}: it must be between 0 and 1")
    if load is not None and sessions is not None:
        raise UsageError("--load and --sessions exclude each other: leave one of them out")
    if load is not None and not 0 < load <= 10_000_000:
        raise UsageError(f"--load is {load}: it must be above 0 and at most 10000000")
    if sessions is None:
        sessions = 0 if options["calls"] else SESSIONS
    return ClientModel(
        sessions=sessions,
        think_us=options["think"],
        rate_per_second=(load or 0.0) / replicas,
        strong_share=strong_share,
    )


def _refuse_others(context: click.Context, chosen: str, others: tuple[str, ...]) -> None:
    """The scenario comes from `chosen`: no option may pretend to change it."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name in others:
            raise UsageError(
                f"{chosen} brings its own scenario: {parameter.opts[0]} cannot change it"
            )


# --- running ----------------------------------------------------------------------------------


def _run(scenario: Scenario, datatype: Debugged | None) -> Run:
    """Run it, with a progress bar if it takes a while and somebody watches."""
    if datatype is None:
        simulation = simulation_of(scenario)
    else:
        simulation = debugged_simulation(scenario, datatype)
    console = complaints()
    if not console.is_terminal or not scenario.duration_us:
        return simulation.run()
    bar = Progress(
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} ms"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task("simulating", total=scenario.duration_us / 1000)
    begun = time.monotonic()

    def moved(now_us: int) -> None:
        if time.monotonic() - begun > PATIENCE_BEFORE_BAR_S:
            bar.start()
        bar.update(task, completed=now_us / 1000)

    # Events that touch nothing: they change neither the run nor its trace.
    for step in range(1, BAR_STEPS):
        at_us = scenario.duration_us * step // BAR_STEPS
        simulation.heap.at(at_us, moved, at_us)
    try:
        return simulation.run()
    finally:
        bar.stop()
