"""Retention of changes: how long, and how many bytes, a replica keeps them."""

import re
from typing import Final, NamedTuple

from creekdb.errors import BadValue

DEFAULT_BYTES_MAX: Final = 1024**3
"""Default upper bound for the segments of a replica, in bytes."""
KEPT_BYTES_MIN: Final = 1024**2
"""Least value of that bound, in bytes."""
SEGMENTS_PER_RETENTION: Final = 16
"""Approximate number of segments that are kept. Changes expire by whole segments."""
SEGMENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Upper bound for the size of a segment, in bytes, apart from its last frame."""
SEGMENT_BYTES_MIN: Final = 64 * 1024

_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|h|d)")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration_s(name: str, text: str) -> float:
    """Return the seconds of a text such as `90s`, `15m`, `24h` or `7d`. `0` is 0."""
    if text == "0":
        return 0.0
    match = _DURATION.fullmatch(text)
    if match is None or not float(match[1]):
        raise BadValue(
            f"{name} is '{text}': it must be a duration such as 90s, 15m, 24h or 7d, or 0"
        )
    return float(match[1]) * _UNIT_S[match[2]]


class Retention(NamedTuple):
    """Bounds of the changes that a replica keeps. The last segment is always kept."""

    seconds: float
    bytes_max: int = DEFAULT_BYTES_MAX

    @property
    def segment_bytes(self) -> int:
        """Size at which a segment is closed, in bytes."""
        share = self.bytes_max // SEGMENTS_PER_RETENTION
        return max(SEGMENT_BYTES_MIN, min(SEGMENT_BYTES_MAX, share))

    @property
    def segment_us(self) -> int:
        """Age at which a segment is closed, in microseconds."""
        return int(self.seconds * 1_000_000) // SEGMENTS_PER_RETENTION
