"""Output errors: a closed pipe ends the command silently, and a full disk is one line on stderr."""

import subprocess
import sys
from pathlib import Path

import pytest

CREEK = [sys.executable, "-m", "creekdb"]
LINES = ["simulate --story", "simulate --story --json", "fuzz --seeds 1 --jobs 1", "--help"]


@pytest.mark.parametrize("line", LINES)
def test_a_closed_pipe_ends_the_command_silently(line: str) -> None:
    with subprocess.Popen(
        [*CREEK, *line.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("line", LINES)
def test_a_full_disk_is_one_line_and_exit_code_3(line: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*CREEK, *line.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert done.returncode == 3
    assert done.stderr == "creek: cannot write the output: No space left on device\n"
