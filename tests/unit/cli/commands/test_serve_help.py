"""`creek serve --help`."""

import pytest

from creekdb.cli import main


def test_the_help_states_the_defaults_of_the_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for default in ("disk", "inline", "creek-data", "--io-uring", "info"):
        assert f"[default: {default}]" in shown
    assert main(["serve"]) == 2
    assert "'creek up' runs a whole cluster on this machine" in capsys.readouterr().err
