"""Conversion of the options of `creek simulate` to a scenario.

There are two workloads. A data type runs in small runs whose events are all recorded and checked.
A TPC-C run is a measurement: only responses are recorded unless the run is saved, messages are not
copied, and disk writes take no time.
"""

from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from creekdb import datatypes
from creekdb.cli.arguments import check_before_end, parse_call, read_faults
from creekdb.cli.options import add_working_directory_to_path
from creekdb.cli.views.walkthrough import walkthrough_scenario
from creekdb.errors import UsageError
from creekdb.evaluation.experiment import LOAD_MAX, TPCC, Experiment, resolve_datatype
from creekdb.schemes import registry
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

_SCENARIO_OPTIONS = (
    "datatype",
    "replicas",
    "cores",
    "exec_scale",
    "duration",
    "strong_share",
    "sessions",
    "think",
    "load",
    "workload",
    "warehouses",
    "layout",
    "local_reads",
    "warm_up",
    "find_peak",
    "population",
    "fault_file",
    "faults",
    "random_faults",
    "calls",
)
_EXPERIMENT_OPTIONS = (
    "scheme",
    "warehouses",
    "strong_share",
    "exec_scale",
    "replicas",
    "cores",
    "layout",
    "seed",
    "local_reads",
)
_NON_TPCC_OPTIONS = ("datatype", "sessions", "think", "calls")
_TPCC_OPTIONS = ("warehouses", "layout", "local_reads", "warm_up", "find_peak", "population")


def scenario_from_options(context: click.Context, options: dict[str, Any], saved: bool) -> Scenario:
    """Return the scenario of the options. `saved`: record all events, because the run is saved."""
    seed, scheme, replay = options["seed"], options["scheme"], options["replay"]
    add_working_directory_to_path()
    registry.get_scheme(scheme)
    if options["story"]:
        _reject_options(context, "--story", ("replay", *_SCENARIO_OPTIONS))
        return walkthrough_scenario(seed, scheme)
    if replay is not None:
        _reject_options(context, "--replay", ("seed", *_SCENARIO_OPTIONS))
        return scenario_from_seed(replay, scheme)
    _check_numbers(options)
    if options["workload"] == TPCC:
        for name in _explicit_options(context, _NON_TPCC_OPTIONS):
            raise UsageError(f"--workload tpcc defines the clients: omit {name}")
        if options["find_peak"] and (saved or options["debug"] or options["population"]):
            raise UsageError("--find-peak makes many runs: omit --out, --debug and --population")
        if options["debug"] and options["population"]:
            raise UsageError("--debug repeats the run with computed data: omit --population")
        return _tpcc_scenario(options, saved)
    for name in _explicit_options(context, _TPCC_OPTIONS):
        raise UsageError(f"{name} applies to TPC-C only: add --workload tpcc")
    return _datatype_scenario(options)


def _check_numbers(options: dict[str, Any]) -> None:
    share, load, scale = options["strong_share"], options["load"], options["exec_scale"]
    if share is not None and not 0 <= share <= 1:
        raise UsageError(f"--strong-share is {share}: it must be between 0 and 1")
    if load is not None and not 0 < load <= LOAD_MAX:
        raise UsageError(f"--load is {load:g}: it must be above 0 and at most {LOAD_MAX}")
    if not 0 < scale <= SCALE_MAX:
        raise UsageError(f"--exec-scale is {scale:g}: it must be above 0 and at most {SCALE_MAX:g}")
    if options["warehouses"] < 1:
        raise UsageError(f"--warehouses is {options['warehouses']}: it must be at least 1")


def _explicit_options(context: click.Context, names: tuple[str, ...]) -> list[str]:
    """Return the options among these names that are on the command line."""
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]


def _reject_options(context: click.Context, chosen: str, others: tuple[str, ...]) -> None:
    """Reject options that cannot change the scenario of `chosen`."""
    for name in _explicit_options(context, others):
        raise UsageError(f"{chosen} defines the scenario: omit {name}")


def _fault_schedule(options: dict[str, Any]) -> tuple[Fault, ...]:
    replicas, duration_us = options["replicas"], options["duration"]
    faults = read_faults(options["fault_file"], options["faults"], replicas, duration_us)
    if options["random_faults"]:
        mix = draw_faults(
            derive_generator(options["seed"], "plan", "faults"), replicas, duration_us
        )
        faults = tuple(sorted((*faults, *mix), key=lambda fault: fault.at_us))
    return faults


def _settings(options: dict[str, Any]) -> dict[str, int]:
    cores: int = options["cores"]
    return {} if cores == CpuModel().cores else {"parallelism": cores}


# --- data type --------------------------------------------------------------------------------


def _datatype_scenario(options: dict[str, Any]) -> Scenario:
    name: str = options["datatype"]
    datatype = resolve_datatype(name)
    replicas, duration_us = options["replicas"], options["duration"]
    clients = _client_model(options, replicas)
    if name not in datatypes.SAMPLERS and (clients.sessions or clients.rate_per_second):
        raise UsageError(
            f"{name} has no random workload: add calls with --call, such as "
            f"--call '{datatype.operations[0]} … on 0 at 10ms'"
        )
    faults = _fault_schedule(options)
    script = tuple(parse_call(each, datatype) for each in options["calls"])
    for call in script:
        check_before_end("call", call.at_us, duration_us)
    return Scenario(
        seed=options["seed"],
        scheme=options["scheme"],
        datatype=name,
        replicas=replicas,
        duration_us=duration_us,
        clients=clients,
        cpu=CpuModel(cores=options["cores"], scale=options["exec_scale"]),
        settings=_settings(options),
        faults=faults,
        script=script,
    )


def _client_model(options: dict[str, Any], replicas: int) -> ClientModel:
    load, sessions, share = options["load"], options["sessions"], options["strong_share"]
    if load is not None and sessions is not None:
        raise UsageError("--load and --sessions exclude each other: omit one of them")
    if sessions is None:
        sessions = 0 if options["calls"] else DEFAULT_SESSIONS
    return ClientModel(
        sessions=sessions,
        think_us=options["think"],
        rate_per_second=(load or 0.0) / replicas,
        strong_share=DEFAULT_STRONG_SHARE if share is None else share,
    )


# --- TPC-C ------------------------------------------------------------------------------------


def _tpcc_scenario(options: dict[str, Any], saved: bool) -> Scenario:
    duration_us, warm_up_us = options["duration"], options["warm_up"]
    if duration_us == 0 or (warm_up_us is not None and not warm_up_us < duration_us):
        raise UsageError("--warm-up must be shorter than --duration: nothing would be measured")
    faults = tuple(format_fault(each) for each in _fault_schedule(options))
    return Experiment(
        **{name: options[name] for name in _EXPERIMENT_OPTIONS},
        load_tps=options["load"] or DEFAULT_TPCC_LOAD_TPS,
        duration_us=duration_us,
        warm_up_us=warm_up_us,
        faults=faults,
    ).to_scenario(saved)


def with_load(scenario: Scenario, load_tps: float) -> Scenario:
    """Return the scenario with another load, in operations per second."""
    clients = replace(scenario.clients, rate_per_second=load_tps / scenario.replicas)
    return replace(scenario, clients=clients)
