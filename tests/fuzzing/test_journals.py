"""Damaged journals: recovery gives exactly the state of a written prefix, or refuses.

Only the last group may be an incomplete write. So damage elsewhere is always refused.
"""

import shutil
from bisect import bisect_right
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.checkpoint.replay import replay_records
from creekdb.server.storage.journal import Journal
from tests.fuzzing import mutations
from tests.fuzzing.journals import (
    PREALLOCATED_BYTES,
    JournalSample,
    check_random_damage,
    journal_samples,
    recover,
)
from tests.fuzzing.targets import scratch_directory
from tests.unit.server.message_samples import read_journal, record


def assert_prefix(sample: JournalSample, files: dict[str, bytes], intact_bytes: int) -> None:
    """Assert the state that is due if only so many bytes of the last segment are intact."""
    groups_lost = len(sample.group_ends) - bisect_right(sample.group_ends, intact_bytes)
    state = recover(files)
    if groups_lost == len(sample.group_ends):
        assert state is None, "a segment whose first group is damaged"
    else:
        assert state == sample.states[-1 - groups_lost]


@pytest.mark.parametrize("name", journal_samples())
def test_every_flipped_byte_gives_the_exact_prefix_or_is_refused(name: str) -> None:
    sample = journal_samples()[name]
    assert recover(sample.files) == sample.states[-1]
    for file, content in sample.files.items():
        for at in range(len(content)):
            for mask in (0x01, 0x80, 0xFF):
                damaged = content[:at] + bytes((content[at] ^ mask,)) + content[at + 1 :]
                files = {**sample.files, file: damaged}
                state = recover(files)
                if at >= len(content) - PREALLOCATED_BYTES:
                    assert state == sample.states[-1], "nothing was written here"
                elif (
                    file == sample.last_file
                    and len(sample.group_ends) > 1
                    and (at >= sample.group_ends[-2])
                ):
                    assert state == sample.states[-2], "the last group is incomplete"
                else:
                    assert state is None, "a group that was durable is damaged"


@pytest.mark.parametrize("name", journal_samples())
def test_every_length_gives_the_exact_prefix_or_is_refused(name: str) -> None:
    sample = journal_samples()[name]
    for file, content in sample.files.items():
        for length, damaged in enumerate(mutations.cuts(content)):
            files = {**sample.files, file: damaged}
            if file == sample.last_file:
                assert_prefix(sample, files, length)
            elif length < len(content) - PREALLOCATED_BYTES:
                assert recover(files) is None
            else:
                assert recover(files) == sample.states[-1]


@pytest.mark.parametrize("name", journal_samples())
def test_zeros_from_every_offset_on_give_the_exact_prefix_or_are_refused(name: str) -> None:
    """A crash may leave zeros in place of the end of the last write."""
    sample = journal_samples()[name]
    file = sample.last_file
    content = sample.files[file]
    for at in range(len(content)):
        damaged = content[:at] + bytes(len(content) - at)
        intact_bytes = len(content) if damaged == content else at
        assert_prefix(sample, {**sample.files, file: damaged}, intact_bytes)


def test_a_journal_continues_after_every_torn_write() -> None:
    """Records that follow a torn write are recovered after exactly the intact prefix."""
    sample = journal_samples()["one segment"]
    (file,) = sample.files
    directory = scratch_directory() / "continued"
    for length in range(sample.group_ends[-2], sample.group_ends[-1], 7):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        (directory / file).write_bytes(sample.files[file][:length])
        journal = Journal(directory)
        recovered = journal.open()
        journal.append([record(99)])
        journal.flush()
        journal.close()
        assert replay_records(recovered) == sample.states[-2]
        assert read_journal(directory) == [*recovered, record(99)]


@given(seed=st.integers(0, 2**32))
def test_random_damage_gives_the_exact_prefix_or_is_refused(seed: int) -> None:
    check_random_damage(Random(seed))
