"""Reports of 'etcdctl check perf'."""

import pytest

from benchmarks.competitors import etcd_check
from benchmarks.competitors.etcd_check import parse_report
from benchmarks.competitors.load_generators import GeneratorFailed

BAR = " 0 / 60 Booooo   0.00%\r 60 / 60 Booooo 100.00% 1m0s\n"


@pytest.mark.parametrize(
    "output", ["FAIL: Throughput too low: 3935 writes/s", "PASS: Throughput is 3935 writes/s"]
)
def test_the_throughput_is_independent_of_the_verdict(output: str) -> None:
    assert parse_report(f"{BAR}{output}\nSlowest request took too long: 0.906170s\nFAIL\n") == 3935


def test_failed_puts_are_an_error() -> None:
    output = "FAIL: too many errors\nFAIL: ERROR(etcdserver: no space) -> 12\n"
    with pytest.raises(GeneratorFailed, match="12 × etcdserver: no space"):
        parse_report(f"{BAR}{output}FAIL: Throughput too low: 10 writes/s\n")


def test_an_unreadable_report_is_reported_with_its_last_line() -> None:
    with pytest.raises(GeneratorFailed, match="ends with: Error: context deadline exceeded"):
        parse_report(BAR, "Error: context deadline exceeded\n")
    with pytest.raises(GeneratorFailed, match="ends with: nothing"):
        parse_report("")


def test_a_missing_program_is_an_error() -> None:
    with pytest.raises(GeneratorFailed, match="cannot run /nowhere/etcdctl: No such file"):
        etcd_check.puts_per_second("/nowhere/etcdctl", ["127.0.0.1:1"])


def test_the_load_for_creek_has_the_same_keys_and_values() -> None:
    next_call = etcd_check.make_workload(0.0, 1)
    keys = set()
    for _ in range(100):
        put = next_call(0)
        key, value = put.arguments
        assert (put.operation, put.strong) == ("put", False)
        assert (len(key), len(value)) == (etcd_check.KEY_BYTES, etcd_check.VALUE_BYTES)
        keys.add(key)
    assert len(keys) == 100, "every put must have a new key"
