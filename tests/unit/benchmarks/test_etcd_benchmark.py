"""The report of etcd's own load generator, as it is printed, and what else may be there instead."""

from pathlib import Path

import pytest

from benchmarks.rivals import etcd_benchmark
from benchmarks.rivals.etcd_benchmark import Generator, Report, found, read
from benchmarks.rivals.generators import Failed

BAR = " 1000 / 1000 Boooooooooooooooooooooom! 100.00% 0s\r 1000 / 1000 Booom! 100.00% 0s\n"
REPORT = """
Summary:
  Total:\t{total} secs.
  Slowest:\t0.0513 secs.
  Fastest:\t0.0007 secs.
  Average:\t0.0161 secs.
  Stddev:\t0.0052 secs.
  Requests/sec:\t{rate}

Response time histogram:
  0.0007 [1]\t|
  0.0057 [50]\t|∎∎∎

Latency distribution:
  10% in 0.0107 secs.
  25% in 0.0126 secs.
  50% in {median} secs.
  75% in 0.0186 secs.
  99.9% in 0.0413 secs.
"""
ERRORS = """
Error distribution:
  [3]\tetcdserver: request timed out
  [1]\trpc error: code = Unavailable desc = transport is closing
"""


def report(total: str = "3.4796", rate: str = "11495.6000", median: str = "0.0152") -> str:
    return REPORT.format(total=total, rate=rate, median=median)


def test_the_report_is_read() -> None:
    assert read(BAR + report()) == pytest.approx(Report(11495.6, 3.4796, 15.2))


def test_numbers_are_read_at_full_precision() -> None:
    told = report("0.08699999", "1.1495632e+04", "9.871e-05")
    assert read(told) == pytest.approx(Report(11495.632, 0.08699999, 0.09871))


@pytest.mark.parametrize("text", ["", "\n", BAR, "Requests/sec:\t100\n", report(rate="NaN")])
def test_a_report_that_lacks_something_is_told(text: str) -> None:
    with pytest.raises(Failed, match=r"cannot be read; it ends with: ."):
        read(text)


@pytest.mark.parametrize("text", [report() + ERRORS, ERRORS])
def test_puts_that_failed_are_told(text: str) -> None:
    with pytest.raises(Failed, match=r"3 × etcdserver: request timed out, 1 × rpc error"):
        read(text)


# --- the program itself ---------------------------------------------------------------------------


def program(folder: Path, script: str) -> str:
    path = folder / etcd_benchmark.NAME
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def generator(path: str) -> Generator:
    return Generator(path, ["127.0.0.1:1", "127.0.0.1:2"], clients=192, value_bytes=256)


def test_it_is_asked_for_as_many_puts_as_fill_the_time(tmp_path: Path) -> None:
    said, heard = tmp_path / "said", tmp_path / "heard"
    said.write_text(report(rate="500.0"))
    path = program(tmp_path, f'echo "$@" >> {heard}; cat {said}')
    driving = generator(path)

    assert driving.as_many_as_can_be(4.0) == 500.0
    driving.at_a_rate(200, 4.0)

    assert driving.per_second == pytest.approx(500.0)
    assert driving.p50_ms == pytest.approx(15.2)
    warm_up, full, paced = heard.read_text().splitlines()
    assert warm_up.startswith(
        "--endpoints 127.0.0.1:1,127.0.0.1:2 --precise --clients 192 --conns 24 put "
        "--val-size 256 --key-size 11 --key-space-size 10000 "
    )
    assert full.endswith("--total 2000 --rate 0")
    assert paced.endswith("--total 800 --rate 200")


def test_its_last_word_is_told_when_it_fails(tmp_path: Path) -> None:
    path = program(tmp_path, "echo 'dial error: context deadline exceeded' >&2; exit 1")
    with pytest.raises(Failed, match="ended with 1: dial error"):
        generator(path).at_a_rate(200, 1.0)


def test_it_is_found_by_the_variable_and_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(etcd_benchmark.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found() is None

    path = program(tmp_path, "exit 0")
    assert found() == path

    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv(etcd_benchmark.VARIABLE, path)
    assert found() == path

    monkeypatch.setenv(etcd_benchmark.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(Failed, match=r"names .*none, which is no program"):
        found()
