"""`creek pipeline report`."""

import webbrowser
from pathlib import Path

import pytest

from creekdb.cli import main
from creekdb.evaluation import Experiment
from tests.pipeline.made_up import tables, write


@pytest.fixture
def out(tmp_path: Path) -> Path:
    given = [Experiment(load_tps=load) for load in (1_000.0, 20_000.0)]
    return write(tables(given), tmp_path / "out")


def test_it_ends_with_where_the_page_is(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "report", str(out)]) == 0

    *_, summary, place = capsys.readouterr().out.splitlines()
    assert "statements of the paper" in summary
    assert place == str(out / "report.html")
    assert Path(place).is_file()


def test_it_opens_the_page_where_that_is_asked_for(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)

    assert main(["pipeline", "report", str(out), "--open"]) == 0

    assert opened == [(out / "report.html").resolve().as_uri()]


def test_a_folder_without_measures_is_a_mistake_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "report", str(tmp_path)]) == 2

    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "creek pipeline measure" in told


def test_a_damaged_table_is_a_fault_of_the_disk(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "summary" / "part-00000.parquet").write_bytes(b"PAR1")

    assert main(["pipeline", "report", str(out)]) == 3

    assert "part-00000.parquet cannot be read" in capsys.readouterr().err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "report", "--help"]) == 0

    assert "\n    creek pipeline report runs/quick --open" in capsys.readouterr().out
