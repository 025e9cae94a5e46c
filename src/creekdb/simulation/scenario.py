"""A scenario: everything that determines a run, as one value.

Two runs of equal scenarios are equal, event by event. A scenario encodes to JSON and back, so a
failing one can be kept. The defaults are the paper's environment (Section 6.1): five replicas with
16 cores each, 1 Gbps links, 0.2-0.3 ms one way.
"""

from typing import Any

import msgspec

from creekdb.errors import BadValue, UnknownName
from creekdb.protocol.settings import Settings
from creekdb.simulation.faults import Add, Crash, Die, Fault, LoseDisk, check
from creekdb.simulation.models import ClockModel, CpuModel, DiskModel, NetworkModel
from creekdb.simulation.workload import ClientModel, Invocation

SAMPLES_MAX = 100_000


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    seed: int = 0
    scheme: str = "basic"
    datatype: str = "counter"
    replicas: int = 5
    duration_us: int = 1_000_000
    """How long clients ask for operations and faults happen."""
    settle_us: int = 20_000_000
    """How long, after that and healed, the replicas may take to come to rest."""
    tick_us: int = 5_000
    turn_us: int = 0
    """Inputs of a replica that come within so long of each other have their effects taken together;
    0: each has its own."""
    clients: ClientModel = ClientModel()
    cpu: CpuModel = CpuModel()
    network: NetworkModel = NetworkModel()
    disk: DiskModel = DiskModel()
    clock: ClockModel = ClockModel()
    settings: dict[str, int] = {}
    """What differs from the protocol's default settings."""
    warm_up_us: int = 0
    """How much of the duration has passed when measuring begins."""
    record_events: bool = True
    """Record what replicas did, which checkers need; otherwise only what clients were answered."""
    record_orders: bool = False
    """Record which serialization each tentative answer was computed on."""
    samples: int = 0
    """How often, evenly spread over the duration, the counters of each replica are noted."""
    faults: tuple[Fault, ...] = ()
    script: tuple[Invocation, ...] = ()

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise BadValue(f"a cluster of {self.replicas} replicas: it needs at least 1")
        if self.duration_us < 0 or self.settle_us < 0:
            raise BadValue("a duration must not be negative")
        if not 0 <= self.warm_up_us <= self.duration_us:
            raise BadValue(f"a warm-up of {self.warm_up_us} us does not fit into the duration")
        if not self.disk.kept and any(
            isinstance(each, Crash | Die | LoseDisk) for each in self.faults
        ):
            raise BadValue("a replica that crashes needs a disk that keeps what is written")
        if not 0 <= self.samples <= SAMPLES_MAX:
            raise BadValue(f"samples is {self.samples}: it must be from 0 to {SAMPLES_MAX}")
        if self.turn_us < 0:
            raise BadValue(f"turn_us is {self.turn_us}: it must not be negative")
        if self.tick_us < 1:
            raise BadValue(f"tick_us is {self.tick_us}: it must be at least 1")
        known = sorted(set(Settings.__struct_fields__) - {"members", "acceptors", "record_orders"})
        for name in self.settings:
            if name not in known:
                raise UnknownName("setting", name, known)
        check(self.faults, self.replicas)
        for invocation in self.script:
            if not 0 <= invocation.replica < self.replicas:
                raise BadValue(
                    f"an invocation at replica {invocation.replica}, which does not exist: "
                    f"replicas are 0 to {self.replicas - 1}"
                )
            if invocation.at_us >= self.duration_us:
                raise BadValue(
                    f"an invocation at {invocation.at_us} us, but clients ask for "
                    f"{self.duration_us} us only: give the scenario a longer duration_us"
                )

    @property
    def nodes(self) -> int:
        """How many replicas there ever are."""
        return self.replicas + sum(isinstance(fault, Add) for fault in self.faults)

    def protocol_settings(self) -> Settings:
        loses_disks = any(isinstance(fault, LoseDisk) for fault in self.faults)
        return Settings(
            members=tuple(range(self.replicas)),
            record_orders=int(self.record_orders),
            **({"begin_anew": 1} if loses_disks else {}) | self.settings,
        )

    def config(self) -> dict[str, Any]:
        """The scenario in plain values: what a history keeps of it."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def scenario_from_config(config: dict[str, Any]) -> Scenario:
    """The inverse of `Scenario.config`, also after a journey through JSON."""
    try:
        return msgspec.convert(config, Scenario)
    except msgspec.ValidationError as error:
        raise BadValue(f"not a scenario: {error}") from error
