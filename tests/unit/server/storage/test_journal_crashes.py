"""Recovery after crashes between any two system calls."""

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
from creekdb.server.storage.journal import Journal, JournalLimits
from creekdb.server.storage.segment_writer import CheckpointSlot
from tests.unit.server.message_samples import checkpoint_record, record
from tests.unit.server.storage.simulated_disk import PowerLoss, SimulatedMachine

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


@contextmanager
def temporary_directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="journal-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class History:
    """Lives of one journal, and the records appended in them."""

    def __init__(self, machine: SimulatedMachine, segment_bytes: int) -> None:
        self.machine = machine
        self._segment_bytes = segment_bytes
        self.appended: list[Record] = []
        self.reported_durable = 0
        """Last position that the journal reported durable."""
        self.torn_tails = 0
        self.slots: dict[int, CheckpointSlot | None] = {}
        """Checkpoint slots by position. None if the checkpoint is written, or never will be."""
        self.checkpoint_position = -1
        """Position of the last checkpoint that must survive. A later one may exist."""
        self.logged: list[str] = []

    def run_life(self, actions: list[str]) -> None:
        """Open the journal, check the recovered records, and act until the power fails."""
        journal = Journal(
            self.machine.directory,
            limits=JournalLimits(self._segment_bytes),
            log=self.logged.append,
            file_ops=self.machine,
        )
        journal.subscribe(lambda: self.check_durable(journal))
        try:
            try:
                self.check_recovered(journal, journal.open())
            except StorageFault:
                assert self.machine.errors, "the journal cannot be read"
                return
            for action in actions:
                self.act(journal, action)
        except PowerLoss:
            pass
        finally:
            journal._directory_lock.close()

    def check_recovered(self, journal: Journal, records: list[Record]) -> None:
        begin = -1
        if records and isinstance(records[0], CheckpointRecord):
            begin = records[0].checkpoint.instance
        assert journal.durable_position <= len(self.appended)
        assert records == [
            each
            for at, each in enumerate(self.appended[: journal.durable_position])
            if at == begin or (at > begin and at not in self.slots)
        ]
        assert set(range(journal.durable_position, self.reported_durable)) <= self.slots.keys()
        checkpoints = [
            at
            for at in range(journal.durable_position)
            if type(self.appended[at]) is CheckpointRecord
        ]
        assert begin >= max(
            [self.checkpoint_position, *(at for at in checkpoints if at not in self.slots)]
        )
        del self.appended[journal.durable_position :]
        self.slots = {at: None for at in self.slots if at < journal.durable_position}
        self.reported_durable = journal.durable_position
        self.checkpoint_position = begin
        self.torn_tails = sum(line.startswith("truncated ") for line in self.logged)

    def check_durable(self, journal: Journal) -> None:
        assert self.reported_durable < journal.durable_position <= len(self.appended)
        self.reported_durable = journal.durable_position

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
        elif action == "slot":
            self.appended.append(checkpoint_record(at))
            self.slots[at] = journal.reserve_checkpoint()
        elif action == "write":
            self.write_latest_checkpoint(journal)
        elif action == "checkpoint":
            self.appended.append(checkpoint_record(at))
            journal.append([checkpoint_record(at)])
        elif action == "chunks":
            self.appended.append(checkpoint_record(at))
            data = encode(checkpoint_record(at))
            journal.append_checkpoint(iter([data[:5], data[5:]]))
        else:
            new_records = [record(at + i, 7 * i) for i in range(int(action))]
            self.appended += new_records
            journal.append(new_records)
        assert journal.end_position == len(self.appended)

    def write_latest_checkpoint(self, journal: Journal) -> None:
        """Write the last checkpoint that is still wanted."""
        for at, slot in sorted(self.slots.items(), reverse=True):
            if slot is not None and at >= self.checkpoint_position:
                self.slots[at] = None
                data, logged = encode(checkpoint_record(at)), len(self.logged)
                journal.write_checkpoint(slot, [data[:5], data[5:]])
                if slot.segment_number is not None and len(self.logged) == logged:
                    self.checkpoint_position = at
                return


ACTIONS = st.lists(
    st.sampled_from(
        [
            "1",
            "3",
            "12",
            "checkpoint",
            "chunks",
            "slot",
            "slot",
            "write",
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
def test_durable_records_are_recovered_and_recovered_records_were_appended(
    seed: int,
    segment_bytes: int,
    short_writes: bool,
    lives: list[tuple[list[str], int | None, dict[int, int], bool]],
) -> None:
    with temporary_directory() as path:
        machine = SimulatedMachine(path, Random(seed))
        machine.short_writes = short_writes
        history = History(machine, segment_bytes)
        for actions, calls_left, errors, is_killed in lives:
            machine.calls_left, machine.errors = calls_left, errors
            machine.call_count = 0
            history.run_life(actions)
            machine.kill() if is_killed else machine.lose_power()
        machine.calls_left, machine.errors = None, {}
        history.run_life([])
        machine.kill()


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("has_error", [False, True])
def test_recovery_is_correct_after_a_crash_at_each_single_call(
    is_killed: bool, has_error: bool
) -> None:
    actions = ["1", "flush", "3", "flush", "12", "flush", "checkpoint", "1", "flush", "3", "flush"]
    actions += ["slot", "1", "flush", "write", "3", "flush", "slot", "write", "slot", "1", "flush"]
    actions += ["chunks", "1", "flush", "slot", "chunks", "flush", "3", "flush"]
    torn_tails = 0
    for call_count in range(100):
        for seed in range(3):
            with temporary_directory() as path:
                machine = SimulatedMachine(path, Random(seed))
                history = History(machine, 400)
                machine.calls_left = call_count
                machine.errors = {call_count: errno.EIO} if has_error else {}
                history.run_life(actions)
                machine.kill() if is_killed else machine.lose_power()
                machine.calls_left, machine.errors = None, {}
                history.run_life([])
                machine.lose_power()
                history.run_life(actions)
                machine.lose_power()
                history.run_life([])
                machine.kill()
                torn_tails += history.torn_tails
    assert (torn_tails > 0) is not is_killed or has_error
