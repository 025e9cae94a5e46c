import pytest

from creekdb.history.percentiles import percentile


@pytest.mark.parametrize(
    ("count", "percent", "rank"),
    [
        (1, 50, 1),
        (2, 50, 1),
        (3, 50, 2),
        (4, 50, 2),
        (100, 95, 95),
        (101, 95, 96),
        (100, 99, 99),
        (10, 99, 10),
        (5, 0, 1),
    ],
)
def test_a_percentile_is_a_measured_value_by_nearest_rank(
    count: int, percent: int, rank: int
) -> None:
    assert percentile(range(1, count + 1), percent) == rank
