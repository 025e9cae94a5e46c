"""Folders that commands are to make."""

from pathlib import Path

import pytest

from creekdb.cli.app import main


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "--out", "."),
        ("bench", "kv", "--out", ".."),
        ("live-run", "--out", "."),
        ("gather", "recordings", "--out", "../here"),
        ("export", "shop.backup", "--out", "."),
    ],
    ids=lambda words: words[0],
)
def test_nothing_is_made_in_the_place_of_where_one_is(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = tmp_path / "here"
    (here / "recordings").mkdir(parents=True)
    monkeypatch.chdir(here)

    assert main(list(words)) == 2
    assert f"--out is '{words[-1]}', where you are: name a folder" in capsys.readouterr().err
    assert [each.name for each in here.iterdir()] == ["recordings"]
