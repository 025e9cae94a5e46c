"""Table of latencies."""

import pytest

from creekdb.cli.views.measures import format_ms, print_latencies
from creekdb.load.measurement import RESPONSE_KINDS, LatencySummary, LoadResult


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(0.061, "0.06"), (8.416, "8.42"), (41.06, "41.1"), (330.04, "330"), (2811.86, "2,812")],
)
def test_a_latency_has_three_significant_digits(ms: float, shown: str) -> None:
    assert format_ms(ms) == shown


def test_the_table_fits_into_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    slow = LatencySummary(
        answers=123_456, mean=98_765.4, p50=8.4, p95=99.94, p99=98_765.4, max=600_000.0
    )
    result = LoadResult(
        throughput_per_s=1.0,
        weak_per_s=1.0,
        strong_per_s=0.0,
        latency_ms=dict.fromkeys(RESPONSE_KINDS, slow),
        late_ms=slow,
        raised=0,
        errors={},
        cpu_us={},
    )
    print_latencies(result)
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 80
    numbers = " ".join(shown[-1].removeprefix("start delay").split())
    assert numbers == "123,456 98,765 8.40 99.9 98,765 600,000"
