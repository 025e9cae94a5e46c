"""Shares and keys of generated calls."""

from collections import Counter

import pytest

from creekdb.errors import BadValue
from creekdb.load.workload import kv_workload, tpcc_workload

CALLS = 4000


@pytest.mark.parametrize(("reads", "strong"), [(0.5, 0.2), (0.0, 0.0), (1.0, 1.0)])
def test_shares_of_reads_and_strong_calls_are_the_requested_ones(
    reads: float, strong: float
) -> None:
    workload = kv_workload(keys=10, value_bytes=3, reads=reads, strong=strong, seed=1)
    calls = [workload(0) for _ in range(CALLS)]
    counts = Counter(each.operation for each in calls)

    assert counts["get"] / CALLS == pytest.approx(reads, abs=0.03)
    assert sum(each.strong for each in calls) / CALLS == pytest.approx(strong, abs=0.03)
    assert {each.arguments[0] for each in calls} == {f"key{each:08}" for each in range(10)}
    assert all(len(each.arguments[1]) == 3 for each in calls if each.operation == "put")


def test_equal_seeds_give_equal_calls() -> None:
    def calls(seed: int) -> list[object]:
        workload = kv_workload(keys=1000, value_bytes=3, reads=0.5, strong=0.5, seed=seed)
        return [workload(0) for _ in range(20)]

    assert calls(1) == calls(1) != calls(2)


@pytest.mark.parametrize(
    ("keys", "value_bytes", "reads", "strong"),
    [(0, 1, 0.5, 0.5), (1, 0, 0.5, 0.5), (1, 1, 1.1, 0.5), (1, 1, 0.5, -0.1)],
)
def test_invalid_shares_and_sizes_are_rejected(
    keys: int, value_bytes: int, reads: float, strong: float
) -> None:
    with pytest.raises(BadValue, match="must be"):
        kv_workload(keys=keys, value_bytes=value_bytes, reads=reads, strong=strong, seed=1)


@pytest.mark.parametrize("strong", [None, 0.0, 1.0])
def test_the_share_of_strong_transactions_replaces_strong_payments(strong: float | None) -> None:
    workload = tpcc_workload("tpcc-rows-1-0", 3, strong, seed=1)
    for number in range(300):
        call = workload(number % 3)
        assert call.strong is (call.operation == "payment" if strong is None else strong == 1)
