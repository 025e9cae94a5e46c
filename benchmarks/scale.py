"""How much is measured. The sizes that the bars speak of are those of `FULL`."""

import msgspec


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    repeats: int
    small: int = 100
    """Tentative operations of the replica that is compared with."""
    large: int
    """Tentative operations of the replica that is measured."""
    timed: int
    """Operations timed at once."""
    dots_small: int = 1_000
    dots_large: int
    heal_operations: int
    """On each side of the partition."""
    heal_repeats: int
    late: int
    """Executed operations that a late one comes in the middle of."""
    apart: int
    """Operations on each side of a partition of which is counted what is executed again."""
    committed: int
    """Operations after which the memory is measured."""
    syncs: int
    read_back: int
    """Records of a journal that is opened."""
    simulated_us: int
    seeds: int
    rows: int
    """Operations in the tables of a pipeline."""
    live_s: float
    """For which a live cluster is measured at a time."""
    live_turns: int
    """That it takes beside others."""
    live_minutes: bool = True
    """Is there time for what takes a minute whatever it is told?"""


FULL = Scale(
    repeats=7,
    large=100_000,
    timed=2_000,
    dots_large=1_000_000,
    heal_operations=20_000,
    heal_repeats=2,
    late=2_000,
    apart=5_000,
    committed=1_000_000,
    syncs=300,
    read_back=200_000,
    simulated_us=1_000_000,
    seeds=60,
    rows=5_000_000,
    live_s=5.0,
    live_turns=3,
)
QUICK = Scale(
    repeats=3,
    large=20_000,
    timed=1_000,
    dots_large=1_000_000,
    heal_operations=2_000,
    heal_repeats=2,
    late=1_000,
    apart=500,
    committed=100_000,
    syncs=100,
    read_back=50_000,
    simulated_us=300_000,
    seeds=15,
    rows=500_000,
    live_s=2.0,
    live_turns=2,
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
    apart=60,
    committed=600,
    syncs=3,
    read_back=100,
    simulated_us=20_000,
    seeds=2,
    rows=4_000,
    live_s=0.3,
    live_turns=1,
    live_minutes=False,
)
"""To see that everything runs; the numbers mean nothing."""
