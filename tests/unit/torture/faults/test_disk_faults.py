"""Disk faults: each leaves what it claims in a data directory or does to a process."""

import subprocess
import sys
from pathlib import Path

import pytest

from creekdb.errors import StorageFault
from creekdb.server.storage.segments import read_segment_chain
from creekdb.torture.faults import disk_faults
from tests.unit.server.message_samples import read_journal, records, write_journal

WRITER = """
import os, sys
for line in sys.stdin:
    file = os.open(line.strip(), os.O_RDWR | os.O_CREAT)
    try:
        os.write(file, b"x")
        print("written", flush=True)
    except OSError as error:
        print(type(error).__name__, error.errno, flush=True)
"""


def test_a_torn_journal_has_an_incomplete_write_after_all_its_records(tmp_path: Path) -> None:
    write_journal(tmp_path, records(0, 2), records(2, 2))
    assert disk_faults.tear(tmp_path)

    chain = read_segment_chain(tmp_path)
    assert chain.tail is not None
    assert chain.tail.torn_bytes > 20
    assert read_journal(tmp_path) == records(0, 4)


def test_an_empty_journal_cannot_be_torn(tmp_path: Path) -> None:
    assert not disk_faults.tear(tmp_path)


def test_a_flipped_bit_is_one_bit_that_recovery_refuses(tmp_path: Path) -> None:
    write_journal(tmp_path, records(0, 2), records(2, 2))
    before = disk_faults.file_contents(tmp_path)
    path = disk_faults.flip(tmp_path)

    after = disk_faults.file_contents(tmp_path)
    changes = [
        (name, one ^ other)
        for name in before
        for one, other in zip(before[name], after[name], strict=True)
        if one != other
    ]
    assert changes == [(path.name, 1)]
    with pytest.raises(StorageFault, match=path.name):
        read_journal(tmp_path)


def test_writes_of_a_process_fail_until_they_are_allowed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def write(name: str) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{tmp_path / name}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        assert write("a") == "written"
        disk_faults.fail_writes(process.pid)
        assert write("b").startswith("OSError")
        disk_faults.allow_writes(process.pid)
        assert write("c") == "written"
        process.stdin.close()
    assert (tmp_path / "b").read_bytes() == b""
