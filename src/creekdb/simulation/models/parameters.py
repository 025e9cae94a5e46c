"""Parameters of the models of a scenario: network, cores, disks and clocks.

The cost of an execution in measurement runs has two constants, which were solved once and then
frozen. The duration of an execution is

    EXECUTION_US + ACCESS_US x (registers read, one by one or by a scan, and registers written)

times the scale of the scenario. It is the same for every scheme, layout and data type: no scheme
has a constant of its own.

Derivation of the constants: the paper (Section 6.2) gives two facts about executions. A replica
that executes transactions sequentially saturates at 2.7k per second, and a Payment takes 0.1 ms.
Let A(kind) be the number of registers that a transaction of a kind accesses in layout `rows`, the
plain reading of the paper. Then

    EXECUTION_US + ACCESS_US x A(mix)      = 1,000,000 / 2,700 = 370.4 us
    EXECUTION_US + ACCESS_US x A(payment)  = 100 us

Transactions executed sequentially on five warehouses access, reads and writes together,

    new_order 46.8   payment 7.60   delivery 280   order_status 13.5   stock_level 418

on average, so the mix of 45/43/4/4/4 accesses 52.8. These are two equations with two unknowns. The
other kinds then take 0.57 ms on average, where the paper says "around 0.5 ms"; this value was not
an input. `tests/unit/simulation/models/test_parameters.py` runs the transactions and solves the
equations again.

A rollback (schemes `basic` and `bayou`) costs ACCESS_US for each register that the request had
written, and nothing else. The version store hides versions in place, without a task for a core;
there, only the re-execution has a cost.
"""

from math import inf
from typing import Final

import msgspec

from creekdb.errors import BadValue
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Task, TaskKind
from creekdb.simulation.kernel.simulated_time import DAY_US, SkewedClock

SCALE_MAX = 1000.0
DRIFT_PPM_MAX = 100_000


def check_range(parameters: object, low: float, high: float, *names: str) -> None:
    """Raise `BadValue` unless each of the named parameters is between the bounds."""
    for name in names:
        value = getattr(parameters, name)
        if not low <= value <= high:
            limit = f"be at least {low}" if low else "not be negative"
            if high < inf:
                limit = f"be between {low} and {high}"
            raise BadValue(f"{name} is {value}: it must {limit}")


class NetworkModel(msgspec.Struct, frozen=True, kw_only=True):
    latency_us_min: int = 200
    latency_us_max: int = 300
    """Upper bound of the one-way latency, which is drawn uniformly for each message."""
    bandwidth_bps: int = 1_000_000_000
    overhead_bytes: int = 66
    """Size of the Ethernet, IP and TCP headers of each message."""
    crash_loss: float = 0.5
    """Share of a crashing sender's messages in flight that are lost."""
    wire: bool = True
    distances_us: tuple[tuple[int, ...], ...] = ()
    """One-way latency from each region to each other, in addition to the latency within a region;
    empty for one region. Replica r is in region r modulo their number."""

    def __post_init__(self) -> None:
        if not 0 <= self.latency_us_min <= self.latency_us_max:
            raise BadValue(
                f"a message takes {self.latency_us_min} to {self.latency_us_max} us: "
                "both must be at least 0, the smaller one first"
            )
        check_range(self, 1, inf, "bandwidth_bps")
        check_range(self, 0, 1, "crash_loss")
        regions = len(self.distances_us)
        if any(len(row) != regions or min(row) < 0 for row in self.distances_us):
            raise BadValue(
                f"distances_us has {regions} rows: each must have as many latencies, at least 0"
            )

    @property
    def region_count(self) -> int:
        return len(self.distances_us) or 1

    def distance_us(self, sender: int, receiver: int) -> int:
        """Return the latency between the regions of two replicas; 0 within a region."""
        regions = len(self.distances_us)
        return self.distances_us[sender % regions][receiver % regions] if regions else 0


REGION_POSITIONS_US: Final = {
    1: (0,),
    3: (0, 20_000, 80_000),
    5: (0, 20_000, 40_000, 60_000, 80_000),
}
"""By number of regions: their positions on a line, as one-way latencies from its start."""


def distances_on_a_line(positions_us: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the latencies between regions at these positions; empty for a single region."""
    if len(positions_us) == 1:
        return ()
    return tuple(tuple(abs(one - other) for other in positions_us) for one in positions_us)


class CpuModel(msgspec.Struct, frozen=True, kw_only=True):
    cores: int = 16
    execution_us: float = 50
    """Base cost of an execution, in microseconds."""
    access_us: float = 5
    """Cost of each read, write and addition, in microseconds."""
    rollback_us: float = 5
    """Base cost of a rollback, in microseconds."""
    scale: float = 1.0
    """Factor on all costs."""

    def __post_init__(self) -> None:
        check_range(self, 1, inf, "cores")
        check_range(self, 0, inf, "execution_us", "access_us", "rollback_us")
        if not 0 < self.scale <= SCALE_MAX:
            raise BadValue(f"scale is {self.scale}: it must be above 0 and at most 1000")

    def cost(self, task: Task, execution: ExecutionResult) -> int:
        """Return the cost of a task; a rollback restores the registers that `execution` wrote."""
        writes = len(execution.writes) + len(execution.blind_adds)
        if task.kind is TaskKind.ROLLBACK:
            return round(self.scale * (self.rollback_us + self.access_us * writes))
        accesses = execution.read_count + execution.scan_count + writes
        return round(self.scale * (self.execution_us + self.access_us * accesses))


class DiskModel(msgspec.Struct, frozen=True, kw_only=True):
    fsync_us_min: int = 0
    fsync_us_max: int = 0
    notice_us_max: int = 0
    """Upper bound for the time from the end of an fsync until the replica learns of it."""
    kept: bool = True
    """True if records survive a crash. Otherwise writing is free."""

    def __post_init__(self) -> None:
        if not 0 <= self.fsync_us_min <= self.fsync_us_max:
            raise BadValue(
                f"an fsync takes {self.fsync_us_min} to {self.fsync_us_max} us: "
                "both must be at least 0, the smaller one first"
            )
        check_range(self, 0, inf, "notice_us_max")


class ClockModel(msgspec.Struct, frozen=True, kw_only=True):
    """Skew and drift by replica; both are 0 for replicas beyond the end of a tuple."""

    skews_us: tuple[int, ...] = ()
    drifts_ppm: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(abs(skew) > 365 * DAY_US for skew in self.skews_us):
            raise BadValue("a clock skew must be at most a year, ahead or behind")
        if any(abs(drift) > DRIFT_PPM_MAX for drift in self.drifts_ppm):
            raise BadValue(f"a clock drift must be at most {DRIFT_PPM_MAX} ppm, fast or slow")

    @property
    def skew_us_max(self) -> int:
        """Greatest difference between two clocks at the start of a run."""
        skews = (*self.skews_us, 0)
        return max(skews) - min(skews)

    def make_clock(self, replica: int) -> SkewedClock:
        skew_us = self.skews_us[replica] if replica < len(self.skews_us) else 0
        drift_ppm = self.drifts_ppm[replica] if replica < len(self.drifts_ppm) else 0
        return SkewedClock(skew_us, drift_ppm)


def evenly_skewed_clocks(skew_us: int, replicas: int) -> ClockModel:
    """Return clocks that are ahead by 0 to `skew_us`, at even distances."""
    if not skew_us or replicas == 1:
        return ClockModel()
    return ClockModel(
        skews_us=tuple(skew_us * index // (replicas - 1) for index in range(replicas))
    )


EXECUTION_US: Final = 54.5
ACCESS_US: Final = 5.98


def calibrated_cpu(cores: int, scale: float = 1.0) -> CpuModel:
    return CpuModel(
        cores=cores,
        execution_us=EXECUTION_US,
        access_us=ACCESS_US,
        rollback_us=0.0,
        scale=scale,
    )
