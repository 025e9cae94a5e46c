"""The control file of `creek up` is private, and exists while the cluster runs."""

from pathlib import Path

import pytest

from creekdb.cli.commands.faults import parse_links
from creekdb.cli.dev_cluster import (
    ControlFile,
    control_path,
    find_control,
    published_control,
    read_control,
)
from creekdb.errors import UsageError

CONTROL = ControlFile("http://127.0.0.1:1", "secret", "http://127.0.0.1:7300", 3)


def test_the_file_is_private_and_removed_at_the_end(tmp_path: Path) -> None:
    path = control_path(7100, tmp_path)
    with published_control(path, CONTROL):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert read_control(path) == CONTROL
    with pytest.raises(UsageError, match="no cluster of 'creek up' runs at port 7100"):
        read_control(path)


def test_a_cluster_is_found_by_the_port_of_any_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREEK_AT", raising=False)
    with published_control(control_path(7100, tmp_path), CONTROL):
        for port in (None, 7100, 7102):
            assert find_control(port, tmp_path) == CONTROL
        for port in (7099, 7103):
            with pytest.raises(UsageError, match=f"runs at port {port}"):
                find_control(port, tmp_path)
        monkeypatch.setenv("CREEK_AT", "127.0.0.1:7101,127.0.0.1:7102")
        assert find_control(None, tmp_path) == CONTROL
        monkeypatch.setenv("CREEK_AT", "127.0.0.1:7200")
        with pytest.raises(UsageError, match="runs at port 7200"):
            find_control(None, tmp_path)


def test_a_damaged_file_and_a_silent_endpoint_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "7100.json"
    path.write_text("{")
    with pytest.raises(UsageError, match="is damaged"):
        read_control(path)
    with pytest.raises(UsageError, match="does not respond"):
        CONTROL.request("kill", replica=0)


def test_links_are_pairs_or_all_links_of_a_replica() -> None:
    assert parse_links("0-2", CONTROL) == [(0, 2)]
    assert parse_links("1", CONTROL) == [(0, 1), (1, 2)]
    with pytest.raises(UsageError, match="unknown replica 7: replicas are 0 to 2"):
        parse_links("7", CONTROL)
    with pytest.raises(UsageError, match="unknown replica 9: replicas are 0 to 2"):
        parse_links("0-9", CONTROL)
    with pytest.raises(UsageError, match="replica 1 has no link to itself"):
        parse_links("1-1", CONTROL)
    with pytest.raises(UsageError, match="'0,1' is no link"):
        parse_links("0,1", CONTROL)
