"""State digests: the sum of hashes over the registers, however often they change."""

from typing import Any
from zlib import crc32

import msgspec

from creekdb.execution.mvcc.state_loader import StateDigest
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key


def digest_of(state: dict[Key, Any]) -> int:
    """Return the digest of a state by its definition."""
    checksums = [crc32(msgspec.msgpack.encode(item)) for item in state.items()]
    return sum(each * (each + 0x9E3779B97F4A7C15) for each in checksums) % 2**64


def test_the_digest_is_a_sum_over_the_registers() -> None:
    state: dict[Key, Any] = {"a": (1, b"two"), ("b", 3): None, 4: {"five": 6.0}}
    digest = StateDigest()
    for key, value in state.items():
        digest.replace(key, ABSENT, value)

    assert digest.value == digest_of(state)


def test_only_the_last_of_several_values_counts() -> None:
    digest = StateDigest()
    digest.replace("a", ABSENT, 1)
    before = digest.value
    digest.replace("a", 1, 2)
    digest.replace("b", ABSENT, 7)
    digest.replace("a", 2, True)
    digest.replace("b", 7, ABSENT)

    assert before == digest_of({"a": 1})
    assert digest.value == digest_of({"a": True})


def test_a_loaded_digest_replaces_the_previous_one() -> None:
    digest = StateDigest()
    digest.replace("a", ABSENT, 1)
    digest.value = digest_of({"b": 2})
    digest.replace("b", 2, 3)

    assert digest.value == digest_of({"b": 3})
