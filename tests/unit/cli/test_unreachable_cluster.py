"""Where no cluster runs, who looks for one is told so soon, in words, with what to do."""

import errno
import os
import socket

import pytest

from creekdb.cli import main
from creekdb.cli.commands.call import DEFAULT_ADDRESSES, error_text
from creekdb.client import NotDone
from creekdb.client.replica_connection import connection_error_text, has_no_listener
from creekdb.load.local_cluster import free_port

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 7100)")
BOTH = OSError(f"Multiple exceptions: {REFUSED}, [Errno {errno.ECONNREFUSED}] Connect call failed")
ONE_SILENT = OSError(f"Multiple exceptions: {REFUSED}, [Errno {errno.EHOSTUNREACH}] Connect call")
UNNAMED = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
LATER = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def test_who_finds_nobody_is_told_what_to_do() -> None:
    nobody = NotDone("unreachable", "no replica can be reached")
    assert error_text(nobody, DEFAULT_ADDRESSES).startswith(
        "no replica can be reached ('creek up' starts a cluster"
    )
    assert "is it started there?" in error_text(nobody, ("10.0.0.1:7100",))
    assert error_text(NotDone("closed", "not connected"), DEFAULT_ADDRESSES) == "not connected"


@pytest.mark.parametrize(
    ("error", "is_certain", "reason"),
    [
        (REFUSED, True, os.strerror(errno.ECONNREFUSED)),
        (BOTH, True, os.strerror(errno.ECONNREFUSED)),
        (UNNAMED, True, "Name or service not known"),
        (LATER, False, "Temporary failure in name resolution"),
        (TimeoutError(), False, "no answer"),
        (ConnectionResetError("it closes the connection"), False, "it closes the connection"),
    ],
)
def test_a_reason_is_told_in_words(error: Exception, is_certain: bool, reason: str) -> None:
    assert has_no_listener(error) == is_certain
    assert connection_error_text(error) == reason


def test_one_of_several_addresses_that_is_silent_is_waited_for() -> None:
    assert not has_no_listener(ONE_SILENT)
    assert "Errno" not in connection_error_text(ONE_SILENT)


@pytest.mark.parametrize(
    "command", [["call", "get", "a"], ["status"], ["member", "list"], ["bench", "kv"]]
)
def test_nobody_is_waited_for_where_nobody_listens(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bench", "call"):  # who imports the other first, while that is as it was
        monkeypatch.setattr(f"creekdb.cli.{name}.REFUSED_S", 0.05)
    monkeypatch.setattr("creekdb.cli.commands.status.PATIENCE_S", 0.05)
    port = free_port()

    assert main([*command, "--at", f"127.0.0.1:{port}"]) != 0

    said = capsys.readouterr().err
    assert "no replica can be reached" in said
    assert "tried for 0.05 s: " in said
    assert f"127.0.0.1:{port}: Connection refused (is it started there?" in said
    assert "Errno" not in said


def test_who_waits_is_told_that_nobody_has_answered_yet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("creekdb.cli.commands.call.REFUSED_S", 0.1)
    monkeypatch.setattr("creekdb.cli.commands.call.TELL_S", 0.0)
    port = free_port()

    assert main(["call", "get", "a", "--at", f"127.0.0.1:{port}"]) == 1

    told, ended = capsys.readouterr().err.splitlines()
    so_far = f"127.0.0.1:{port}: no answer yet; trying again for some seconds"
    assert told == f"creek: nobody answers yet: {so_far}"
    assert ended.startswith("creek: it was not done: ")
