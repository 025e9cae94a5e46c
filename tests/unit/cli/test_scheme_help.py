"""Where a scheme can be named, its help says which there are."""

import pytest
from msgspec.structs import fields

from creekdb.cli import main
from creekdb.cli.options import DEFAULT_SCHEME
from creekdb.schemes.registry import SCHEMES
from creekdb.server.runtime.config import ServerConfig


@pytest.mark.parametrize("command", ["simulate", "fuzz"])
def test_every_scheme_is_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Which replicas: {', '.join(SCHEMES)}, or yours" in said


def test_what_is_simulated_is_what_a_live_cluster_runs() -> None:
    assert {each.name: each.default for each in fields(ServerConfig)}["scheme"] == DEFAULT_SCHEME
