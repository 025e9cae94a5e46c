"""What the replicas of a local cluster have printed."""

import signal
import subprocess
import sys
from pathlib import Path

from creekdb.load.local_cluster import OUTPUT_TAIL_BYTES, LocalCluster

LONG = "error   replica 0: slow(7) has been running for 5.1 s: others wait (operation.long a=1)"


def test_the_last_event_of_a_kind_is_found_among_what_a_replica_printed(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, replicas=1)
    printed = tmp_path / "0.out"
    printed.write_text("")
    assert cluster.last_event_text(0, "operation.long") is None
    earlier = LONG.replace("5.1", "2.5")
    printed.write_text(
        f"{'x' * OUTPUT_TAIL_BYTES}\n{earlier}\n{LONG}\n  File shop.py, line 3\ninfo (a.b)\n"
    )
    told = cluster.last_event_text(0, "operation.long")
    assert told == "slow(7) has been running for 5.1 s: others wait"


def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, replicas=1)
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print(1, flush=True)"
    busy = subprocess.Popen(
        [sys.executable, "-c", f"{code}; signal.pause()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert busy.stdout is not None
    with busy.stdout:
        assert busy.stdout.readline() == b"1\n"  # from now on it does not hear
    cluster._running[0] = busy
    assert cluster.stop(0.05) == [0]
    assert busy.returncode == -signal.SIGKILL
    assert cluster.stop(0.05) == []
