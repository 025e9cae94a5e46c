"""Options of `creek simulate` for the scenario, and their conversion to it.

There are two workloads. A data type runs in small runs whose events are all recorded and checked.
A TPC-C run is a measurement: only responses are recorded unless the run is saved, messages are not
copied, and disk writes take no time.

An invalid value raises `UsageError`, whose message states the valid values. The command prints the
message and exits with code 2.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from creekdb import datatypes, tpcc
from creekdb.cli.declaration import option
from creekdb.cli.options import (
    DEFAULT_SCHEME,
    EXISTING_FILE,
    add_working_directory_to_path,
    explicit_options,
    parse_argument,
)
from creekdb.cli.views.walkthrough import walkthrough_scenario
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.evaluation.experiment import CORES_MAX, LOAD_MAX, REPLICAS_MAX, TPCC, Experiment
from creekdb.execution.datatype import DataType
from creekdb.protocol.extensions import (
    EXTENSIONS,
    NONE,
    check_extensions,
    extension_switches,
    parse_extensions,
)
from creekdb.schemes import registry
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.faults.fault_types import Fault, check_faults
from creekdb.simulation.faults.fields import UNITS_US, format_duration, parse_duration_us
from creekdb.simulation.faults.language import format_fault, parse_faults
from creekdb.simulation.fuzz.campaign import Overrides, overridden_scenario
from creekdb.simulation.fuzz.fault_generator import draw_faults
from creekdb.simulation.kernel.scenario import ClientModel, Scenario, ScriptedInvocation
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.models.parameters import REGION_POSITIONS_US, SCALE_MAX, CpuModel

CALL_SYNTAX = "'[strong] NAME [ARGUMENT ...] on REPLICA at TIME'"
DEFAULT_SESSIONS = 2
DEFAULT_STRONG_SHARE = 0.1
DEFAULT_EXPERIMENT = Experiment()
SCHEME = option(
    f"Replication scheme: {', '.join(registry.BUILT_IN)}, or package.module:Class, also from the "
    "working directory. A live cluster runs creek.",
    DEFAULT_SCHEME,
)


DURATION_US_MAX = 3_600_000_000
"""Upper bound for a duration: one hour, in microseconds."""
MEASUREMENT_US_MIN = 100_000
"""Lower bound for a meaningful measurement of a live cluster, in microseconds."""


class DurationParam(click.ParamType[int]):
    """A duration in microseconds, from `min_us` to one hour."""

    name = "duration"

    def __init__(self, min_us: int = 0) -> None:
        self._min_us = min_us

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        duration_us = parse_duration_us(value)
        if not self._min_us <= duration_us <= DURATION_US_MAX:
            option = param.opts[0] if param is not None else "a duration"
            minimum = format_duration(self._min_us)
            raise BadValue(f"{option} is {value}: it must be between {minimum} and 1h")
        return duration_us


DURATION = DurationParam()
MEASUREMENT = DurationParam(MEASUREMENT_US_MIN)


class TpccOptions(NamedTuple):
    warehouses: int = option("TPC-C: number of warehouses.", DEFAULT_EXPERIMENT.warehouses)
    layout: str = option(
        "TPC-C: one register per row, separate registers for the columns that change, or SQL.",
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
    decided_only: bool = option(
        "TPC-C, scheme archie: execute a transaction when its position is decided, without "
        "speculation."
    )
    regions: int = option(
        "TPC-C: number of regions, 20 to 80 ms apart, that the replicas are spread over: "
        f"{', '.join(map(str, REGION_POSITIONS_US))}.",
        DEFAULT_EXPERIMENT.regions,
    )
    clock_skew: int = option(
        "TPC-C: difference between the first and the last clock of the replicas.", "0us", DURATION
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
        f"[default for TPC-C: {DEFAULT_EXPERIMENT.load_tps:.0f}]",
        metavar="TPS",
    )
    cores: int = option("Cores of each replica.", 16, click.IntRange(1, CORES_MAX))
    concurrency: int | None = option(
        "Number of operations that a replica executes at once.  [default: one per core]",
        type=click.IntRange(1, CORES_MAX),
    )
    exec_scale: float = option("Factor for the execution time of an operation.", 1.0)
    extensions: str = option(
        "Extensions of the scheme creek beyond the paper, separated by commas: "
        f"{', '.join(EXTENSIONS)}; or all.",
        NONE,
        metavar="NAMES",
    )
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
        _reject_options("--story defines the scenario", {"replay", *_SCENARIO_OPTIONS})
        return walkthrough_scenario(options.seed, options.scheme)
    if options.replay is not None:
        _reject_options(
            "--replay defines the scenario",
            {"seed", *_SCENARIO_OPTIONS} - {"extensions", "datatype"},
        )
        is_switched = bool(explicit_options({"extensions"}))
        has_datatype = bool(explicit_options({"datatype"}))
        overrides = Overrides(
            switches=extension_switches(options.extensions) if is_switched else {},
            datatype=options.datatype if has_datatype else None,
        )
        return overridden_scenario(options.replay, options.scheme, overrides)
    _check_numbers(options)
    if options.workload == TPCC:
        _reject_options("--workload tpcc defines the clients", _NON_TPCC_OPTIONS)
        if options.tpcc.find_peak and (saved or options.debug or options.tpcc.population):
            raise UsageError("--find-peak makes many runs: omit --out, --debug and --population")
        if options.debug and options.tpcc.population:
            raise UsageError("--debug repeats the run with computed data: omit --population")
        return _tpcc_scenario(options, saved)
    for name in explicit_options(_TPCC_OPTIONS):
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


def _reject_options(reason: str, names: set[str]) -> None:
    """Reject options that would have no effect."""
    for name in explicit_options(names):
        raise UsageError(f"{reason}: omit {name}")


def _fault_schedule(options: ScenarioOptions) -> tuple[Fault, ...]:
    """Return the faults of the file, of the options and at random, in the order of time."""
    replicas, duration_us = options.replicas, options.duration
    faults: list[Fault] = []
    for location, text in (
        *_file_lines(options.fault_file),
        *(("", each) for each in options.faults),
    ):
        try:
            parsed = parse_faults(text)
            check_faults(parsed, replicas)
            for fault in parsed:
                _check_before_end("fault", fault.at_us, duration_us)
        except UsageError as error:
            is_unknown = isinstance(error, UnknownName)
            hint = " ('creek simulate --help-faults' explains them)" if is_unknown else ""
            raise UsageError(f"{location}{error}{hint}") from error
        faults += parsed
    if options.random_faults:
        faults += draw_faults(
            derive_generator(options.seed, "plan", "faults"), replicas, duration_us
        )
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _file_lines(path: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the lines of a file without comments, each after its location for errors."""
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the faults in {path}: {error}") from error
        for number, line in enumerate(text.splitlines(), start=1):
            yield f"{path}, line {number}: ", line.partition("#")[0]


def _check_before_end(noun: str, at_us: int, duration_us: int) -> None:
    if at_us > duration_us:
        raise UsageError(
            f"a {noun} at {format_duration(at_us)} is after the end of the run at "
            f"{format_duration(duration_us)}: increase --duration"
        )


def _parse_call(text: str, datatype: DataType) -> ScriptedInvocation:
    """Parse a scripted call, such as `strong withdraw ann 50 on 2 at 150ms`."""
    words = text.split()
    strong = words[:1] == ["strong"]
    if words[:1] in (["strong"], ["weak"]):
        del words[0]
    match words:
        case [name, *arguments, "on", replica, "at", time] if replica.isdecimal():
            operation = datatype.call(name, *map(parse_argument, arguments))
            return ScriptedInvocation(parse_duration_us(time), int(replica), operation, strong)
        case [*_, "at", number, unit] if unit in UNITS_US:
            raise BadValue(f"call '{text}': write {number}{unit}, without a space")
        case _:
            raise BadValue(f"'{text}' is not a call: write {CALL_SYNTAX}")


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
    extensions = parse_extensions(options.extensions)
    check_extensions(options.scheme, extensions)
    settings = dict.fromkeys(extensions, 1) | _concurrency(options)
    script = tuple(_parse_call(each, datatype) for each in options.calls)
    for call in script:
        _check_before_end("call", call.at_us, duration_us)
    return Scenario(
        seed=options.seed,
        scheme=options.scheme,
        datatype=name,
        replicas=replicas,
        duration_us=duration_us,
        clients=clients,
        cpu=CpuModel(cores=options.cores, scale=options.exec_scale),
        settings=settings,
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
    values = {**options._asdict(), **options.tpcc._asdict()}
    values |= {
        "load_tps": options.load or DEFAULT_EXPERIMENT.load_tps,
        "duration_us": duration_us,
        "warm_up_us": warm_up_us,
        "clock_skew_us": options.tpcc.clock_skew,
        **dict.fromkeys(parse_extensions(options.extensions), True),
        "faults": tuple(map(format_fault, _fault_schedule(options))),
    }
    fields = Experiment.__struct_fields__
    experiment = Experiment(**{name: values[name] for name in fields if name in values})
    scenario = experiment.to_scenario(saved)
    return replace(scenario, settings=scenario.settings | _concurrency(options))


def _concurrency(options: ScenarioOptions) -> dict[str, int]:
    """Return the setting for the number of concurrent executions, if it is not the default."""
    concurrency = options.concurrency or options.cores
    return {} if concurrency == CpuModel().cores else {"parallelism": concurrency}


def with_load(scenario: Scenario, load_tps: float) -> Scenario:
    """Return the scenario with another load, in operations per second."""
    clients = replace(scenario.clients, rate_per_second=load_tps / scenario.replicas)
    return replace(scenario, clients=clients)
