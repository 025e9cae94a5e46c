"""Reports of etcd's own load generator, complete and incomplete."""

from pathlib import Path

import pytest

from benchmarks.competitors import etcd_benchmark
from benchmarks.competitors.etcd_benchmark import Generator, Report, find_program, parse_report
from benchmarks.competitors.load_generators import GeneratorFailed

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


def test_a_report_is_parsed() -> None:
    assert parse_report(BAR + report()) == pytest.approx(Report(11495.6, 3.4796, 15.2))


def test_numbers_are_parsed_at_full_precision() -> None:
    full_precision = report("0.08699999", "1.1495632e+04", "9.871e-05")
    assert parse_report(full_precision) == pytest.approx(Report(11495.632, 0.08699999, 0.09871))


@pytest.mark.parametrize("text", ["", "\n", BAR, "Requests/sec:\t100\n", report(rate="NaN")])
def test_an_incomplete_report_is_an_error(text: str) -> None:
    with pytest.raises(GeneratorFailed, match=r"cannot read the report of .*; it ends with: ."):
        parse_report(text)


@pytest.mark.parametrize("text", [report() + ERRORS, ERRORS])
def test_failed_puts_are_an_error(text: str) -> None:
    with pytest.raises(GeneratorFailed, match=r"3 × etcdserver: request timed out, 1 × rpc error"):
        parse_report(text)


# --- the program ----------------------------------------------------------------------------------


def program(directory: Path, script: str) -> str:
    path = directory / etcd_benchmark.NAME
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def generator(path: str) -> Generator:
    return Generator(path, ["127.0.0.1:1", "127.0.0.1:2"], clients=192, value_bytes=256)


def test_the_number_of_puts_follows_from_the_rate_of_the_warm_up(tmp_path: Path) -> None:
    output, arguments = tmp_path / "output", tmp_path / "arguments"
    output.write_text(report(rate="500.0"))
    path = program(tmp_path, f'echo "$@" >> {arguments}; cat {output}')
    driver = generator(path)

    assert driver.run_closed_loop(4.0) == 500.0
    driver.run_at_rate(200, 4.0)

    assert driver.per_second == pytest.approx(500.0)
    assert driver.p50_ms == pytest.approx(15.2)
    warm_up, full, paced = arguments.read_text().splitlines()
    assert warm_up.startswith(
        "--endpoints 127.0.0.1:1,127.0.0.1:2 --precise --clients 192 --conns 24 put "
        "--val-size 256 --key-size 11 --key-space-size 10000 "
    )
    assert full.endswith("--total 2000 --rate 0")
    assert paced.endswith("--total 800 --rate 200")


def test_a_failure_reports_the_last_line_of_output(tmp_path: Path) -> None:
    path = program(tmp_path, "echo 'dial error: context deadline exceeded' >&2; exit 1")
    with pytest.raises(GeneratorFailed, match="exited with 1: dial error"):
        generator(path).run_at_rate(200, 1.0)


def test_the_program_is_found_by_the_variable_and_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(etcd_benchmark.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program() is None

    path = program(tmp_path, "exit 0")
    assert find_program() == path

    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv(etcd_benchmark.VARIABLE, path)
    assert find_program() == path

    monkeypatch.setenv(etcd_benchmark.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(GeneratorFailed, match=r"names .*none, which is not an executable program"):
        find_program()
