"""`creek simulate`: one run of a simulated cluster, measured and checked."""

import os
import shlex
import subprocess
import sys
import traceback
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from textwrap import wrap

import click
import msgspec
from rich.progress import BarColumn, TimeRemainingColumn
from rich.text import Text

from creekdb import tpcc
from creekdb.checkers import Verdict, check_all, verdict_rows
from creekdb.cli.commands.pipeline.group import populated_datatype
from creekdb.cli.declaration import declared, option
from creekdb.cli.exit_codes import FAILURE, SUCCESS
from creekdb.cli.options import NEW_DIRECTORY, command_limits
from creekdb.cli.output import (
    ProgressBar,
    command_name,
    pluralize,
    print_json,
    print_lines,
    print_table,
)
from creekdb.cli.scenario_options import ScenarioOptions, scenario_from_options, with_load
from creekdb.cli.views.measures import peak_table, print_measures
from creekdb.cli.views.run_summary import is_legal, scenario_lines, verdict_lines
from creekdb.cli.views.timeline import timeline_lines
from creekdb.cli.views.walkthrough import walkthrough_lines
from creekdb.datatypes import DATATYPES
from creekdb.errors import NotDeterministic, UsageError
from creekdb.evaluation import (
    Measures,
    build_simulation,
    find_peak,
    measure,
    violated_conditions,
)
from creekdb.evaluation.experiment import TPCC
from creekdb.execution.datatype import DataType, DataTypeWrapper
from creekdb.execution.debug import DebugDataType, ExecutionRecord, first_difference
from creekdb.execution.operation_errors import ErrorTraces
from creekdb.execution.python_runtime import reduced_gc
from creekdb.history import save_run, save_verdicts
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.faults.language import fault_examples
from creekdb.simulation.kernel.cluster import Simulation, SimulationRun
from creekdb.simulation.kernel.scenario import Scenario

EXAMPLE_WIDTH = 37

_INTRODUCTION = """\
Set faults with --fault, once for each, or in a file with --faults. A fault is a name, its arguments
and its time. Replicas are numbered from 0. A time is a number and its unit, without a
space: us, ms, s, m, h or d. A probability is 10% or 0.1."""

_REMARKS = """\
With five replicas, 'partition 0,1 at 1s' is 'partition 0,1|2,3,4 at 1s': the rest is one group.
At the end of --duration every fault is healed, except death, severed links and wrong clocks."""


def fault_help() -> str:
    lines = [*wrap(_INTRODUCTION, 80), ""]
    for example, meaning in fault_examples():
        row = f"{example:{EXAMPLE_WIDTH}}{meaning}"
        lines += wrap(row, 80, subsequent_indent=" " * EXAMPLE_WIDTH)
    return "\n".join([*lines, "", *wrap(_REMARKS, 80)])


CHILD_COMMAND = (
    sys.executable,
    "-c",
    "from creekdb.cli.commands import simulate; simulate.run_child()",
)
HASH_SEED_VARIABLE = "PYTHONHASHSEED"
BAR_DELAY_S = 1.0
BAR_STEPS = 200


def run_with_progress(simulation: Simulation, activity: str = "simulating") -> SimulationRun:
    """Run the simulation, with a progress bar on a terminal if it takes long."""
    duration_us = simulation.scenario.duration_us
    position = "{task.completed:.0f} of {task.total:.0f} ms"
    columns = (activity, BarColumn(), position, TimeRemainingColumn())
    with (
        reduced_gc(),
        ProgressBar(*columns, total=duration_us / 1000, delay_s=BAR_DELAY_S) as bar,
    ):
        if bar.is_visible and duration_us:
            # These events touch no simulated state, so they change neither the run nor its trace.
            for step in range(1, BAR_STEPS):
                at_us = duration_us * step // BAR_STEPS
                update = partial(bar.update, completed=at_us / 1000)
                simulation.heap.schedule_at(at_us, update)
        return simulation.run()


def _print_fault_help(context: click.Context, parameter: click.Parameter, is_set: bool) -> None:
    if is_set:
        click.echo(fault_help())
        context.exit()


@click.command(short_help="Simulate a cluster once, measure and check the run.")
@declared
@click.option(
    "--help-faults",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_fault_help,
    help="Show the syntax and the meaning of every fault, and exit.",
)
def simulate(
    *,
    options: ScenarioOptions,
    as_json: bool = option("Print one JSON object instead of tables.", flag="--json"),
    out: Path | None = option("Run directory to create, for 'creek check'.", type=NEW_DIRECTORY),
) -> int:
    """Simulate a cluster once, measure the run, and check it.

    Equal options give equal runs, on any machine. Exits with 1 if a checker finds a violation, or
    if --debug finds a nondeterministic operation.

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
      creek simulate --workload tpcc --load 20000 --extensions all
      creek simulate --workload tpcc --load 1000 --regions 5

    \b
    Measures, all in simulated time, while clients call:
      tentative        a response that may still change
      stable           the response that never changes; for a weak operation,
                       the final response, when its position is fixed
      throughput       completed operations per second: weak ones with their first
                       response, strong ones with their stable response
      saturated        yes if fewer than 97 % of the offered operations complete,
                       or the backlog grows
      accuracy         share of weak operations whose first response was final;
                       for TPC-C, without the numbers of orders
      execution ratio  executions per operation and replica: 1 if none is repeated
      quiescent        the time after the last call at which every replica had
                       committed all requests; they may include strong no-ops,
                       which replicas add by themselves
      trace hash       hash of all events: equal for equal runs
    """
    scenario = scenario_from_options(options, saved=out is not None)
    if out is not None and out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} exists already, and runs are never overwritten: name another")
    if options.tpcc.find_peak:
        return _find_peak(scenario, as_json)
    population = options.tpcc.population
    datatype = (
        load_datatype(scenario.datatype)
        if population is None
        else populated_datatype(population, scenario)
    )
    traces: list[str] = []
    datatype = _traced_datatype(datatype, traces)
    debugged = DebugDataType(datatype) if options.debug else None
    try:
        run = run_with_progress(build_simulation(scenario, debugged, datatype))
        for trace in traces:
            click.echo(f"creek: {trace}", err=True)
        if debugged is not None and (
            difference := compare_with_child(
                scenario, debugged.execution_log, command_limits().hash_seeds
            )
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
    conditions = violated_conditions(run.history, datatype) if options.workload == TPCC else []
    measures = measure(scenario, run, verdicts, conditions)
    if as_json:
        print_json(measures)
    else:
        _print_run(scenario, run, verdicts, measures, options)
        if debugged is not None:
            for statement, warnings in debugged.sql_warnings.items():
                for warning in warnings:
                    click.echo(f"creek: {' '.join(statement.split())}: {warning}", err=True)
            executions = pluralize(len(debugged.execution_log), "execution")
            repeated = "repeated twice, once in another process"
            click.echo(f"\n{executions}, {repeated}: all operations are deterministic")
        if out is not None:
            check = f"{command_name()} check {shlex.quote(str(out))}"
            click.echo(f"\nsaved to {out}; check it with: {check}")
    return SUCCESS if is_legal(verdicts) and not conditions else FAILURE


def _traced_datatype(datatype: DataType, traces: list[str]) -> DataType:
    """Return the data type with an observer that appends the traces of its errors to `traces`.

    A ready-made data type is returned unchanged: all its errors are documented responses.
    """
    if DATATYPES.get(datatype.name) is datatype or isinstance(datatype.base, tpcc.PopulationBase):
        return datatype

    def append(operation: str, error: str, trace: str) -> None:
        traces.append(f"{operation} raised {error}, first at:\n{trace}")

    traced = DataTypeWrapper(datatype)
    traced.error_observer = ErrorTraces(append)
    return traced


class ReplayResult(msgspec.Struct, frozen=True, array_like=True):
    journal: list[ExecutionRecord]
    problem: str | None = None
    """Nondeterminism that the child process detected itself."""


def compare_with_child(
    scenario: Scenario, ours: list[ExecutionRecord], hash_seeds: Iterable[str]
) -> NotDeterministic | None:
    """Repeat a debug run in another process; return the first difference from `ours`, or None.

    That process has the first of the hash seeds that this one does not have. The iteration order of
    a set of strings, for instance, depends on the hash seed.
    """
    other = next(seed for seed in hash_seeds if seed != os.environ.get(HASH_SEED_VARIABLE))
    done = subprocess.run(
        CHILD_COMMAND,
        env={**os.environ, HASH_SEED_VARIABLE: other},
        input=msgspec.json.encode(scenario),
        stdout=subprocess.PIPE,
        check=True,
    )
    reply = msgspec.msgpack.decode(done.stdout, type=ReplayResult)
    if reply.problem is not None:
        return NotDeterministic(reply.problem)
    how = f"in another process, with {HASH_SEED_VARIABLE}={other}"
    return first_difference(scenario.datatype, ours, reply.journal, how)


def run_child() -> None:
    """Run the scenario of stdin and write its executions to stdout."""
    scenario = msgspec.json.decode(sys.stdin.buffer.read(), type=Scenario)
    datatype = DebugDataType(load_datatype(scenario.datatype))
    problem: str | None = None
    try:
        build_simulation(scenario, datatype).run()
    except NotDeterministic as error:
        problem = str(error)
    sys.stdout.buffer.write(msgspec.msgpack.encode(ReplayResult(datatype.execution_log, problem)))


def _find_peak(scenario: Scenario, as_json: bool) -> int:
    datatype = load_datatype(scenario.datatype)

    def attempt(load_tps: float) -> Measures:
        loaded = with_load(scenario, load_tps)
        run = run_with_progress(build_simulation(loaded), f"{load_tps:.0f} operations per second")
        return measure(loaded, run, [], violated_conditions(run.history, datatype))

    peak = find_peak(attempt, scenario.clients.rate_per_second * scenario.replicas)
    conditions = [each for tried in peak.tried for each in tried.violated]
    if as_json:
        print_json(peak)
    else:
        print_lines([*scenario_lines(scenario), Text()])
        print_table(peak_table(peak))
        summary = f"peak: {peak.peak_tps:.0f} operations per second"
        saturation = f"saturated at a load of {peak.saturating_tps:.0f}"
        print_lines([Text(), Text(f"{summary}; {saturation}"), *_condition_lines(conditions)])
    return FAILURE if conditions else SUCCESS


def _print_run(
    scenario: Scenario,
    run: SimulationRun,
    verdicts: list[Verdict],
    measures: Measures,
    options: ScenarioOptions,
) -> None:
    if options.story:
        print_lines(walkthrough_lines(run.history, verdicts))
        return
    print_lines([*scenario_lines(scenario), Text()])
    if scenario.script and not scenario.clients.sessions:
        print_lines([*timeline_lines(run.history), Text()])
    print_measures(measures)
    if verdicts:
        print_lines([Text(), *verdict_lines(verdicts)])
    if options.workload == TPCC:
        print_lines([Text(), *_condition_lines(measures.violated)])


def _condition_lines(violated: list[str]) -> list[Text]:
    if not violated:
        return [Text("TPC-C's consistency conditions hold on every replica")]
    return [Text(each, style="red") for each in violated]
