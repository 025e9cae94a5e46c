"""Journals that are damaged, and the states that may be recovered from them."""

from functools import cache
from random import Random
from typing import Final, NamedTuple

from creekdb.errors import StorageFault
from creekdb.protocol.checkpoint.replay import RecoveredState, replay_records
from creekdb.protocol.messages import CheckpointRecord, Record
from creekdb.server.storage.segments import read_segment_chain
from tests.fuzzing import mutations, samples
from tests.fuzzing.targets import overwrite, scratch_directory
from tests.unit.server.message_samples import record, segment_paths, write_journal

PREALLOCATED_BYTES: Final = 50
"""Zeros that remain after the last group of a sample. A server preallocates many more."""


class JournalSample(NamedTuple):
    """Files of a journal, and what was written to it."""

    files: dict[str, bytes]
    """Content of every segment, by file name."""
    states: tuple[RecoveredState, ...]
    """States after each group that the segments contain, oldest first."""
    group_ends: tuple[int, ...]
    """Ends of the groups in the last segment, as offsets."""

    @property
    def last_file(self) -> str:
        return max(self.files)


def make_sample(name: str, groups: list[list[Record]], segment_bytes: int) -> JournalSample:
    directory = scratch_directory() / name
    write_journal(directory, *groups, segment_bytes=segment_bytes)
    files: dict[str, bytes] = {}
    for path in segment_paths(directory):
        content = path.read_bytes().rstrip(b"\0")
        files[path.name] = content + bytes(PREALLOCATED_BYTES)
    written: list[Record] = []
    states: list[RecoveredState] = []
    for group in groups:
        if isinstance(group[0], CheckpointRecord):
            states = []
        written += group
        states.append(replay_records(written))
    last = files[max(files)]
    begins = [at for at in range(len(last)) if last.startswith(b"GRP\xc1", at)]
    ends = (*begins[1:], len(last) - PREALLOCATED_BYTES)
    return JournalSample(files, tuple(states), ends)


@cache
def journal_samples() -> dict[str, JournalSample]:
    """Return journals of one segment, of several, and with checkpoints."""
    groups = [list(samples.RECORDS[:2]), list(samples.RECORDS[2:4]), [samples.RECORDS[4]]]
    checkpoint = samples.RECORDS[5]
    return {
        "one segment": make_sample("one", groups, 1 << 20),
        "three segments": make_sample(
            "three", [*groups, *([record(each)] for each in (1, 2))], 200
        ),
        "a checkpoint": make_sample("checkpoint", [*groups, [checkpoint], *groups], 1 << 20),
        "only a checkpoint": make_sample("only", [[checkpoint]], 1 << 20),
    }


def recover(files: dict[str, bytes]) -> RecoveredState | None:
    """Return the state that a replica would start from, or None if the journal is refused."""
    directory = scratch_directory() / "damaged"
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        if path.name not in files:
            path.unlink()
    for name, content in files.items():
        overwrite(directory / name, content)
    try:
        return replay_records(read_segment_chain(directory).records)
    except StorageFault:
        return None


def check_random_damage(random: Random) -> None:
    """Damage a journal at random. It must give the state of a prefix, or be refused."""
    sample = random.choice(list(journal_samples().values()))
    files = dict(sample.files)
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice(list(files))
        change = random.randrange(8)
        if change == 0 and len(files) > 1:
            del files[name]
        elif change == 1:
            files[name] = random.choice(list(sample.files.values()))
        else:
            files[name] = mutations.random_damage(random, (files[name],))
    state = recover(files)
    assert state is None or state in sample.states, files
