"""The ticket of a new replica is there, or it is not."""

import os
from pathlib import Path

import pytest

from creek.cluster.ticket import Ticket, read_ticket, write_ticket
from creek.errors import StorageFault

TICKET = Ticket(
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
