"""Damaged variants of bytes: every small one, and random larger ones."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final


def nested_list(depth: int) -> list[Any]:
    """Return a list that is nested `depth` levels deep."""
    nested: list[Any] = []
    for _ in range(depth - 1):
        nested = [nested]
    return nested


_FLIPS: Final = (*(1 << bit for bit in range(8)), 0xFF)
"""Values that a byte is combined with by exclusive or."""
_SPLICES: Final = (
    b"\xdd\xff\xff\xff\xff",  # array of 2^32 - 1 items
    b"\xdf\xff\xff\xff\xff",  # map of 2^32 - 1 items
    b"\xdb\xff\xff\xff\xff",  # text of 2^32 - 1 bytes
    b"\xc6\xff\xff\xff\xff",  # 2^32 - 1 bytes
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",  # greatest unsigned integer
    b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00",  # least signed integer
    b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",  # not a number
    b"\xd6\xff\x00\x00\x00\x01",  # timestamp
    b"\xd4\x05\x01",  # extension type
    b"\x81\x91\x80\x01",  # map whose key is not hashable
    b"\xa1\xff",  # text that is not UTF-8
    b"\x91" * 300,
    b"\x91" * 100_000,
    b"[" * 100_000,
    b"9" * 5_000,
    b"\xff",
    b"\x00",
    b"-1",
    b"null",
)
"""Byte sequences that decoders handle specially."""
_SPECIAL_VALUES: Final[tuple[Any, ...]] = (
    None, True, 0, 1, -1, 10**9, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, "", "a", "h:9",
    [], [0], [[]], [0, 1], ["a", 1], {}, {"a": 1}, {"0": [1, 2]}, nested_list(300),
)  # fmt: skip
"""Values that decoders and their users handle specially. All of them are JSON."""


def flips(data: bytes) -> Iterator[bytes]:
    """Yield `data` with each bit of each byte inverted, and with each byte inverted."""
    for at in range(len(data)):
        for mask in _FLIPS:
            yield data[:at] + bytes((data[at] ^ mask,)) + data[at + 1 :]


def substitutions(data: bytes) -> Iterator[bytes]:
    """Yield `data` with each byte replaced by every other value."""
    for at in range(len(data)):
        for value in range(256):
            if value != data[at]:
                yield data[:at] + bytes((value,)) + data[at + 1 :]


def cuts(data: bytes) -> Iterator[bytes]:
    """Yield every proper prefix of `data`."""
    for length in range(len(data)):
        yield data[:length]


def splices(data: bytes) -> Iterator[bytes]:
    """Yield `data` with each special sequence in place of the byte at each offset."""
    for at in range(len(data)):
        for splice in _SPLICES:
            yield data[:at] + splice + data[at + 1 :]


def structural_variants(value: Any) -> Iterator[Any]:
    """Yield `value` with each node replaced by each special value, removed, and repeated."""
    yield from _SPECIAL_VALUES
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield [*value[:at], *value[at + 1 :]]
            yield [*value[:at], item, *value[at:]]
            for variant in structural_variants(item):
                yield [*value[:at], variant, *value[at + 1 :]]
    elif isinstance(value, dict):
        for key, item in value.items():
            yield {other: each for other, each in value.items() if other != key}
            for variant in structural_variants(item):
                yield {**value, key: variant}


def random_variant(random: Random, value: Any) -> Any:
    """Return `value` with one random node replaced by a special value."""
    if isinstance(value, list) and value and random.random() < 0.9:
        at = random.randrange(len(value))
        return [*value[:at], random_variant(random, value[at]), *value[at + 1 :]]
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        return {**value, key: random_variant(random, value[key])}
    return random.choice(_SPECIAL_VALUES)


def random_damage(random: Random, samples: Sequence[bytes]) -> bytes:
    """Return a sample after one to four random changes of any size."""
    data = random.choice(samples)
    for _ in range(random.randint(1, 4)):
        begin = random.randrange(len(data) + 1)
        end = min(len(data), begin + random.choice((0, 1, 1, 2, 4, 9, 64, 512)))
        other = random.choice(samples)
        first = random.randrange(len(other) + 1)
        replacement = random.choice(
            (
                b"",
                random.randbytes(end - begin),
                bytes(end - begin),
                random.choice(_SPLICES),
                data[begin:end] * 2,
                other[first : first + random.choice((1, 4, 16, 512))],
            )
        )
        data = data[:begin] + replacement + data[end:]
    return data
