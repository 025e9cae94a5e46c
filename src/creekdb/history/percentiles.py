"""What a percentile is, wherever one is told: by nearest rank, so one of the values that were.

The pipeline counts the same in columns (`creekdb.pipeline.stages.measure`).
"""

from collections.abc import Sequence


def percentile(ordered: Sequence[int], percent: int) -> int:
    """The least of them that so many in a hundred do not exceed. There is one, at least."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
