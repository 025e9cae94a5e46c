"""Retention of changes: durations as text, and sizes of segments."""

import pytest

from creekdb.errors import BadValue
from creekdb.server.changes.retention import (
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
    Retention,
    parse_duration_s,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90s", 90), ("15m", 900), ("24h", 86_400), ("7d", 604_800), ("0.5h", 1800)],
)
def test_durations_have_a_unit(text: str, seconds: float) -> None:
    assert parse_duration_s("keep_changes", text) == seconds


@pytest.mark.parametrize("text", ["", "24", "h", "-1h", "1w", "1 h", "0s", "1h30m"])
def test_other_durations_are_rejected(text: str) -> None:
    with pytest.raises(BadValue, match=r"keep_changes is .*: it must be a duration such as"):
        parse_duration_s("keep_changes", text)


def test_a_segment_is_a_fraction_of_the_retention_within_bounds() -> None:
    assert Retention(1600.0, 16 * 1024**2).segment_bytes == 1024**2
    assert Retention(1600.0, 1).segment_bytes == SEGMENT_BYTES_MIN
    assert Retention(1600.0, 10**12).segment_bytes == SEGMENT_BYTES_MAX
    assert Retention(1600.0).segment_us == 100_000_000
