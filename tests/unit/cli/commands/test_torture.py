"""Errors of `creek torture` in one line, before a replica starts."""

from pathlib import Path

import pytest

from creekdb.checkers import Illegal, Inconclusive, Ok, Verdict
from creekdb.cli import main
from tests.unit.torture.recorded_torture import recorded_torture


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_module:shop"], "there is no module 'no_such_module'"),
        (["bnak"], "bank"),
        (["creekdb.errors:CreekError"], "creekdb.errors:CreekError"),
        (["--replicas", "8"], "1<=x<=7"),
        (["--minutes", "0"], "0<x<=10000"),
        (["--model", "no_such_module:MODEL"], "there is no module 'no_such_module'"),
        (["--workload", "no_such_module:draw"], "there is no module 'no_such_module'"),
    ],
)
def test_bad_input_is_reported_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["torture", *arguments]) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_directory_with_files_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()

    assert main(["torture", "--out", str(tmp_path / "out")]) == 2

    assert "it is not an empty directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "code", "message"),
    [
        (Ok("replay"), 0, ""),
        (
            Inconclusive("linearizability", "too long"),
            4,
            "round 0 is inconclusive; continue the search with",
        ),
        (Illegal("replay", "lost"), 1, "seed 7 failed in round 0"),
    ],
)
def test_the_exit_code_is_that_of_the_worst_verdict(
    verdict: Verdict,
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "creekdb.cli.commands.torture.run_torture", lambda *_: recorded_torture(verdict)
    )

    assert main(["torture", "--out", str(tmp_path / "out")]) == code
    assert message in capsys.readouterr().err
