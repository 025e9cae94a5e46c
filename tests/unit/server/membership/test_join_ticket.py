"""The ticket of a new replica is there, or it is not."""

import os
from pathlib import Path

import pytest

from creekdb.errors import DiskFull, StorageFault
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.membership.disk_loss_recovery import JOINED_BALLOT
from creekdb.protocol.messages import Ballot, Promised, Record
from creekdb.server.membership.changes import initialise_journal
from creekdb.server.membership.join_ticket import JoinTicket, read_ticket, write_ticket
from creekdb.server.storage.journal import Journal

TICKET = JoinTicket(
    replica=3, address="127.0.0.1:7203", epoch=1, members=((0, "127.0.0.1:7200"),), former=(1,)
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_ticket(tmp_path) is None
    write_ticket(TICKET, tmp_path)
    assert read_ticket(tmp_path) == TICKET


def test_nothing_is_left_of_one_that_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFault, match="No space left"):
        write_ticket(TICKET, tmp_path)
    assert not list(tmp_path.iterdir())


def records_of(folder: Path) -> list[Record]:
    journal = Journal(folder)
    records = journal.open()
    journal.close()
    return records


def test_who_is_started_for_the_first_time_writes_down_that_it_promised_nothing(
    tmp_path: Path,
) -> None:
    assert not initialise_journal(tmp_path), "not one that was added"
    assert not list(tmp_path.iterdir())
    write_ticket(TICKET, tmp_path)
    assert initialise_journal(tmp_path)
    assert records_of(tmp_path) == [Promised(JOINED_BALLOT)]
    assert not initialise_journal(tmp_path)
    for file in tmp_path.glob("*.journal"):
        file.unlink()
    assert not initialise_journal(tmp_path)
    assert records_of(tmp_path) == [], "what it promised is lost, and is not made up"


@pytest.mark.parametrize("promised", [Ballot(7, 3), NO_BALLOT])
def test_a_journal_from_before_that_was_written_down_is_kept(
    tmp_path: Path, promised: Ballot
) -> None:
    journal = Journal(tmp_path)
    journal.open()
    journal.append([Promised(promised)])
    journal.flush()
    journal.close()
    write_ticket(TICKET, tmp_path)
    assert not initialise_journal(tmp_path)
    later = [Promised(JOINED_BALLOT)] if promised == NO_BALLOT else []
    assert records_of(tmp_path) == [Promised(promised), *later]


def test_on_a_full_disk_nobody_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ticket(TICKET, tmp_path)

    def full(journal: Journal) -> None:
        raise DiskFull("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "flush", full)
        with pytest.raises(DiskFull):
            initialise_journal(tmp_path)
    assert read_ticket(tmp_path) == TICKET
    initialise_journal(tmp_path)
    assert records_of(tmp_path) == [Promised(JOINED_BALLOT)]
