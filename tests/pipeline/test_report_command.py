"""Output and exit codes of `creek pipeline report`."""

import webbrowser
from pathlib import Path

import pytest

from creekdb.cli import main
from creekdb.evaluation import Experiment
from tests.pipeline.synthetic_tables import report_tables, write_tables


@pytest.fixture
def out(tmp_path: Path) -> Path:
    experiments = [Experiment(load_tps=load) for load in (1_000.0, 20_000.0)]
    return write_tables(report_tables(experiments), tmp_path / "out")


def test_the_last_line_is_the_path_of_the_page(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "report", str(out)]) == 0

    *_, summary, path = capsys.readouterr().out.splitlines()
    assert "statements of the paper, simulated runs: " in summary
    assert path == str(out / "report.html")
    assert Path(path).is_file()


def test_the_open_option_opens_the_page(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)

    assert main(["pipeline", "report", str(out), "--open"]) == 0

    assert opened == [(out / "report.html").resolve().as_uri()]


def test_a_directory_without_measures_is_a_usage_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "report", str(tmp_path)]) == 2

    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "creek pipeline measure" in error


def test_a_damaged_table_is_a_storage_fault(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "summary" / "part-00000.parquet").write_bytes(b"PAR1")

    assert main(["pipeline", "report", str(out)]) == 3

    error = capsys.readouterr().err
    assert "part-00000.parquet is damaged: " in error


def test_the_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "report", "--help"]) == 0

    assert "\n    creek pipeline report runs/quick --open" in capsys.readouterr().out
