"""Experiment: TPC-C on one scheme under one load, with the parameters that Section 6 varies.

The defaults are the paper's environment: five replicas of 16 cores in one data centre, and five
warehouses. Every Payment is strong, a row is a register, and all replicas execute read-only
operations. All extensions of Creek beyond the paper are off, whatever the defaults of the protocol
are. Time is simulated; equal experiments give equal runs on any machine.

`build_simulation` builds a simulation from the scheme, data type and clients of a scenario. Data
types are identified by name. The name of TPC-C includes its layout and its population, so that a
scenario, or a history of it, is sufficient to rebuild the simulation.
"""

from math import isfinite
from typing import Any, Final

import msgspec

from creekdb import datatypes, tpcc
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.history import LIVE_SOURCE, History
from creekdb.protocol.extensions import EXTENSIONS, check_extensions, join_extensions
from creekdb.schemes import registry
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.faults.fault_types import Crash, Die, Fault
from creekdb.simulation.faults.fields import format_duration
from creekdb.simulation.faults.language import format_fault, parse_faults
from creekdb.simulation.kernel.cluster import Simulation
from creekdb.simulation.kernel.scenario import (
    ClientModel,
    OperationSource,
    Scenario,
    source_from_sampler,
)
from creekdb.simulation.kernel.shared_executions import ExecutionSharingDataType
from creekdb.simulation.models.parameters import (
    REGION_POSITIONS_US,
    SCALE_MAX,
    CpuModel,
    DiskModel,
    NetworkModel,
    calibrated_cpu,
    distances_on_a_line,
    evenly_skewed_clocks,
)
from creekdb.tpcc.population.rows import check_population

LOAD_MAX: Final = 10_000_000
CORES_MAX: Final = 1024
REPLICAS_MAX: Final = 99
WARM_UP_DIVISOR: Final = 5
"""Default warm-up: the duration divided by this number."""
CHECKPOINT_NEVER: Final = 1_000_000_000
SAMPLES_PER_RUN: Final = 40
"""Number of samples of each replica's counters in a run."""
WIDE_AREA_TICK_US: Final = 25_000
"""Tick of replicas in several regions. Durations of the protocol are in ticks, and a message is
sent again after eight of them. This must exceed a round trip."""
CLOCK_SKEW_US_MAX: Final = 1_000_000


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scheme: str = "creek"
    warehouses: int = 5
    load_tps: float = 2_000.0
    """Transactions per second of all clients together. Every scheme sustains the default."""
    strong_share: float | None = None
    """Share of strong transactions, drawn at random; None means every Payment and no other."""
    exec_scale: float = 1.0
    """Factor on the duration of an execution."""
    replicas: int = 5
    cores: int = 16
    layout: str = "rows"
    seed: int = 0
    duration_us: int = 1_000_000
    """Duration of the load phase, in microseconds."""
    warm_up_us: int | None = None
    """Part of the duration that is not measured, in microseconds; None means a fifth."""
    local_reads: bool = False
    """With `creek`: True if a weak read-only operation is executed by its own replica only."""
    decided_only: bool = False
    """With `archie`: True if a transaction is executed when its position is decided, without
    speculation."""
    estimates: bool = False
    """Extension: True if a request waits for earlier ones that are expected to change what it
    reads."""
    footprints: bool = False
    """Extension: True if a stable response waits only for requests that may write what its
    transaction touches."""
    late_contexts: bool = False
    """Extension: True if the leader extends the contexts of strong requests by weak requests with
    lower timestamps."""
    fast_path: bool = False
    """Extension: True if a fast quorum votes for strong requests at their deadlines, before the
    proposal of the leader arrives."""
    regions: int = 1
    """Number of regions that the replicas are spread over, one after the other. Regions are 20 to
    80 ms apart, one way."""
    clock_skew_us: int = 0
    """Difference between the first and the last clock, in microseconds. The clocks of the replicas
    between are spaced evenly."""
    faults: tuple[str, ...] = ()
    """Faults in the language of `creek simulate --fault`."""
    recorded: bool = False
    """True if all events are recorded, as every checker needs. The run is the same."""

    def __post_init__(self) -> None:
        """Validate the fields; `BadValue` and `UnknownName` begin with the name of the field."""
        registry.get_scheme(self.scheme)
        tpcc.populated_datatype_name(self.layout, self.warehouses, self.seed)
        if self.warehouses < 1:
            raise BadValue(f"warehouses is {self.warehouses}: it must be at least 1")
        if not 0 < self.load_tps <= LOAD_MAX:
            raise BadValue(
                f"load_tps is {self.load_tps:g}: it must be above 0 and at most {LOAD_MAX}"
            )
        if self.strong_share is not None and not 0 <= self.strong_share <= 1:
            raise BadValue(f"strong_share is {self.strong_share}: it must be between 0 and 1")
        if not (isfinite(self.exec_scale) and 0 < self.exec_scale <= SCALE_MAX):
            raise BadValue(
                f"exec_scale is {self.exec_scale:g}: it must be above 0 and at most {SCALE_MAX:g}"
            )
        for name, maximum in (("replicas", REPLICAS_MAX), ("cores", CORES_MAX)):
            if not 1 <= getattr(self, name) <= maximum:
                raise BadValue(f"{name} is {getattr(self, name)}: it must be from 1 to {maximum}")
        if self.seed < 0:
            raise BadValue(f"seed is {self.seed}: it must be at least 0")
        check_extensions(self.scheme, self.extensions)
        if self.regions not in REGION_POSITIONS_US:
            raise UnknownName("regions", str(self.regions), tuple(map(str, REGION_POSITIONS_US)))
        if not 0 <= self.clock_skew_us <= CLOCK_SKEW_US_MAX:
            raise BadValue(
                f"clock_skew_us is {self.clock_skew_us}: it must be from 0 to {CLOCK_SKEW_US_MAX}"
            )
        check_population(self.seed, self.warehouses)
        if not 0 <= self.warm_up_end_us < self.duration_us:
            raise BadValue(
                f"warm_up_us is {self.warm_up_end_us}: it must be from 0 to less than "
                "duration_us, which "
                f"is {self.duration_us}"
            )
        self.to_scenario()

    @property
    def extensions(self) -> tuple[str, ...]:
        """Extensions beyond the paper that are on."""
        return tuple(name for name in EXTENSIONS if getattr(self, name))

    @property
    def warm_up_end_us(self) -> int:
        """Time at which measuring begins, in microseconds."""
        return self.duration_us // WARM_UP_DIVISOR if self.warm_up_us is None else self.warm_up_us

    def to_scenario(self, record_all: bool = False) -> Scenario:
        """Return the scenario; with `record_all`, all events are recorded, not only responses.

        Otherwise messages are not copied, and writing is free unless a replica has to recover.
        """
        record_all = record_all or self.recorded
        faults: tuple[Fault, ...] = parse_faults("; ".join(self.faults))
        crashes = any(isinstance(each, Crash | Die) for each in faults)
        # Each extension is set, so that the defaults of the protocol do not matter.
        settings = {name: int(getattr(self, name)) for name in ("local_reads", *EXTENSIONS)}
        if self.decided_only:
            settings["decided_only"] = 1
        if self.cores != CpuModel().cores:
            settings["parallelism"] = self.cores
        if not crashes:  # without recovery, checkpoints are useless
            settings["checkpoint_every"] = CHECKPOINT_NEVER
        share = self.strong_share
        return Scenario(
            seed=self.seed,
            scheme=self.scheme,
            datatype=tpcc.populated_datatype_name(self.layout, self.warehouses, self.seed),
            replicas=self.replicas,
            duration_us=self.duration_us,
            warm_up_us=self.warm_up_end_us,
            clients=ClientModel(
                sessions=0,
                rate_per_second=self.load_tps / self.replicas,
                strong_share=0.0 if share is None else share,
                strong_kinds=tuple(sorted(tpcc.STRONG_KINDS)) if share is None else (),
                tentative_only_share=0.0,
                patience_us=0,
            ),
            cpu=calibrated_cpu(self.cores, self.exec_scale),
            network=NetworkModel(
                wire=record_all,
                distances_us=distances_on_a_line(REGION_POSITIONS_US[self.regions]),
            ),
            disk=DiskModel(kept=crashes),
            clock=evenly_skewed_clocks(self.clock_skew_us, self.replicas),
            tick_us=Scenario().tick_us if self.regions == 1 else WIDE_AREA_TICK_US,
            settings=settings,
            record_events=record_all,
            samples=SAMPLES_PER_RUN,
            faults=faults,
        )

    def to_command(self) -> str:
        """Return the shell command of the same run."""
        defaults = Experiment()
        parts = ["creek simulate --workload tpcc", f"--scheme {self.scheme}"]
        for field, value in msgspec.structs.asdict(self).items():
            if field not in ("scheme", "recorded", *EXTENSIONS) and (
                value != getattr(defaults, field) or field in _ALWAYS_SHOWN
            ):
                parts += _option(field, value)
        if self.extensions:
            parts.append(f"--extensions {join_extensions(self.extensions)}")
        return " ".join(parts)


_ALWAYS_SHOWN: Final = ("load_tps", "duration_us")
_OPTIONS: Final = {
    "load_tps": "--load",
    "duration_us": "--duration",
    "warm_up_us": "--warm-up",
    "clock_skew_us": "--clock-skew",
}


def _option(field: str, value: Any) -> list[str]:
    name = _OPTIONS.get(field, f"--{field.replace('_', '-')}")
    match value:
        case bool():
            return [name]
        case tuple():
            return [f"--fault '{format_fault(each)}'" for each in parse_faults("; ".join(value))]
        case float():
            return [name, f"{value:g}" if value == float(f"{value:g}") else repr(value)]
        case _:
            return [name, format_duration(value) if field.endswith("_us") else str(value)]


TPCC = "tpcc"


def datatype_of_history(history: History) -> DataType | None:
    """Return the replicated data type, or None if it is not available.

    A live cluster wraps calls for deduplication.
    """
    try:
        if history.config.get("source") == LIVE_SOURCE:
            return DeduplicatingDataType(load_datatype(str(history.config["imported"])))
        return load_datatype(history.datatype)
    except UsageError:
        return None


def build_simulation(
    scenario: Scenario, datatype: DataType | None = None, resolved: DataType | None = None
) -> Simulation:
    """Build the simulation of a scenario.

    `datatype` replaces that of the scenario, for instance to debug it. Otherwise replicas share
    executions where this saves time. `resolved` is the data type of the scenario, if already known.
    """
    scheme = registry.get_scheme(scenario.scheme)
    replicated = datatype or resolved or load_datatype(scenario.datatype)
    if datatype is None and isinstance(replicated.base, tpcc.PopulationBase):
        replicated = ExecutionSharingDataType(replicated)
    settings = scenario.protocol_settings()
    return Simulation(
        scenario,
        lambda index: scheme(index, settings, replicated),
        source=_operation_source(scenario, replicated),
    )


def _operation_source(scenario: Scenario, datatype: DataType) -> OperationSource | None:
    if isinstance(datatype.base, tpcc.PopulationBase):
        population = datatype.base.population
        return tpcc.Terminals(datatype, population, scenario.seed, scenario.node_count)
    sample = datatypes.SAMPLERS.get(scenario.datatype)
    return None if sample is None else source_from_sampler(sample)
