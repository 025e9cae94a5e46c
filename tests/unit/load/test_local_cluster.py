"""Local clusters: output of the replicas, and processes that do not stop."""

import signal
import subprocess
import sys
from pathlib import Path

from creekdb.load.local_cluster import OUTPUT_TAIL_BYTES, LocalCluster
from creekdb.wire.event_log import EventName

EVENT = "error   replica 0: slow(7) has been running for 5.1 s and blocks all (operation.long a=1)"


def test_the_last_event_of_a_kind_is_found_in_the_output(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, replicas=1)
    output = tmp_path / "0.out"
    output.write_text("")
    assert cluster.last_event_text(0, EventName.OPERATION_LONG) is None
    earlier = EVENT.replace("5.1", "2.5")
    output.write_text(
        f"{'x' * OUTPUT_TAIL_BYTES}\n{earlier}\n{EVENT}\n  File shop.py, line 3\ninfo (a.b)\n"
    )
    text = cluster.last_event_text(0, EventName.OPERATION_LONG)
    assert text == "slow(7) has been running for 5.1 s and blocks all"


def test_each_event_of_a_kind_is_read_once(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, replicas=1)
    event = EventName.OPERATION_RAISED
    assert cluster.read_event_texts(0, event, 0) == ([], 0)
    line = "info    replica 0: buy raised LookupError: {} left (operation.raised operation=buy)"
    output = tmp_path / "0.out"
    output.write_text(f"{line.format('0')}\nTraceback\n{EVENT}\n{line.format('1')}")
    texts, position = cluster.read_event_texts(0, event, 0)
    assert texts == ["buy raised LookupError: 0 left"]  # the last line is incomplete
    with output.open("a") as file:
        file.write("\n")
    texts, position = cluster.read_event_texts(0, event, position)
    assert texts == ["buy raised LookupError: 1 left"]
    assert cluster.read_event_texts(0, event, position) == ([], output.stat().st_size)


def test_a_replica_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, replicas=1)
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print(1, flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}; signal.pause()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"1\n"  # the process now ignores SIGINT
    cluster._running[0] = process
    assert cluster.stop(0.05) == [0]
    assert process.returncode == -signal.SIGKILL
    assert cluster.stop(0.05) == []
