"""Sizes of the measurements. The bars refer to the sizes of `FULL`."""

import msgspec


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    repeats: int
    small: int = 100
    """Tentative operations of the reference replica."""
    large: int
    """Tentative operations of the measured replica."""
    timed: int
    """Operations per timed block."""
    dots_small: int = 1_000
    dots_large: int
    heal_operations: int
    """Operations on each side of the partition."""
    heal_repeats: int
    late: int
    """Executed operations when a late one arrives in their middle."""
    partition_operations: int
    """Operations on each side of a partition, for the count of re-executions."""
    committed: int
    """Operations before the memory is measured."""
    syncs: int
    read_back: int
    """Records of the journal that is read back."""
    simulated_us: int
    seeds: int
    rows: int
    """Operations in the tables of a pipeline."""
    live_s: float
    """Duration of one round of a live cluster, in seconds."""
    live_rounds: int
    """Rounds per system in a comparison of live systems."""
    includes_minute_runs: bool = True
    """True if measurements with a fixed duration of a minute are included."""


FULL = Scale(
    repeats=7,
    large=100_000,
    timed=2_000,
    dots_large=1_000_000,
    heal_operations=20_000,
    heal_repeats=2,
    late=2_000,
    partition_operations=5_000,
    committed=1_000_000,
    syncs=300,
    read_back=200_000,
    simulated_us=1_000_000,
    seeds=60,
    rows=5_000_000,
    live_s=5.0,
    live_rounds=3,
)
QUICK = Scale(
    repeats=3,
    large=20_000,
    timed=1_000,
    dots_large=1_000_000,
    heal_operations=2_000,
    heal_repeats=2,
    late=1_000,
    partition_operations=500,
    committed=100_000,
    syncs=100,
    read_back=50_000,
    simulated_us=300_000,
    seeds=15,
    rows=500_000,
    live_s=2.0,
    live_rounds=2,
)
TINY = Scale(
    repeats=1,
    small=20,
    large=100,
    timed=20,
    dots_small=100,
    dots_large=1_000,
    heal_operations=60,
    heal_repeats=1,
    late=20,
    partition_operations=60,
    committed=600,
    syncs=3,
    read_back=100,
    simulated_us=20_000,
    seeds=2,
    rows=4_000,
    live_s=0.3,
    live_rounds=1,
    includes_minute_runs=False,
)
"""Checks that everything runs; the numbers are meaningless."""
