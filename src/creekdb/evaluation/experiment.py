"""An experiment: TPC-C on one scheme under one load, and what Section 6 of the paper varies.

The defaults are the paper's environment: five replicas of 16 cores, five warehouses, every Payment
strong, a register per row, and what only reads executed by all replicas. Time is simulated; the
same experiment gives the same run anywhere.

Putting a simulation together: the scheme, the data type and the clients that a scenario names.

Ready-made data types are known by name; TPC-C's name tells its layout and its population too, so
that a scenario, or a history of it, is enough to build the same again.
"""

from math import isfinite
from typing import Any, Final

import msgspec

from creekdb import datatypes, tpcc
from creekdb.errors import BadValue, UsageError
from creekdb.execution.datatype import DataType
from creekdb.history import LIVE_SOURCE, History
from creekdb.schemes import registry
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.server.runtime.config import load_datatype
from creekdb.simulation.faults.fault_types import Crash, Die, Fault
from creekdb.simulation.faults.language import format_duration, format_fault, parse_faults
from creekdb.simulation.kernel.cluster import Simulation
from creekdb.simulation.kernel.scenario import (
    ClientModel,
    OperationSource,
    Scenario,
    source_from_sampler,
)
from creekdb.simulation.kernel.shared_executions import ExecutionSharingDataType
from creekdb.simulation.models.parameters import (
    SCALE_MAX,
    CpuModel,
    DiskModel,
    NetworkModel,
    calibrated_cpu,
)
from creekdb.tpcc.population.rows import check_population as check_population

LOAD_MAX: Final = 10_000_000
CORES_MAX: Final = 1024
REPLICAS_MAX: Final = 99
WARM_UP_DIVISOR: Final = 5
"""One part in so many of the duration is not measured, unless it is said otherwise."""
CHECKPOINT_NEVER: Final = 1_000_000_000
SAMPLES_PER_RUN: Final = 40
"""Of each replica's counters, in a run."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scheme: str = "creek"
    warehouses: int = 5
    load_tps: float = 2_000.0
    """Transactions that clients ask for per second, all together. What every scheme can do."""
    strong_share: float | None = None
    """Of all transactions, drawn at random; None: every Payment, and nothing else."""
    exec_scale: float = 1.0
    """How many times longer than usual an execution takes."""
    replicas: int = 5
    cores: int = 16
    layout: str = "rows"
    seed: int = 0
    duration_us: int = 1_000_000
    """How long clients ask."""
    warm_up_us: int | None = None
    """How long of that is not measured; None: a fifth."""
    local_reads: bool = False
    """With `creek`: is a weak operation that only reads executed by its replica alone?"""
    faults: tuple[str, ...] = ()
    """As `creek simulate --fault` takes them."""
    recorded: bool = False
    """Is everything that happens recorded, so that every checker has something to check? The run is
    the same."""

    def __post_init__(self) -> None:
        """Raises `BadValue` or `UnknownName`, beginning with the name of the field."""
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
        for name, most in (("replicas", REPLICAS_MAX), ("cores", CORES_MAX)):
            if not 1 <= getattr(self, name) <= most:
                raise BadValue(f"{name} is {getattr(self, name)}: it must be from 1 to {most}")
        if self.seed < 0:
            raise BadValue(f"seed is {self.seed}: it must be at least 0")
        check_population(self.seed, self.warehouses)
        if not 0 <= self.warm_up_end_us < self.duration_us:
            raise BadValue(
                f"warm_up_us is {self.warm_up_end_us}: it must be from 0 to less than "
                "duration_us, which "
                f"is {self.duration_us}"
            )
        self.to_scenario()

    @property
    def warm_up_end_us(self) -> int:
        """When measuring begins."""
        return self.duration_us // WARM_UP_DIVISOR if self.warm_up_us is None else self.warm_up_us

    def to_scenario(self, kept: bool = False) -> Scenario:
        """`kept`: all that happens is recorded, not only what clients were answered. Otherwise
        messages are not copied; and writing costs nothing, unless a replica has to recover."""
        kept = kept or self.recorded
        faults: tuple[Fault, ...] = parse_faults("; ".join(self.faults))
        crashes = any(isinstance(each, Crash | Die) for each in faults)
        settings = {"local_reads": int(self.local_reads)}
        if self.cores != CpuModel().cores:
            settings["parallelism"] = self.cores
        if not crashes:  # who writes for nothing need not sum up what was written
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
            network=NetworkModel(wire=kept),
            disk=DiskModel(kept=crashes),
            settings=settings,
            record_events=kept,
            samples=SAMPLES_PER_RUN,
            faults=faults,
        )

    def to_command(self) -> str:
        """What to type for the same run."""
        usual = Experiment()
        words = ["creek simulate --workload tpcc", f"--scheme {self.scheme}"]
        for field, value in msgspec.structs.asdict(self).items():
            if field not in ("scheme", "recorded") and (
                value != getattr(usual, field) or field in _ALWAYS_SHOWN
            ):
                words += _option(field, value)
        return " ".join(words)


_ALWAYS_SHOWN: Final = ("load_tps", "duration_us")
_OPTIONS: Final = {
    "load_tps": "--load",
    "duration_us": "--duration",
    "warm_up_us": "--warm-up",
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


def resolve_datatype(name: str) -> DataType:
    """The data type of that name, with its initial data, or `UnknownName`; one of your own as
    `package.module:variable`."""
    return load_datatype(name)


def datatype_of_history(history: History) -> DataType | None:
    """What was replicated, or None when it cannot be found here. On a live cluster, what clients
    call is wrapped, so that it is executed once."""
    try:
        if history.config.get("source") == LIVE_SOURCE:
            return DeduplicatingDataType(load_datatype(str(history.config["imported"])))
        return resolve_datatype(history.datatype)
    except UsageError:
        return None


def build_simulation(
    scenario: Scenario, datatype: DataType | None = None, named: DataType | None = None
) -> Simulation:
    """`datatype`: one that stands in for that of the scenario, for instance to debug it. Otherwise
    replicas share executions where that pays. `named`: the scenario's own, if it is at hand."""
    scheme = registry.get_scheme(scenario.scheme)
    chosen = datatype or named or resolve_datatype(scenario.datatype)
    if datatype is None and isinstance(chosen.base, tpcc.PopulationBase):
        chosen = ExecutionSharingDataType(chosen)
    settings = scenario.protocol_settings()
    return Simulation(
        scenario,
        lambda index: scheme(index, settings, chosen),
        source=_operation_source(scenario, chosen),
    )


def _operation_source(scenario: Scenario, datatype: DataType) -> OperationSource | None:
    if isinstance(datatype.base, tpcc.PopulationBase):
        population = datatype.base.population
        return tpcc.Terminals(datatype, population, scenario.seed, scenario.node_count)
    sample = datatypes.SAMPLERS.get(scenario.datatype)
    return None if sample is None else source_from_sampler(sample)
