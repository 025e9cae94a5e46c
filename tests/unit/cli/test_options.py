"""Parameter types that several commands share."""

from pathlib import Path
from typing import Any

import click
import pytest

from creekdb.cli.options import RATE, parse_argument, reject_working_directory
from creekdb.errors import UsageError


@pytest.mark.parametrize("text", ["inf", "nan", "0", "-1", "many"])
def test_a_rate_is_positive_and_finite(text: str) -> None:
    with pytest.raises(click.BadParameter):
        RATE.convert(text, None, None)
    assert RATE.convert("0.5", None, None) == 0.5


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("[1, null]", [1, None]), ('"3"', "3"), ("lamp", "lamp"), ("", ""), ("{", "{")],
)
def test_an_argument_is_json_or_a_text(text: str, value: Any) -> None:
    assert parse_argument(text) == value


@pytest.mark.parametrize(
    ("text", "kind"), [("NaN", "a number"), ("1e400", "a number"), ("{a", "JSON"), ("lamp", "")]
)
def test_a_text_that_a_user_may_mean_otherwise_is_reported(
    text: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse_argument(text) == text
    notice = f"creek: {text} looks like {kind}, but is sent as a string\n" if kind else ""
    assert capsys.readouterr().err == notice


def test_an_output_directory_does_not_contain_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    for path in (Path(), Path(".."), tmp_path):
        with pytest.raises(UsageError, match="contains the working directory"):
            reject_working_directory(path, "--out")
    reject_working_directory(Path("run"), "--out")
    reject_working_directory(Path("../run"), "--out")
