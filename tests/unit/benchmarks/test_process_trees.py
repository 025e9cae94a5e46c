"""Processor time of process trees."""

import os
import subprocess
import sys

from benchmarks.process_trees import cpu_seconds

BURN = "import time\nwhile time.process_time() < 0.1: pass\n"
PARENT = f"""import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
print("ended", flush=True)
subprocess.Popen([sys.executable, "-c", {BURN!r} + "print('burnt', flush=True); input()"])
sys.stdin.readline()
"""


def test_ended_and_running_children_count() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert [next(process.stdout), next(process.stdout)] == ["ended\n", "burnt\n"]
        used_s = cpu_seconds([process.pid])
        process.communicate("\n")
    assert used_s >= 0.2
    assert cpu_seconds([]) == 0
    assert cpu_seconds([os.getpid()]) > 0
