"""Distinct records, and helpers that write and read journals."""

from pathlib import Path

from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Ballot, Checkpoint, CheckpointRecord, Received, Record
from creekdb.protocol.request import Operation, Request
from creekdb.server.storage.journal import Journal, JournalLimits


def record(event: int, size: int = 0) -> Record:
    return Received(Request(event, Dot(0, event), Operation("put", ("x" * size,)), False))


def checkpoint_record(event: int) -> Record:
    return CheckpointRecord(Checkpoint(event, 0, Dots(), 0, (), ()), Ballot(0, 0), (), (), ())


def records(first: int, count: int, size: int = 0) -> list[Record]:
    return [record(event, size) for event in range(first, first + count)]


def read_journal(directory: Path) -> list[Record]:
    journal = Journal(directory)
    recovered = journal.open()
    journal.close()
    return recovered


def write_journal(directory: Path, *groups: list[Record], segment_bytes: int = 1 << 20) -> None:
    journal = Journal(directory, limits=JournalLimits(segment_bytes))
    journal.open()
    for group in groups:
        journal.append(group)
        journal.flush()
    journal.close()


def segment_paths(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.journal"))
