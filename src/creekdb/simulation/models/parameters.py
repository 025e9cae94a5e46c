"""What a scenario says about the network, and about the cores, disks and clocks of its nodes.

What an execution costs in measuring runs: two constants, solved once and then frozen.

The duration of an execution is

    EXECUTION_US + ACCESS_US x (registers read, one by one or by a scan, and registers written)

times whatever the scenario slows execution down by. It is the same for every scheme, layout and
data type: no scheme has a constant of its own.

Where the two come from. The paper (Section 6.2) gives two facts about executions: a replica that
executes one transaction after the other saturates at 2.7k per second, and a Payment takes 0.1 ms.
So with A(kind) registers touched by a transaction of a kind, in layout `rows`, the plain reading of
the paper,

    EXECUTION_US + ACCESS_US x A(mix)      = 1,000,000 / 2,700 = 370.4 us
    EXECUTION_US + ACCESS_US x A(payment)  = 100 us

Transactions run one after the other on five warehouses touch, reads and writes together,

    new_order 46.8   payment 7.60   delivery 280   order_status 13.5   stock_level 418

on average, and so the mix of 45/43/4/4/4 touches 52.8. Two equations, two unknowns. That the other
kinds then take 0.57 ms on average, where the paper says "around 0.5 ms", was not put in.
`tests/unit/simulation/models/test_parameters.py` runs the transactions and solves the equations
again.

Undoing is writing: to roll a request back (schemes `basic` and `bayou`) costs ACCESS_US for each
register that it had written, and nothing else. The version store takes versions out of sight where
it stands, without a task for a core: there only executing again costs.
"""

from typing import Final

import msgspec

from creekdb.errors import BadValue
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Task, TaskKind
from creekdb.simulation.kernel.simulated_time import DAY_US, SkewedClock

SCALE_MAX = 1000.0
DRIFT_PPM_MAX = 100_000


class NetworkModel(msgspec.Struct, frozen=True, kw_only=True):
    latency_us_min: int = 200
    latency_us_max: int = 300
    """One way, drawn uniformly for each message."""
    bandwidth_bps: int = 1_000_000_000
    overhead_bytes: int = 66
    """Headers around each message: Ethernet, IP and TCP."""
    crash_loss: float = 0.5
    """The share of a crashing sender's messages under way that are lost."""
    wire: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.latency_us_min <= self.latency_us_max:
            raise BadValue(
                f"a message takes {self.latency_us_min} to {self.latency_us_max} us: "
                "both must be at least 0, the smaller one first"
            )
        if self.bandwidth_bps < 1:
            raise BadValue(f"the bandwidth is {self.bandwidth_bps} bps: it must be at least 1")
        if not 0 <= self.crash_loss <= 1:
            raise BadValue(f"crash_loss is {self.crash_loss}: it must be between 0 and 1")


class CpuModel(msgspec.Struct, frozen=True, kw_only=True):
    cores: int = 16
    execution_us: float = 50
    """What any execution takes, before what it reads and writes."""
    access_us: float = 5
    """For each read, each write and each addition."""
    rollback_us: float = 5
    """What any rollback takes, before what it writes back."""
    scale: float = 1.0
    """How many times longer everything takes."""

    def __post_init__(self) -> None:
        if self.cores < 1:
            raise BadValue(f"a node has {self.cores} cores: it needs at least 1")
        if min(self.execution_us, self.access_us, self.rollback_us) < 0:
            raise BadValue("the cost of a task cannot be negative")
        if not 0 < self.scale <= SCALE_MAX:
            raise BadValue(f"execution takes {self.scale} times as long: from above 0 to 1000")

    def cost(self, task: Task, execution: ExecutionResult) -> int:
        """A rollback writes back as many registers as its `ExecutionResult` says."""
        writes = len(execution.writes) + len(execution.blind_adds)
        if task.kind is TaskKind.ROLLBACK:
            return round(self.scale * (self.rollback_us + self.access_us * writes))
        accesses = execution.read_count + execution.scan_count + writes
        return round(self.scale * (self.execution_us + self.access_us * accesses))


class DiskModel(msgspec.Struct, frozen=True, kw_only=True):
    fsync_us_min: int = 0
    fsync_us_max: int = 0
    kept: bool = True
    """Is what was written still there after a crash? If not, writing costs nothing at all."""

    def __post_init__(self) -> None:
        if not 0 <= self.fsync_us_min <= self.fsync_us_max:
            raise BadValue(
                f"an fsync takes {self.fsync_us_min} to {self.fsync_us_max} us: "
                "both must be at least 0, the smaller one first"
            )


class ClockModel(msgspec.Struct, frozen=True, kw_only=True):
    """Skew and drift by replica; replicas beyond the end of a tuple have none."""

    skews_us: tuple[int, ...] = ()
    drifts_ppm: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(abs(skew) > 365 * DAY_US for skew in self.skews_us):
            raise BadValue("a clock skew must be at most a year, ahead or behind")
        if any(abs(drift) > DRIFT_PPM_MAX for drift in self.drifts_ppm):
            raise BadValue(f"a clock drift must be at most {DRIFT_PPM_MAX} ppm, fast or slow")

    def make_clock(self, replica: int) -> SkewedClock:
        skew_us = self.skews_us[replica] if replica < len(self.skews_us) else 0
        drift_ppm = self.drifts_ppm[replica] if replica < len(self.drifts_ppm) else 0
        return SkewedClock(skew_us, drift_ppm)


SEQUENTIAL_PEAK_TPS: Final = 2_700
PAYMENT_US: Final = 100.0

EXECUTION_US: Final = 54.5
ACCESS_US: Final = 5.98


def solve_costs(mix_accesses: float, payment_accesses: float) -> tuple[float, float]:
    """EXECUTION_US and ACCESS_US, from how many registers transactions touch on average."""
    mix_us = 1_000_000 / SEQUENTIAL_PEAK_TPS
    access_us = (mix_us - PAYMENT_US) / (mix_accesses - payment_accesses)
    return PAYMENT_US - access_us * payment_accesses, access_us


def calibrated_cpu(cores: int, scale: float = 1.0) -> CpuModel:
    return CpuModel(
        cores=cores,
        execution_us=EXECUTION_US,
        access_us=ACCESS_US,
        rollback_us=0.0,
        scale=scale,
    )
