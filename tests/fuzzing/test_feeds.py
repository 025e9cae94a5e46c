"""Damaged change feeds: a replica serves exactly the changes before the damage, or refuses.

The segments that are not damaged are served completely.
"""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.server.changes.segments import SEGMENT_HEADER_BYTES
from tests.fuzzing import mutations
from tests.fuzzing.feeds import check_random_feed_damage, feed_sample, read_feed

FILES = range(2)


def test_an_intact_feed_is_read_completely() -> None:
    sample = feed_sample()
    assert len(sample.files) == 2
    assert read_feed(sample.files) == sample.all_frames


@pytest.mark.parametrize("number", FILES)
def test_every_flipped_byte_ends_its_segment_there(number: int) -> None:
    sample = feed_sample()
    file = sorted(sample.files)[number]
    content = sample.files[file]
    for at in range(len(content)):
        intact = 0 if at < SEGMENT_HEADER_BYTES else at
        for mask in (0x01, 0x80, 0xFF):
            damaged = content[:at] + bytes((content[at] ^ mask,)) + content[at + 1 :]
            frames = read_feed({**sample.files, file: damaged})
            assert frames == sample.intact_frames(file, intact), at


@pytest.mark.parametrize("number", FILES)
def test_every_length_gives_the_exact_prefix_of_its_segment(number: int) -> None:
    sample = feed_sample()
    file = sorted(sample.files)[number]
    for length, damaged in enumerate(mutations.cuts(sample.files[file])):
        frames = read_feed({**sample.files, file: damaged})
        assert frames == sample.intact_frames(file, length), length


@pytest.mark.parametrize("number", FILES)
def test_zeros_from_every_offset_on_give_the_exact_prefix_of_its_segment(number: int) -> None:
    """A power failure may leave zeros in place of the end of the last writes."""
    sample = feed_sample()
    file = sorted(sample.files)[number]
    content = sample.files[file]
    for at in range(len(content)):
        damaged = content[:at] + bytes(len(content) - at)
        intact = next((each for each in range(at, len(content)) if content[each]), len(content))
        frames = read_feed({**sample.files, file: damaged})
        assert frames == sample.intact_frames(file, intact), at


@given(seed=st.integers(0, 2**32))
def test_random_damage_gives_only_what_was_written(seed: int) -> None:
    check_random_feed_damage(Random(seed))
