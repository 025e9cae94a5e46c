"""A usage error is one line with the cause and the valid values, and exit code 2."""

from pathlib import Path

import pytest

from creekdb.cli import main
from creekdb.simulation.faults.language import fault_examples

ERRORS = {
    "simulate --datatype queue": (
        "unknown data type 'queue': expected one of register, counter, list"
    ),
    "simulate --datatype nowhere:shop": "data type nowhere:shop: there is no module 'nowhere'",
    "simulate --datatype tests.mine:SHOP": "there is no module 'tests.mine'",
    "simulate --datatype benchmarks.shop:SHOP": "add calls with --call",
    "simulate --scheme best": "unknown scheme 'best': expected one of basic",
    "fuzz --scheme best": "unknown scheme 'best': expected one of basic",
    "simulate --colour": "No such option '--colour'",
    "sql 'SELECT 1'": "unexpected extra argument (SELECT 1). Write '-c' before SQL.",
    "call put lamp -1": "No such option '-1'. Write '--' before a negative number.",
    "member add nowhere --data new": "'nowhere' is not an address: write HOST:PORT",
    "member replace 1 nowhere --data new": "'nowhere' is not an address: write HOST:PORT",
    "dream": "No such command 'dream'",
    "simulate loud": "unexpected extra argument (loud)",
    "simulate --replicas 0": "0 is not in the range 1<=x<=99",
    "simulate --replicas few": "'few' is not a valid integer",
    "simulate --duration -5s": "--duration is -5s: it must be between 0s and 1h",
    "simulate --duration 5": "'5' is not a duration: write a number and us, ms, s, m, h or d",
    "simulate --duration 2h": "it must be between 0s and 1h",
    "simulate --think -1ms": "--think is -1ms",
    "simulate --strong-share 1.5": "--strong-share is 1.5: it must be between 0 and 1",
    "simulate --strong-share nan": "--strong-share is nan: it must be between 0 and 1",
    "simulate --load 0": "--load is 0: it must be above 0",
    "simulate --load 9 --sessions 2": "--load and --sessions exclude each other",
    "simulate --fault 'crash 5 at 1ms'": "names replica 5, which does not exist: replicas are 0 to",
    "simulate --fault 'explode 1 at 1ms'": "unknown fault 'explode': expected one of add, crash",
    "simulate --fault 'crash 1 at noon'": "fault 'crash 1 at noon': 'noon' is not a dur",
    "simulate --fault 'crash 1 at 3s'": "a fault at 3s is after the end of the run at 2s",
    "simulate --call 'opne ann on 0 at 1ms'": (
        "unknown operation of bank 'opne': expected one of accrue"
    ),
    "simulate --call 'open on 0 at 1ms'": "requires the argument 'name'",
    "simulate --call 'open ann on 5 at 1ms'": "replica 5, which does not exist",
    "simulate --call 'open ann'": "is not a call: write '[strong] NAME",
    "simulate --call 'open ann on 0 at 3s'": "a call at 3s is after the end of the run at 2s",
    "simulate --story --replicas 3": "--story defines the scenario: omit --replicas",
    "simulate --replay 1 --seed 2": "--replay defines the scenario: omit --seed",
    "simulate --faults nowhere.txt": "File 'nowhere.txt' does not exist",
    "simulate --workload tpcc --load 0": "--load is 0: it must be above 0",
    "simulate --workload tpcc --load -1": "--load is -1: it must be above 0",
    "simulate --workload tpcc --load nan": "--load is nan: it must be above 0",
    "simulate --workload tpcc --warehouses 0": "--warehouses is 0: it must be at least 1",
    "simulate --workload tpcc --warehouses 999999": (
        "warehouses is 999999: it must be from 1 to 100000"
    ),
    "simulate --workload tpcc --strong-share -0.1": "--strong-share is -0.1: it must be between",
    "simulate --workload tpcc --scheme best": "unknown scheme 'best': expected one of basic",
    "simulate --workload tpch": "'tpch' is not 'tpcc'",
    "simulate --workload tpcc --layout columns": "'columns' is not one of 'rows', 'fine'",
    "simulate --workload tpcc --exec-scale 0": "--exec-scale is 0: it must be above 0",
    "simulate --workload tpcc --cores 0": "0 is not in the range 1<=x<=1024",
    "simulate --workload tpcc --duration 0s": "--warm-up must be shorter than --duration",
    "simulate --workload tpcc --datatype kv": (
        "--workload tpcc defines the clients: omit --datatype"
    ),
    "simulate --workload tpcc --seed -1": "seed is -1: it must be at least 0",
    "simulate --warehouses 5": "--warehouses applies to TPC-C only: add --workload tpcc",
    "simulate --scheme smr --extensions all": (
        "estimates is an extension of creek: the scheme smr does not have it"
    ),
    "simulate --replay 1 --workload tpcc": "--replay defines the scenario: omit --workload",
    "bench kv --duration 0s": "--duration is 0s: it must be between 100ms and 1h",
    "bench kv --load nan": "nan is not a finite number of calls per second",
    "live-run --out new --duration 0s": "--duration is 0s: it must be between 100ms and 1h",
    "live-run --out new --load inf": "inf is not a finite number of calls per second",
    "fuzz --seeds 0": "0 is not in the range x>=1",
    "fuzz --from -1": "-1 is not in the range x>=0",
    "fuzz --jobs 0": "0 is not in the range 1<=x<=256",
    "check": "Missing argument 'PATH'",
    "check nowhere": "nowhere does not exist",
    "check tests": "tests is not a run directory: it has no config.json",
    "check README.md": "README.md is a file of calls: name its model with --model",
    "check README.md --model kvs": "unknown model 'kvs': expected one of register, counter",
    "check README.md --model kv": "README.md, line 1: not a call",
    "check README.md --model json:dumps": "json:dumps is not a model or a data type",
    "check README.md --model kv --steps 0": "0 is not in the range x>=1",
    "simulate --replica 3": "No such option '--replica'. Did you mean '--replicas'?",
    "fuz": "No such command 'fuz'. Did you mean 'fuzz'?",
    "simulate --duration '10 ms'": "'10 ms' has a space before its unit: write 10ms",
    "simulate --fault 'crash 1 at 10 ms'": "'10 ms' has a space before its unit: write 10ms",
    "simulate --call 'open ann on 0 at 10 ms'": "write 10ms, without a space",
    "simulate --fault 'meteor at 1ms'": "'creek simulate --help-faults' explains them",
}


def split_line(line: str) -> list[str]:
    parts = line.split("'")
    return [
        word for index, part in enumerate(parts) for word in ([part] if index % 2 else part.split())
    ]


@pytest.mark.parametrize("line", ERRORS)
def test_a_usage_error_is_one_line_and_exit_code_2(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(split_line(line))

    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    assert shown.err.startswith("creek: ")
    assert shown.err.count("\n") == 1
    assert ERRORS[line] in shown.err


def test_a_fault_file_may_contain_comments_and_its_errors_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("# a bad day\ncrash 1 at 10ms  # the first\n\nrestart 1 at 50ms\n")
    bad.write_text("crash 9 at 10ms\n")

    assert main(["simulate", "--duration", "100ms", "--faults", str(good)]) == 0
    assert "crash 1 at 10ms; restart 1 at 50ms" in capsys.readouterr().out
    assert main(["simulate", "--faults", str(bad)]) == 2
    assert "replica 9, which does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("crash two at 1ms", "'two' is not a replica"),
        ("crash 9 at 1ms", "names replica 9, which does not exist"),
        ("crash 1 at 3s", "a fault at 3s is after the end of the run at 2s"),
        ("meteor at 1ms", "unknown fault 'meteor'"),
    ],
)
def test_an_error_in_a_fault_file_names_its_line(
    line: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "faults.txt"
    path.write_text(f"# a bad day\n\ncrash 1 at 1ms; {line}\n")

    assert main(["simulate", "--faults", str(path)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"creek: {path}, line 3: ")
    assert problem in shown


@pytest.mark.parametrize("line", ["simulate --bogus", "simulate --colour", "dream"])
def test_a_dissimilar_name_is_not_suggested(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert "Did you mean" not in capsys.readouterr().err


def test_a_binary_fault_file_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "faults.txt"
    path.write_bytes(b"\xff\xfe\x00")

    assert main(["simulate", "--faults", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"creek: cannot read the faults in {path}")


def test_help_contains_an_example_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("", "--help", "simulate --help", "fuzz --help", "check --help"):
        assert main(line.split()) == 0
        assert "Example" in capsys.readouterr().out
    main(["--help"])
    assert "Exit codes" in capsys.readouterr().out


def test_every_fault_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--help-faults"]) == 0
    shown = capsys.readouterr().out
    for example, _ in fault_examples():
        assert example in shown
    assert "rest is one group" in shown
    assert max(map(len, shown.splitlines())) <= 80
    main(["simulate", "--help"])
    assert "--help-faults" in capsys.readouterr().out


def test_help_explains_the_measures(capsys: pytest.CaptureFixture[str]) -> None:
    main(["simulate", "--help"])
    shown = capsys.readouterr().out
    for measure in ("accuracy", "execution ratio", "quiescent", "trace hash", "strong no-ops"):
        assert measure in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("creek 0.")
