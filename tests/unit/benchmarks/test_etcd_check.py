"""What 'etcdctl check perf' says is read as it is meant."""

import pytest

from benchmarks.rivals import etcd_check
from benchmarks.rivals.etcd_check import read
from benchmarks.rivals.generators import Failed

BAR = " 0 / 60 Booooo   0.00%\r 60 / 60 Booooo 100.00% 1m0s\n"


@pytest.mark.parametrize(
    "said", ["FAIL: Throughput too low: 3935 writes/s", "PASS: Throughput is 3935 writes/s"]
)
def test_its_throughput_counts_whatever_it_thinks_of_it(said: str) -> None:
    assert read(f"{BAR}{said}\nSlowest request took too long: 0.906170s\nFAIL\n") == 3935


def test_puts_that_failed_are_told() -> None:
    said = "FAIL: too many errors\nFAIL: ERROR(etcdserver: no space) -> 12\n"
    with pytest.raises(Failed, match="12 × etcdserver: no space"):
        read(f"{BAR}{said}FAIL: Throughput too low: 10 writes/s\n")


def test_what_cannot_be_read_is_told_by_its_last_words() -> None:
    with pytest.raises(Failed, match="ends with: Error: context deadline exceeded"):
        read(BAR, "Error: context deadline exceeded\n")
    with pytest.raises(Failed, match="ends with: nothing"):
        read("")


def test_a_program_that_cannot_be_run_is_told() -> None:
    with pytest.raises(Failed, match="cannot be run: No such file"):
        etcd_check.puts_per_second("/nowhere/etcdctl", ["127.0.0.1:1"])


def test_the_load_for_creek_asks_for_what_it_asks_for() -> None:
    asked = etcd_check.stream(0.0, 1)
    keys = set()
    for _ in range(100):
        put = asked(0)
        key, value = put.arguments
        assert (put.operation, put.strong) == ("put", False)
        assert (len(key), len(value)) == (etcd_check.KEY_BYTES, etcd_check.VALUE_BYTES)
        keys.add(key)
    assert len(keys) == 100, "each under a new key"
