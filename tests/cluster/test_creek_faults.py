"""`creek cut`, `creek kill` and `creek heal` on a cluster of `creek up`."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from creekdb.cli import main
from creekdb.cli.app import command
from tests.cluster.creek_up import creek_up
from tests.cluster.ports import free_ports


def completions(*words: str, incomplete: str) -> list[str]:
    """Return the words that a shell offers for the last one."""
    shell = ShellComplete(command, {}, "creek", "_CREEK_COMPLETE")
    return [each.value for each in shell.get_completions(list(words), incomplete)]


def test_operations_of_an_unreachable_cluster_are_not_completed() -> None:
    assert completions("call", "--at", f"127.0.0.1:{free_ports()}", incomplete="") == []
    assert completions("call", "--at", "nowhere", incomplete="") == []


def test_faults_are_injected_and_healed_by_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    port = str(free_ports())
    monkeypatch.setenv("CREEK_AT", f"127.0.0.1:{port}")
    assert main(["cut", "0-1", "--port", port]) == 2
    assert "no cluster of 'creek up' runs" in capsys.readouterr().err
    with creek_up("--port", port) as cluster:
        for replica in range(3):
            cluster.wait_for(f"replica {replica} is up at 127.0.0.1:{int(port) + replica}")
        assert main(["call", "put", "lamp", "1", "--strong"]) == 0  # waits until replica 0 joined
        assert main(["cut", "0", "--port", port]) == 0
        cluster.wait_for("the link between 0 and 2 is cut")
        assert main(["call", "put", "lamp", "3"]) == 0
        assert main(["call", "get", "lamp", "--strong", "--timeout", "1"]) == 1
        assert main(["kill", "2", "--port", port]) == 0
        cluster.wait_for("replica 2 was killed on request")
        assert main(["kill", "7", "--port", port]) == 2
        assert main(["cut", "--port", port]) == 2
        assert "LINKS is missing" in capsys.readouterr().err
        assert main(["heal", "--port", port]) == 0
        cluster.wait_for("replica 2 was started on request")
        assert main(["call", "get", "lamp", "--strong"]) == 0
        assert capsys.readouterr().out.endswith("3  (stable)\n")
        assert main(["call", "put", "lamp", "{a: 1}"]) == 0
        assert "{a: 1} looks like JSON, but is sent as a string" in capsys.readouterr().err
        assert completions("call", incomplete="pu") == ["put", "put_if_absent"]
        assert completions("call", "--at", f"127.0.0.1:{int(port) + 1}", incomplete="ran") == [
            "range"
        ]
        monkeypatch.setenv(
            "CREEK_AT", f"127.0.0.1:{int(port) + 1}"
        )  # any replica names the cluster
        capsys.readouterr()
        assert main(["cut", "0-1"]) == main(["heal"]) == 0
        assert capsys.readouterr().out.startswith("cut: 0-1\nhealed: ")
        assert main(["call", "put", "lamp"]) == 2
        assert "requires the argument 'value'" in capsys.readouterr().err
