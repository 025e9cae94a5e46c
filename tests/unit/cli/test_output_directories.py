"""Output directories that commands create."""

from pathlib import Path

import pytest

from creekdb.cli.app import main


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "--out", "."),
        ("bench", "kv", "--out", ".."),
        ("live-run", "--out", "."),
        ("gather", "recordings", "--out", "../work"),
        ("export", "shop.backup", "--out", "."),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_working_directory_and_its_parents_are_rejected_as_output(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = tmp_path / "work"
    (work / "recordings").mkdir(parents=True)
    monkeypatch.chdir(work)

    assert main(list(arguments)) == 2
    assert (
        f"--out is '{arguments[-1]}', which contains the working directory: name a new directory"
        in capsys.readouterr().err
    )
    assert [each.name for each in work.iterdir()] == ["recordings"]
