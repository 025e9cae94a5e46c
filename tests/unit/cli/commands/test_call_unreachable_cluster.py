"""Errors for an unreachable cluster are quick, readable and contain a remedy."""

import errno
import os
import socket

import pytest

from creekdb.cli import main
from creekdb.cli.options import CommandLimits
from creekdb.cli.target import DEFAULT_ADDRESSES, ClusterTarget
from creekdb.client import NotDone
from creekdb.client.replica_connection import connection_error_text, has_no_listener
from creekdb.load.local_cluster import free_port
from creekdb.wire.reject_reason import RejectReason

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 7100)")
BOTH = OSError(f"Multiple exceptions: {REFUSED}, [Errno {errno.ECONNREFUSED}] Connect call failed")
PARTIALLY_SILENT = OSError(
    f"Multiple exceptions: {REFUSED}, [Errno {errno.EHOSTUNREACH}] Connect call"
)
UNNAMED = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
LATER = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def test_an_unreachable_cluster_is_reported_with_a_remedy() -> None:
    unreachable = NotDone(RejectReason.UNREACHABLE, "no replica can be reached")
    default, other = (
        ClusterTarget(addresses, token="", authority=None)
        for addresses in (DEFAULT_ADDRESSES, ("10.0.0.1:7100",))
    )
    assert str(default.failure("cannot call", unreachable)).startswith(
        "cannot call: no replica can be reached (start a cluster here with 'creek up'"
    )
    remedy = "start the cluster, or set another address with --at"
    assert remedy in str(other.failure("cannot call", unreachable))
    closed = NotDone(RejectReason.CLOSED, "not connected")
    assert str(default.failure("cannot call", closed)) == "cannot call: not connected"


@pytest.mark.parametrize(
    ("error", "is_certain", "reason"),
    [
        (REFUSED, True, os.strerror(errno.ECONNREFUSED)),
        (BOTH, True, os.strerror(errno.ECONNREFUSED)),
        (UNNAMED, True, "Name or service not known"),
        (LATER, False, "Temporary failure in name resolution"),
        (TimeoutError(), False, "no response"),
        (ConnectionResetError("it closes the connection"), False, "it closes the connection"),
    ],
)
def test_a_connection_error_is_reported_without_its_number(
    error: Exception, is_certain: bool, reason: str
) -> None:
    assert has_no_listener(error) == is_certain
    assert connection_error_text(error) == reason


def test_a_silent_address_among_several_is_retried() -> None:
    assert not has_no_listener(PARTIALLY_SILENT)
    assert "Errno" not in connection_error_text(PARTIALLY_SILENT)


@pytest.mark.parametrize(
    "command",
    [
        ["call", "get", "a"],
        ["status"],
        ["member", "list"],
        ["bench", "kv"],
        ["sql", "-c", "SELECT 1"],
    ],
)
def test_refused_connections_are_retried_only_briefly(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    limits = CommandLimits(refused_retry_s=0.05, status_timeout_s=0.05)
    port = free_port()

    assert main([*command, "--at", f"127.0.0.1:{port}"], limits) != 0

    shown = capsys.readouterr().err
    assert "no replica can be reached" in shown
    assert "tried for 0.05 s: " in shown
    assert f"127.0.0.1:{port}: Connection refused (start the cluster, " in shown
    assert "Errno" not in shown


def test_a_notice_is_printed_while_no_replica_responds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits = CommandLimits(refused_retry_s=0.1, notice_delay_s=0.0)
    port = free_port()

    assert main(["call", "get", "a", "--at", f"127.0.0.1:{port}"], limits) == 1

    notice, error = capsys.readouterr().err.splitlines()
    progress = f"127.0.0.1:{port}: no response yet; retrying for a few seconds"
    assert notice == f"creek: no replica responds yet: {progress}"
    assert error.startswith("creek: the call was not executed: ")
