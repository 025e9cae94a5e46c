"""Decoders: any bytes give a decoded value or a typed error, without a hang or much memory."""

import tracemalloc
from itertools import chain, islice
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import MalformedMessage
from creekdb.wire import messages as wire
from tests.fuzzing import mutations, samples
from tests.fuzzing.targets import (
    assembled_checkpoint,
    backup_blocks,
    seal_backup,
    snapshot_frames,
    targets,
)

MESSAGE_TARGETS = (
    "peer-hello",
    "peer-message",
    "client-message",
    "server-message",
    "record",
)
LARGE_TARGETS = {"run-history", "sealed-run-history", "backup"}
"""Decoders whose samples are too large for every variant, or that verify a checksum first."""
LENGTH_HEADERS = (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff")
MEMORY_BYTES_MAX = 100_000


@pytest.mark.parametrize("name", targets())
def test_every_flipped_byte_and_every_cut_obeys_the_rule(name: str) -> None:
    target = targets()[name]
    for sample in target.samples:
        target.check(sample)
        for data in chain(mutations.flips(sample), mutations.cuts(sample)):
            target.check(data)


@pytest.mark.parametrize("name", sorted(targets().keys() - LARGE_TARGETS))
def test_every_special_sequence_at_every_offset_obeys_the_rule(name: str) -> None:
    target = targets()[name]
    for sample in target.samples:
        for data in mutations.splices(sample):
            target.check(data)


@pytest.mark.parametrize("name", MESSAGE_TARGETS)
def test_every_value_of_every_byte_of_a_message_obeys_the_rule(name: str) -> None:
    target = targets()[name]
    for sample in target.samples:
        for data in mutations.substitutions(sample):
            target.check(data)


@pytest.mark.parametrize("name", MESSAGE_TARGETS)
def test_every_misshapen_message_obeys_the_rule(name: str) -> None:
    target = targets()[name]
    for sample in target.samples:
        for variant in mutations.structural_variants(msgspec.msgpack.decode(sample)):
            target.check(samples.encode(variant))


def test_misshapen_histories_obey_the_rule() -> None:
    """There are too many variants to check all of them."""
    target = targets()["sealed-run-history"]
    (sample,) = target.samples
    for variant in islice(
        mutations.structural_variants(msgspec.msgpack.decode(sample)), 0, None, 7
    ):
        target.check(samples.encode(variant))


@pytest.mark.parametrize(
    "name", ["join-ticket", "data-dir-owner", "evidence", "dev-control", "run-config"]
)
def test_every_misshapen_file_obeys_the_rule(name: str) -> None:
    target = targets()[name]
    for sample in target.samples:
        for variant in mutations.structural_variants(msgspec.json.decode(sample)):
            target.check(msgspec.json.encode(variant))


def test_every_misshapen_backup_obeys_the_rule() -> None:
    blocks = backup_blocks()
    target = targets()["sealed-backup"]
    for at, block in enumerate(blocks):
        for variant in mutations.structural_variants(block):
            target.check(seal_backup([*blocks[:at], variant, *blocks[at + 1 :]]))


@pytest.mark.parametrize("name", targets())
@given(seed=st.integers(0, 2**32))
def test_random_damage_obeys_the_rule(name: str, seed: int) -> None:
    target = targets()[name]
    target.check(mutations.random_damage(Random(seed), target.samples))


@pytest.mark.parametrize("name", targets())
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_obey_the_rule(name: str, data: bytes) -> None:
    targets()[name].check(data)


@pytest.mark.parametrize("name", MESSAGE_TARGETS)
def test_a_length_without_content_takes_little_memory(name: str) -> None:
    target = targets()[name]
    tracemalloc.start()
    try:
        for sample in target.samples:
            for at in range(len(sample)):
                for header in LENGTH_HEADERS:
                    tracemalloc.reset_peak()
                    before, _ = tracemalloc.get_traced_memory()
                    target.check(sample[:at] + header * 20 + sample[at:])
                    _, peak = tracemalloc.get_traced_memory()
                    assert peak - before < MEMORY_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_a_snapshot_without_one_part_or_with_parts_in_another_order_is_rejected() -> None:
    payloads = list(wire.FrameDecoder(500).feed(snapshot_frames()))
    assert samples.encode(assembled_checkpoint(payloads)) == samples.encode(samples.CHECKPOINT)
    for at in range(len(payloads) - 1):
        for damaged in (
            payloads[:at] + payloads[at + 1 :],
            [*payloads[:at], payloads[at], *payloads[at:]],
            payloads[:at] + payloads[at + 1 : at + 2] + [payloads[at]] + payloads[at + 2 :],
        ):
            with pytest.raises(MalformedMessage, match="snapshot"):
                assembled_checkpoint(damaged)
