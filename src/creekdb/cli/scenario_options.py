"""Options of `creek simulate` for the scenario, and their conversion to it.

There are two workloads. A data type runs in small runs whose events are all recorded and checked.
A TPC-C run is a measurement: only responses are recorded unless the run is saved, messages are not
copied, and disk writes take no time.
"""

from pathlib import Path
from typing import NamedTuple

import click
from click.core import ParameterSource
from msgspec.structs import replace

from creekdb import datatypes, tpcc
from creekdb.cli.arguments import (
    CALL_SYNTAX,
    DURATION,
    check_before_end,
    parse_call,
    read_faults,
)
from creekdb.cli.declaration import option
from creekdb.cli.options import DEFAULT_SCHEME, EXISTING_FILE, add_working_directory_to_path
from creekdb.cli.views.walkthrough import walkthrough_scenario
from creekdb.errors import UsageError
from creekdb.evaluation.experiment import (
    CORES_MAX,
    LOAD_MAX,
    REPLICAS_MAX,
    TPCC,
    Experiment,
)
from creekdb.schemes import registry
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.faults.fault_types import Fault
from creekdb.simulation.faults.language import format_fault
from creekdb.simulation.fuzz.fault_generator import draw_faults
from creekdb.simulation.fuzz.scenario_generator import scenario_from_seed
from creekdb.simulation.kernel.scenario import ClientModel, Scenario
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.models.parameters import SCALE_MAX, CpuModel

DEFAULT_SESSIONS = 2
DEFAULT_STRONG_SHARE = 0.1
DEFAULT_TPCC_LOAD_TPS = 2_000.0
"""Default load of TPC-C, which every scheme sustains, in operations per second."""
DEFAULT_WAREHOUSES = 5
SCHEME = option(
    f"Replication scheme: {', '.join(registry.BUILT_IN)}, or package.module:Class, also from the "
    "working directory. A live cluster runs creek.",
    DEFAULT_SCHEME,
)


class TpccOptions(NamedTuple):
    warehouses: int = option("TPC-C: number of warehouses.", DEFAULT_WAREHOUSES)
    layout: str = option(
        "TPC-C: one register per row, or separate registers for the columns that change.",
        "rows",
        click.Choice(tpcc.LAYOUTS),
    )
    find_peak: bool = option(
        "TPC-C: search for the highest load that the cluster sustains, in several runs."
    )
    local_reads: bool = option(
        "TPC-C, scheme creek: execute a weak read-only operation on its own replica only "
        "(Section 4.4).  [default: on all replicas, as in the paper's figures]"
    )
    population: Path | None = option(
        "TPC-C: directory of initial data, from 'creek pipeline generate'.  [default: computed]",
        metavar="DIRECTORY",
    )
    warm_up: int | None = option(
        "TPC-C: time before the measurement begins, as part of --duration.  [default: a fifth]",
        type=DURATION,
    )


class ScenarioOptions(NamedTuple):
    seed: int = option("Seed of all randomness in the run.", 0)
    scheme: str = SCHEME
    datatype: str = option(
        "Replicated data type: bank, kv, …, or package.module:variable, also from the working "
        "directory, with --call.",
        "bank",
    )
    replicas: int = option(
        "Number of replicas. More than about 20 take long to simulate.",
        5,
        click.IntRange(1, REPLICAS_MAX),
    )
    duration: int = option(
        "Simulated time during which clients call and faults happen; then all faults are healed.",
        "2s",
        DURATION,
    )
    strong_share: float | None = option(
        "Share of strong operations, from 0 to 1.  "
        f"[default: {DEFAULT_STRONG_SHARE}; with TPC-C exactly the Payments]"
    )
    sessions: int | None = option(
        f"Number of clients per replica.  [default: {DEFAULT_SESSIONS}, or 0 with --call]",
        type=click.IntRange(0),
        flag="--sessions --clients",
    )
    think: int = option(
        "Mean think time of a client between a response and its next call.", "10ms", DURATION
    )
    load: float | None = option(
        "Open-loop load of the cluster, in operations per second, instead of --sessions.  "
        f"[default for TPC-C: {DEFAULT_TPCC_LOAD_TPS:.0f}]",
        metavar="TPS",
    )
    cores: int = option(
        "Cores of each replica: the number of operations that it executes concurrently.",
        16,
        click.IntRange(1, CORES_MAX),
    )
    exec_scale: float = option("Factor for the execution time of an operation.", 1.0)
    workload: str | None = option(
        "Measure TPC-C instead of checking a small run: five transactions, an open loop of "
        "clients, Payment strong. Only responses are recorded, unless the run is saved with --out.",
        type=click.Choice([TPCC]),
    )
    tpcc: TpccOptions = TpccOptions()
    calls: tuple[str, ...] = option(
        f"Scripted operation; may be repeated. Write {CALL_SYNTAX}.", flag="--call", metavar="CALL"
    )
    faults: tuple[str, ...] = option(
        "Fault, such as 'crash 2 at 150ms', 'restart 2 at 1s', 'partition 0,1|2,3,4 at 300ms', "
        "'heal at 1s', 'loss 10% at 0s'; may be repeated. See --help-faults.",
        flag="--fault",
        metavar="FAULT",
    )
    fault_file: Path | None = option(
        "File with one fault per line; # begins a comment.", type=EXISTING_FILE, flag="--faults"
    )
    random_faults: bool = option("Add random faults, derived from the seed.")
    story: bool = option("Walk through a network partition and its healing.")
    replay: int | None = option(
        "Repeat the run of a fuzzer seed.", type=click.IntRange(0), metavar="SEED"
    )
    debug: bool = option(
        "Execute every operation twice, repeat the run in another process, and compare."
    )


_NON_TPCC_OPTIONS = {"datatype", "sessions", "think", "calls"}
_TPCC_OPTIONS = {*TpccOptions._fields}
_SCENARIO_OPTIONS = {*ScenarioOptions._fields, *_TPCC_OPTIONS} - {
    *("seed", "scheme", "story", "replay", "debug")
}


def scenario_from_options(options: ScenarioOptions, saved: bool) -> Scenario:
    """Return the scenario of the options. `saved`: record all events, because the run is saved."""
    add_working_directory_to_path()
    registry.get_scheme(options.scheme)
    if options.story:
        _reject_options("--story", {"replay", *_SCENARIO_OPTIONS})
        return walkthrough_scenario(options.seed, options.scheme)
    if options.replay is not None:
        _reject_options("--replay", {"seed", *_SCENARIO_OPTIONS})
        return scenario_from_seed(options.replay, options.scheme)
    _check_numbers(options)
    if options.workload == TPCC:
        for name in _explicit_options(_NON_TPCC_OPTIONS):
            raise UsageError(f"--workload tpcc defines the clients: omit {name}")
        if options.tpcc.find_peak and (saved or options.debug or options.tpcc.population):
            raise UsageError("--find-peak makes many runs: omit --out, --debug and --population")
        if options.debug and options.tpcc.population:
            raise UsageError("--debug repeats the run with computed data: omit --population")
        return _tpcc_scenario(options, saved)
    for name in _explicit_options(_TPCC_OPTIONS):
        raise UsageError(f"{name} applies to TPC-C only: add --workload tpcc")
    return _datatype_scenario(options)


def _check_numbers(options: ScenarioOptions) -> None:
    share, load, scale = options.strong_share, options.load, options.exec_scale
    if share is not None and not 0 <= share <= 1:
        raise UsageError(f"--strong-share is {share}: it must be between 0 and 1")
    if load is not None and not 0 < load <= LOAD_MAX:
        raise UsageError(f"--load is {load:g}: it must be above 0 and at most {LOAD_MAX}")
    if not 0 < scale <= SCALE_MAX:
        raise UsageError(f"--exec-scale is {scale:g}: it must be above 0 and at most {SCALE_MAX:g}")
    if options.tpcc.warehouses < 1:
        raise UsageError(f"--warehouses is {options.tpcc.warehouses}: it must be at least 1")


def _explicit_options(names: set[str]) -> list[str]:
    """Return the options among these names that are on the command line."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]


def _reject_options(chosen: str, others: set[str]) -> None:
    """Reject options that cannot change the scenario of `chosen`."""
    for name in _explicit_options(others):
        raise UsageError(f"{chosen} defines the scenario: omit {name}")


def _fault_schedule(options: ScenarioOptions) -> tuple[Fault, ...]:
    replicas, duration_us = options.replicas, options.duration
    faults = read_faults(options.fault_file, options.faults, replicas, duration_us)
    if options.random_faults:
        mix = draw_faults(derive_generator(options.seed, "plan", "faults"), replicas, duration_us)
        faults = tuple(sorted((*faults, *mix), key=lambda fault: fault.at_us))
    return faults


def _settings(options: ScenarioOptions) -> dict[str, int]:
    return {} if options.cores == CpuModel().cores else {"parallelism": options.cores}


# --- data type --------------------------------------------------------------------------------


def _datatype_scenario(options: ScenarioOptions) -> Scenario:
    name = options.datatype
    datatype = load_datatype(name)
    replicas, duration_us = options.replicas, options.duration
    clients = _client_model(options, replicas)
    if name not in datatypes.SAMPLERS and (clients.sessions or clients.rate_per_second):
        raise UsageError(
            f"{name} has no random workload: add calls with --call, such as "
            f"--call '{datatype.operations[0]} … on 0 at 10ms'"
        )
    faults = _fault_schedule(options)
    script = tuple(parse_call(each, datatype) for each in options.calls)
    for call in script:
        check_before_end("call", call.at_us, duration_us)
    return Scenario(
        seed=options.seed,
        scheme=options.scheme,
        datatype=name,
        replicas=replicas,
        duration_us=duration_us,
        clients=clients,
        cpu=CpuModel(cores=options.cores, scale=options.exec_scale),
        settings=_settings(options),
        faults=faults,
        script=script,
    )


def _client_model(options: ScenarioOptions, replicas: int) -> ClientModel:
    load, sessions, share = options.load, options.sessions, options.strong_share
    if load is not None and sessions is not None:
        raise UsageError("--load and --sessions exclude each other: omit one of them")
    if sessions is None:
        sessions = 0 if options.calls else DEFAULT_SESSIONS
    return ClientModel(
        sessions=sessions,
        think_us=options.think,
        rate_per_second=(load or 0.0) / replicas,
        strong_share=DEFAULT_STRONG_SHARE if share is None else share,
    )


# --- TPC-C ------------------------------------------------------------------------------------


def _tpcc_scenario(options: ScenarioOptions, saved: bool) -> Scenario:
    duration_us, warm_up_us = options.duration, options.tpcc.warm_up
    if duration_us == 0 or (warm_up_us is not None and not warm_up_us < duration_us):
        raise UsageError("--warm-up must be shorter than --duration: nothing would be measured")
    faults = tuple(format_fault(each) for each in _fault_schedule(options))
    return Experiment(
        scheme=options.scheme,
        warehouses=options.tpcc.warehouses,
        strong_share=options.strong_share,
        exec_scale=options.exec_scale,
        replicas=options.replicas,
        cores=options.cores,
        layout=options.tpcc.layout,
        seed=options.seed,
        local_reads=options.tpcc.local_reads,
        load_tps=options.load or DEFAULT_TPCC_LOAD_TPS,
        duration_us=duration_us,
        warm_up_us=warm_up_us,
        faults=faults,
    ).to_scenario(saved)


def with_load(scenario: Scenario, load_tps: float) -> Scenario:
    """Return the scenario with another load, in operations per second."""
    clients = replace(scenario.clients, rate_per_second=load_tps / scenario.replicas)
    return replace(scenario, clients=clients)
