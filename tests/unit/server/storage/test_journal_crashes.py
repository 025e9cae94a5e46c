"""Whatever happens between two system calls, what is found afterwards is right."""

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creekdb.errors import StorageFault
from creekdb.protocol.messages import CheckpointRecord, Record, encode
from creekdb.server.storage.journal import Journal
from creekdb.server.storage.segment_writer import CheckpointSlot
from tests.unit.server.message_samples import image, record
from tests.unit.server.storage.simulated_disk import Machine, PowerLoss

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="journal-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class History:
    """Lives of one replica, and what was appended in them."""

    def __init__(self, machine: Machine, segment_bytes: int) -> None:
        self.machine = machine
        self._segment_bytes = segment_bytes
        self.appended: list[Record] = []
        self.safe = 0
        """The position that was told durable."""
        self.cuts = 0
        self.rooms: dict[int, CheckpointSlot | None] = {}
        """Where room was left for an image; None: it was put there, or never will be."""
        self.imaged = -1
        self.logged: list[str] = []
        """There is an image at this place, or a later one."""

    def live(self, actions: list[str]) -> None:
        """Open the journal, check what is found, and go on until the power fails."""
        journal = Journal(
            self.machine.directory,
            segment_bytes=self._segment_bytes,
            on_durable=lambda: self.told(journal),
            log=self.logged.append,
            calls=self.machine,
        )
        try:
            try:
                self.found(journal, journal.open())
            except StorageFault:
                assert self.machine.errors, "a journal that cannot be read"
                return
            for action in actions:
                self.act(journal, action)
        except PowerLoss:
            pass
        finally:
            journal._directory_lock.close()

    def found(self, journal: Journal, records: list[Record]) -> None:
        begin = -1
        if records and isinstance(records[0], CheckpointRecord):
            begin = records[0].checkpoint.instance
        assert journal.durable_position <= len(self.appended)
        assert records == [
            each
            for at, each in enumerate(self.appended[: journal.durable_position])
            if at == begin or (at > begin and at not in self.rooms)
        ]
        assert set(range(journal.durable_position, self.safe)) <= self.rooms.keys()
        images = [
            at
            for at in range(journal.durable_position)
            if type(self.appended[at]) is CheckpointRecord
        ]
        assert begin >= max([self.imaged, *(at for at in images if at not in self.rooms)])
        del self.appended[journal.durable_position :]
        self.rooms = {at: None for at in self.rooms if at < journal.durable_position}
        self.safe = journal.durable_position
        self.imaged = begin
        self.cuts += journal.torn_tail is not None

    def told(self, journal: Journal) -> None:
        assert self.safe < journal.durable_position <= len(self.appended)
        self.safe = journal.durable_position

    def act(self, journal: Journal, action: str) -> None:
        at = len(self.appended)
        if action == "flush":
            try:
                journal.flush()
                assert journal.fault is None
                assert journal.durable_position == journal.end_position
            except StorageFault:
                assert journal.fault is not None
                assert journal.durable_position < journal.end_position
        elif action == "retry":
            journal.retry()
        elif action == "room":
            self.appended.append(image(at))
            self.rooms[at] = journal.reserve_checkpoint()
        elif action == "put":
            self.put(journal)
        elif action == "image":
            self.appended.append(image(at))
            journal.append([image(at)])
        elif action == "pieces":
            self.appended.append(image(at))
            data = encode(image(at))
            journal.append_checkpoint(iter([data[:5], data[5:]]))
        else:
            news = [record(at + i, 7 * i) for i in range(int(action))]
            self.appended += news
            journal.append(news)
        assert journal.end_position == len(self.appended)

    def put(self, journal: Journal) -> None:
        """The last image that is still wanted."""
        for at, room in sorted(self.rooms.items(), reverse=True):
            if room is not None and at >= self.imaged:
                self.rooms[at] = None
                data, logged = encode(image(at)), len(self.logged)
                journal.write_checkpoint(room, [data[:5], data[5:]])
                if room.segment_number is not None and len(self.logged) == logged:
                    self.imaged = at
                return


ACTIONS = st.lists(
    st.sampled_from(
        [
            "1",
            "3",
            "12",
            "image",
            "pieces",
            "room",
            "room",
            "put",
            "flush",
            "flush",
            "flush",
            "retry",
        ]
    ),
    max_size=14,
)
LIFE = st.tuples(
    ACTIONS,
    st.none() | st.integers(0, 40),
    st.dictionaries(st.integers(1, 40), st.sampled_from(ERRORS), max_size=3),
    st.booleans(),
)


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32),
    segment_bytes=st.sampled_from([100, 400, 2000]),
    short_writes=st.booleans(),
    lives=st.lists(LIFE, min_size=1, max_size=4),
)
def test_what_was_told_durable_is_found_and_what_is_found_was_appended(
    seed: int,
    segment_bytes: int,
    short_writes: bool,
    lives: list[tuple[list[str], int | None, dict[int, int], bool]],
) -> None:
    with folder() as path:
        machine = Machine(path, Random(seed))
        machine.short_writes = short_writes
        history = History(machine, segment_bytes)
        for actions, calls_left, errors, killed in lives:
            machine.calls_left, machine.errors = calls_left, errors
            machine.count = 0
            history.live(actions)
            machine.kill() if killed else machine.lose_power()
        machine.calls_left, machine.errors = None, {}
        history.live([])
        machine.kill()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("failed", [False, True])
def test_a_crash_after_each_single_call(killed: bool, failed: bool) -> None:
    actions = ["1", "flush", "3", "flush", "12", "flush", "image", "1", "flush", "3", "flush"]
    actions += ["room", "1", "flush", "put", "3", "flush", "room", "put", "room", "1", "flush"]
    actions += ["pieces", "1", "flush", "room", "pieces", "flush", "3", "flush"]
    cuts = 0
    for calls in range(100):
        for seed in range(3):
            with folder() as path:
                machine = Machine(path, Random(seed))
                history = History(machine, 400)
                machine.calls_left = calls
                machine.errors = {calls: errno.EIO} if failed else {}
                history.live(actions)
                machine.kill() if killed else machine.lose_power()
                machine.calls_left, machine.errors = None, {}
                history.live([])
                machine.lose_power()
                history.live(actions)
                machine.lose_power()
                history.live([])
                machine.kill()
                cuts += history.cuts
    assert (cuts > 0) is not killed or failed
