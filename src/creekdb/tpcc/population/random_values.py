"""Random numbers and texts as pure functions of their position: the population's arithmetic.

A *word* is 64 random bits, computed from the number of the word (the finaliser of SplitMix64).
There is no state, so words can be computed in any order. Numbers are extracted from words, and
texts are slices of a *pool*: a long random text, created once per seed. A text costs one word and
one slice, independently of its length.

The population's formulas (`creekdb.tpcc.population.rows`) call a `ValueGenerator`.
`ScalarGenerator` computes one row at a time with Python's integers.
`creekdb.tpcc.population.column_arrays` computes columns. Numbers need no method: their operators
(`%`, `>>`, `+`) apply to integers and to arrays.

The module also contains last names and non-uniform random numbers (clauses 4.3.2.3 and 2.1.6). A
last name is a number from 0 to 999, spelled in syllables. Requested customers and ordered items are
drawn with NURand, whose constant C is fixed for a run. For last names, the specification bounds the
distance between the run's constant and the population's.
"""

import string
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from mypy_extensions import i64

_SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")

LAST_NAMES: Final = tuple(
    _SYLLABLES[number // 100] + _SYLLABLES[number // 10 % 10] + _SYLLABLES[number % 10]
    for number in range(1000)
)
LAST_NAME_NUMBERS: Final = {name: number for number, name in enumerate(LAST_NAMES)}

NURAND_A_LAST_NAME: Final = 255
NURAND_A_CUSTOMER: Final = 1023
NURAND_A_ITEM: Final = 8191

LAST_NAME_DELTAS: Final = tuple(delta for delta in range(65, 120) if delta not in (96, 112))
"""Permitted distances between the constants of a run and of its population (clause 2.1.6.1)."""


def nurand(coarse: Any, fine: Any, constant: int, low: int, high: int) -> Any:
    """Return NURand(A, low, high), with `coarse` from [0, A] and `fine` from [low, high]."""
    return ((coarse | fine) + constant) % (high - low + 1) + low


def run_constants(load_constant: int) -> tuple[int, ...]:
    """Return the permitted constants for last names of a run on a population."""
    candidates = range(NURAND_A_LAST_NAME + 1)
    return tuple(each for each in candidates if abs(each - load_constant) in LAST_NAME_DELTAS)


MASK_64: Final = 2**64 - 1
GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15
POOL_BITS: Final = 17
POOL_LENGTH: Final = 2**POOL_BITS
TEXT_MAX: Final = 500
ORIGINAL_MARK: Final = "ORIGINAL"

_MASK_32: Final = 2**32 - 1
_CHARACTERS_OF_A_WORD = 10  # 62 ** 10 < 2 ** 64


def splitmix64(number: Any) -> Any:
    """Return the word with that number; for an array, an array of words."""
    if _IS_COMPILED and type(number) is int:
        return splitmix64_halves(number)
    number = number & MASK_64
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK_64
    return number ^ (number >> 31)


def splitmix64_halves(number: int) -> int:
    """Return `splitmix64` of an int, computed in halves of 32 bits.

    Compiled, this takes a third of the time, because all but the first two lines and the last one
    become machine instructions. Interpreted, it takes twice the time.
    """
    low: i64 = number & _MASK_32
    high: i64 = number >> 32 & _MASK_32
    low, high = low ^ (high << 2 & _MASK_32) ^ low >> 30, high ^ high >> 30
    low, high = _multiply_halves(low, high, 0x1CE4E5B9, 0xBF58476D)
    low, high = low ^ (high << 5 & _MASK_32) ^ low >> 27, high ^ high >> 27
    low, high = _multiply_halves(low, high, 0x133111EB, 0x94D049BB)
    lower: int = low ^ (high << 1 & _MASK_32) ^ low >> 31
    upper: int = high ^ high >> 31
    return upper << 32 | lower


def _multiply_halves(
    low: "i64", high: "i64", factor_low: "i64", factor_high: "i64"
) -> "tuple[i64, i64]":
    """Return a product modulo 2 ** 64, in halves. No intermediate value exceeds 63 bits."""
    upper = low * (factor_low >> 16)
    lower = low * (factor_low & 0xFFFF) + ((upper & 0xFFFF) << 16)
    crossed = _low_product(high, factor_low) + _low_product(low, factor_high)
    return lower & _MASK_32, (lower >> 32) + (upper >> 16) + crossed & _MASK_32


def _low_product(one: "i64", other: "i64") -> "i64":
    """Return a number congruent to the product of two 32-bit numbers modulo 2 ** 32."""
    return one * (other & 0xFFFF) + ((one * (other >> 16) & 0xFFFF) << 16)


_IS_COMPILED: Final = not isinstance(splitmix64_halves, FunctionType)


def number_between(word: Any, low: int, high: int) -> Any:
    """Return a number from [low, high], derived from the upper half of a word."""
    return low + (word >> 32) % (high - low + 1)


ALPHABETS: Final = (string.ascii_letters + string.digits, string.ascii_uppercase, string.digits)
ALPHANUMERIC: Final = 0
LETTERS: Final = 1
DIGITS: Final = 2


def text_pools(seed: int) -> tuple[str, ...]:
    """Return the pool of each alphabet. A pool ends with a copy of its first characters."""
    return tuple(
        [_pool(splitmix64(seed ^ number), each) for number, each in enumerate(ALPHABETS, 1)]
    )


class ValueGenerator(Protocol):
    def text(self, word: Any, low: int, high: int, pool: int = ALPHANUMERIC) -> Any:
        """Return `low` to `high` characters of a pool, by default letters and digits (an
        a-string)."""

    def insert_mark(self, text: Any, where: Any, word: Any) -> Any:
        """Return the text with `ORIGINAL_MARK` at a random position if `where` holds."""

    def append_text(self, text: Any, ending: str) -> Any: ...

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """Return one of two numbers."""

    def null_where(self, condition: Any, value: Any) -> Any:
        """Return None where the condition holds, else the number."""

    def select(self, texts: Sequence[str], index: Any) -> Any: ...


class ScalarGenerator:
    """Generator for one row at a time. Implements `ValueGenerator`."""

    __slots__ = ("_pools",)

    def __init__(self, pools: tuple[str, ...]) -> None:
        self._pools = pools

    def text(self, word: int, low: int, high: int, pool: int = ALPHANUMERIC) -> str:
        start = word & (POOL_LENGTH - 1)
        return self._pools[pool][start : start + low + (word >> 32) % (high - low + 1)]

    def insert_mark(self, text: str, where: bool, word: int) -> str:
        if not where:
            return text
        start = word % (len(text) - len(ORIGINAL_MARK) + 1)
        return text[:start] + ORIGINAL_MARK + text[start + len(ORIGINAL_MARK) :]

    def append_text(self, text: str, ending: str) -> str:
        return text + ending

    def choose(self, condition: bool, yes: int, no: int) -> int:
        return yes if condition else no

    def null_where(self, condition: bool, value: int) -> int | None:
        return None if condition else value

    def select(self, texts: Sequence[str], index: int) -> str:
        return texts[index]


def _pool(seed: int, alphabet: str) -> str:
    characters: list[str] = []
    append: Callable[[str], None] = characters.append
    base = len(alphabet)
    for number in range(-(-POOL_LENGTH // _CHARACTERS_OF_A_WORD)):
        word = splitmix64(seed + number * GOLDEN_GAMMA)
        for _ in range(_CHARACTERS_OF_A_WORD):
            word, index = divmod(word, base)
            append(alphabet[index])
    text = "".join(characters)[:POOL_LENGTH]
    return text + text[:TEXT_MAX]
