"""The help of `--scheme` lists the schemes."""

import pytest
from msgspec.structs import fields

from creekdb.cli import main
from creekdb.cli.options import DEFAULT_SCHEME
from creekdb.schemes.registry import BUILT_IN
from creekdb.server.runtime.config import ServerConfig


@pytest.mark.parametrize("command", ["simulate", "fuzz"])
def test_the_help_lists_every_scheme(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Replication scheme: {', '.join(BUILT_IN)}, or package.module:Class" in shown


def test_simulations_and_live_clusters_have_the_same_default_scheme() -> None:
    assert {each.name: each.default for each in fields(ServerConfig)}["scheme"] == DEFAULT_SCHEME
