"""What an execution costs in measuring runs: two constants, solved once and then frozen.

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
`tests/unit/simulation/test_cost.py` runs the transactions and solves the equations again.

Undoing is writing: to roll a request back (schemes `basic` and `bayou`) costs ACCESS_US for each
register that it had written, and nothing else. The version store takes versions out of sight where
it stands, without a task for a core: there only executing again costs.
"""

from typing import Final

from creekdb.simulation.models import CpuModel

SEQUENTIAL_PEAK_TPS: Final = 2_700
PAYMENT_US: Final = 100.0

EXECUTION_US: Final = 54.5
ACCESS_US: Final = 5.98


def solve(mix_accesses: float, payment_accesses: float) -> tuple[float, float]:
    """EXECUTION_US and ACCESS_US, from how many registers transactions touch on average."""
    mix_us = 1_000_000 / SEQUENTIAL_PEAK_TPS
    access_us = (mix_us - PAYMENT_US) / (mix_accesses - payment_accesses)
    return PAYMENT_US - access_us * payment_accesses, access_us


def measuring_cpu(cores: int, scale: float = 1.0) -> CpuModel:
    return CpuModel(
        cores=cores,
        execution_us=EXECUTION_US,
        access_us=ACCESS_US,
        rollback_us=0.0,
        scale=scale,
    )
