"""Scenario: a single value that determines a run, with the models of clients and their scripts.

Two runs of equal scenarios are equal, event by event. A scenario encodes to JSON and back, so that
a failing scenario can be stored. The defaults are the paper's environment (Section 6.1): five
replicas with 16 cores each, 1 Gbps links, 0.2-0.3 ms one way.
"""

from collections.abc import Callable
from math import inf
from random import Random
from typing import Any, Literal, TypeAlias

import msgspec

from creekdb.datatypes import OperationSampler as OperationSampler
from creekdb.errors import BadValue, UnknownName
from creekdb.protocol.request import Operation
from creekdb.protocol.settings import Settings
from creekdb.simulation.faults.fault_types import (
    Add,
    Crash,
    Die,
    FailDisk,
    Fault,
    LoseDisk,
    RollbackDisk,
    check_faults,
)
from creekdb.simulation.models.parameters import (
    ClockModel,
    CpuModel,
    DiskModel,
    NetworkModel,
    check_range,
)

OperationSource: TypeAlias = Callable[[int, Random], Operation]
"""Draws the next operation for clients of the given replica; may ignore the generator."""


def source_from_sampler(sample: OperationSampler) -> OperationSource:
    """Return a source that draws from `sample` for every replica."""

    def draw(replica: int, random: Random) -> Operation:
        name, arguments = sample(random)
        return Operation(name, tuple(arguments))

    return draw


class ClientModel(msgspec.Struct, frozen=True, kw_only=True):
    sessions: int = 2
    """Number of closed-loop sessions at each replica."""
    think_us: int = 10_000
    """Mean time between a response and the next operation, in microseconds."""
    operations_per_session: int = 0
    """Number of operations of a closed-loop session; 0 means no limit."""
    rate_per_second: float = 0.0
    """Operations per second at each replica. Above 0, the loop is open."""
    strong_share: float = 0.3
    strong_kinds: tuple[str, ...] = ()
    """Names of operations that are always strong, regardless of `strong_share`."""
    tentative_only_share: float = 0.2
    """Share of the strong operations whose client continues after the tentative response."""
    patience_us: int = 1_000_000
    """Time that a client waits for a response, in microseconds; 0 means for ever."""

    def __post_init__(self) -> None:
        check_range(self, 0, inf, "sessions", "think_us", "operations_per_session")
        check_range(self, 0, inf, "rate_per_second", "patience_us")
        check_range(self, 0, 1, "strong_share", "tentative_only_share")


class ScriptedInvocation(msgspec.Struct, frozen=True):
    """A scripted operation. `session` distinguishes the scripted sessions at one replica."""

    at_us: int
    replica: int
    operation: Operation
    strong: bool = False
    session: int = 0

    def __post_init__(self) -> None:
        check_range(self, 0, inf, "at_us")


SAMPLES_MAX = 100_000


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    seed: int = 0
    scheme: str = "basic"
    datatype: str = "counter"
    replicas: int = 5
    duration_us: int = 1_000_000
    """Duration of the load phase, in which clients issue operations and faults happen."""
    settle_us: int = 20_000_000
    """Time, after the load phase and healing, within which the replicas must quiesce."""
    tick_us: int = 5_000
    turn_us: int = 0
    """Length of a turn. All inputs of a replica within a turn are processed before its effects are
    collected. 0: one input per turn."""
    clients: ClientModel = ClientModel()
    cpu: CpuModel = CpuModel()
    network: NetworkModel = NetworkModel()
    disk: DiskModel = DiskModel()
    durability: Literal["disk", "memory"] = "disk"
    """With "memory", tentative responses do not wait for the disk, and a crash may lose requests
    that have one."""
    clock: ClockModel = ClockModel()
    settings: dict[str, int] = {}
    """Values that differ from the default settings of the protocol."""
    warm_up_us: int = 0
    """Duration of the warm-up, which is part of `duration_us` and not measured."""
    record_events: bool = True
    """True if replica events are recorded, as checkers need; otherwise only responses are."""
    record_orders: bool = False
    """True if the serialization behind each tentative response is recorded."""
    samples: int = 0
    """Number of samples of each replica's counters, evenly spread over the duration."""
    faults: tuple[Fault, ...] = ()
    script: tuple[ScriptedInvocation, ...] = ()

    def __post_init__(self) -> None:
        check_range(self, 1, inf, "replicas", "tick_us")
        check_range(self, 0, inf, "duration_us", "settle_us", "turn_us")
        check_range(self, 0, SAMPLES_MAX, "samples")
        if not 0 <= self.warm_up_us <= self.duration_us:
            raise BadValue(f"a warm-up of {self.warm_up_us} us does not fit into the duration")
        if not self.disk.kept and any(
            isinstance(each, Crash | Die | FailDisk | LoseDisk | RollbackDisk)
            for each in self.faults
        ):
            raise BadValue("disk.kept is false: a replica that crashes needs a durable disk")
        known_settings = sorted(
            set(Settings.__struct_fields__) - {"members", "acceptors", "record_orders"}
        )
        for name in self.settings:
            if name not in known_settings:
                raise UnknownName("setting", name, known_settings)
        check_faults(self.faults, self.replicas)
        for invocation in self.script:
            if not 0 <= invocation.replica < self.replicas:
                raise BadValue(
                    f"an invocation at replica {invocation.replica}, which does not exist: "
                    f"replicas are 0 to {self.replicas - 1}"
                )
            if invocation.at_us >= self.duration_us:
                raise BadValue(
                    f"an invocation at {invocation.at_us} us is after the load phase of "
                    f"{self.duration_us} us; increase duration_us"
                )

    @property
    def node_count(self) -> int:
        """Total number of replicas, including those that are added during the run."""
        return self.replicas + sum(isinstance(fault, Add) for fault in self.faults)

    def protocol_settings(self) -> Settings:
        loses_disks = any(isinstance(fault, LoseDisk) for fault in self.faults)
        return Settings(
            members=tuple(range(self.replicas)),
            record_orders=int(self.record_orders),
            **({"begin_anew": 1} if loses_disks else {}) | self.settings,
        )

    def to_config(self) -> dict[str, Any]:
        """Return the scenario in plain values, as a history stores it."""
        config: dict[str, Any] = msgspec.to_builtins(self)
        return config


def scenario_from_config(config: dict[str, Any]) -> Scenario:
    """Inverse of `Scenario.to_config`, also after a round trip through JSON."""
    try:
        return msgspec.convert(config, Scenario)
    except msgspec.ValidationError as error:
        raise BadValue(f"not a scenario: {error}") from error
