"""Where a scheme can be named, its help says which there are."""

import pytest

from creek.cli import main
from creek.schemes.registry import SCHEMES


@pytest.mark.parametrize("command", ["simulate", "fuzz"])
def test_every_scheme_is_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Which replicas: {', '.join(SCHEMES)}, or yours" in said
