"""`creek serve --help`."""

import pytest

from creekdb.cli import main


def test_it_tells_what_holds_without_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for default in ("disk", "inline", "creek-data", "--io-uring", "info"):
        assert f"[default: {default}]" in said
    assert main(["serve"]) == 2
    assert "'creek up' runs a whole cluster on this machine" in capsys.readouterr().err
