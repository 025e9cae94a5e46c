"""Percentiles by nearest rank: a percentile is always one of the measured values.

The pipeline computes the same percentiles in columns (`creekdb.pipeline.stages.measure`).
"""

from collections.abc import Sequence


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the least value that `percent` % of a sorted, non-empty sequence do not exceed."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
