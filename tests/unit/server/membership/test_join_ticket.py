"""Join ticket: written atomically, and followed by the first record of the journal."""

import os
from pathlib import Path

import msgspec
import pytest

from creekdb.errors import DiskFull, StorageFault
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.membership.disk_loss_recovery import JOINED_BALLOT
from creekdb.protocol.messages import Ballot, Promised, Record
from creekdb.server.membership.changes import initialise_journal
from creekdb.server.membership.join_ticket import JoinTicket, make_ticket, read_ticket, write_ticket
from creekdb.server.storage.journal import Journal

TICKET = JoinTicket(
    replica=3, address="127.0.0.1:7203", epoch=1, members=((0, "127.0.0.1:7200"),), former=(1,)
)

OWNER = 7


def test_ticket_is_read_as_written(tmp_path: Path) -> None:
    assert read_ticket(tmp_path) is None
    write_ticket(TICKET, tmp_path)
    assert read_ticket(tmp_path) == TICKET


def test_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFault, match="No space left"):
        write_ticket(TICKET, tmp_path)
    assert not list(tmp_path.iterdir())


def read_records(data_dir: Path) -> list[Record]:
    journal = Journal(data_dir)
    records = journal.open()
    journal.close()
    return records


def test_first_start_records_that_nothing_was_promised(tmp_path: Path) -> None:
    assert not initialise_journal(tmp_path, OWNER), "the replica was not added"
    assert not list(tmp_path.iterdir())
    write_ticket(TICKET, tmp_path)
    assert initialise_journal(tmp_path, OWNER)
    assert read_records(tmp_path) == [Promised(JOINED_BALLOT)]
    assert not initialise_journal(tmp_path, OWNER)
    for file in tmp_path.glob("*.journal"):
        file.unlink()
    assert not initialise_journal(tmp_path, OWNER)
    assert read_records(tmp_path) == [], "a lost promise is not replaced"


@pytest.mark.parametrize("promised", [Ballot(7, 3), NO_BALLOT])
def test_journal_from_before_the_ticket_is_kept(tmp_path: Path, promised: Ballot) -> None:
    journal = Journal(tmp_path)
    journal.open()
    journal.append([Promised(promised)])
    journal.flush()
    journal.close()
    write_ticket(TICKET, tmp_path)
    assert not initialise_journal(tmp_path, OWNER)
    added = [Promised(JOINED_BALLOT)] if promised == NO_BALLOT else []
    assert read_records(tmp_path) == [Promised(promised), *added]


def test_full_disk_prevents_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ticket(TICKET, tmp_path)

    def full(journal: Journal) -> None:
        raise DiskFull("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "flush", full)
        with pytest.raises(DiskFull):
            initialise_journal(tmp_path, OWNER)
    assert read_ticket(tmp_path) == TICKET
    initialise_journal(tmp_path, OWNER)
    assert read_records(tmp_path) == [Promised(JOINED_BALLOT)]


def test_a_ticket_has_the_members_and_the_epoch_before_the_addition() -> None:
    members = ((0, "127.0.0.1:7200"), (3, "127.0.0.1:7203"))
    after = Configuration(2, members, (1,))

    assert make_ticket(msgspec.to_builtins(after), "127.0.0.1:7203") == TICKET
    assert TICKET.addresses == dict(members)
