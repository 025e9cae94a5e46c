"""Last names and non-uniform random numbers (clauses 4.3.2.3 and 2.1.6).

A last name is a number from 0 to 999, said in syllables. The customers that are asked for, and the
items that are ordered, are drawn with NURand, whose constant C is the same for a whole run; for
last names the run's must differ from the population's, by how much is told by the specification.

Random numbers and texts as pure functions of where they stand: the population's arithmetic.

A *word* is 64 random bits, computed from a number that says which word it is (the finaliser of
SplitMix64); there is no state, so any word can be computed first. Numbers are cut out of words, and
texts out of a *pool*: a long random text that each seed has once, so that a text costs a word and a
slice, however long it is.

`ValueGenerator` is what the formulas of the population are written in
(`creekdb.tpcc.population.rows`). `ScalarGenerator` computes one row at a time with Python's
integers; `creekdb.tpcc.population.column_arrays` computes columns. Numbers need no method: what
they are made with (`%`, `>>`, `+`) works on integers and on arrays alike.
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
"""How far the constant of a run may be from that of the population (clause 2.1.6.1)."""


def nurand(coarse: Any, fine: Any, constant: int, low: int, high: int) -> Any:
    """NURand(A, low, high) of one number drawn from [0, A] and one from [low, high]."""
    return ((coarse | fine) + constant) % (high - low + 1) + low


def run_constants(load_constant: int) -> tuple[int, ...]:
    """The constants for last names that a run on such a population may choose from."""
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
    """The word with that number; of an array, the words."""
    if _IS_COMPILED and type(number) is int:
        return splitmix64_halves(number)
    number = number & MASK_64
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK_64
    return number ^ (number >> 31)


def splitmix64_halves(number: int) -> int:
    """The same of an int, in halves of 32 bits: a third of the time where it is compiled, for then
    all but the first lines and the last are instructions of the processor, and twice where not."""
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
    """A product modulo 2 ** 64, in halves. Nothing on the way has more than 63 bits."""
    upper = low * (factor_low >> 16)
    lower = low * (factor_low & 0xFFFF) + ((upper & 0xFFFF) << 16)
    crossed = _low_product(high, factor_low) + _low_product(low, factor_high)
    return lower & _MASK_32, (lower >> 32) + (upper >> 16) + crossed & _MASK_32


def _low_product(one: "i64", other: "i64") -> "i64":
    """Equal to the product modulo 2 ** 32, of two numbers of 32 bits."""
    return one * (other & 0xFFFF) + ((one * (other >> 16) & 0xFFFF) << 16)


_IS_COMPILED: Final = not isinstance(splitmix64_halves, FunctionType)


def number_between(word: Any, low: int, high: int) -> Any:
    """A number from [low, high], from the upper half of a word."""
    return low + (word >> 32) % (high - low + 1)


class TextPools:
    """The three random texts of a seed, with a bit of their beginning repeated at their end."""

    def __init__(self, seed: int) -> None:
        self.alphanumeric = _pool(splitmix64(seed ^ 1), string.ascii_letters + string.digits)
        self.letters = _pool(splitmix64(seed ^ 2), string.ascii_uppercase)
        self.digits = _pool(splitmix64(seed ^ 3), string.digits)


class ValueGenerator(Protocol):
    def text(self, word: Any, low: int, high: int) -> Any:
        """Letters and digits (an a-string), from `low` to `high` of them."""

    def letters(self, word: Any, length: int) -> Any: ...

    def digits(self, word: Any, length: int) -> Any: ...

    def insert_mark(self, text: Any, where: Any, word: Any) -> Any:
        """The text, where told so with `MARK` at a random place in it."""

    def append_text(self, text: Any, ending: str) -> Any: ...

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """One of two numbers."""

    def null_where(self, condition: Any, value: Any) -> Any:
        """None where the condition holds, else the number."""

    def select(self, texts: Sequence[str], index: Any) -> Any: ...


class ScalarGenerator:
    """One row at a time. Implements `ValueGenerator`."""

    __slots__ = ("_alphanumeric", "_digits", "_letters")

    def __init__(self, pools: TextPools) -> None:
        self._alphanumeric = pools.alphanumeric
        self._letters = pools.letters
        self._digits = pools.digits

    def text(self, word: int, low: int, high: int) -> str:
        start = word & (POOL_LENGTH - 1)
        return self._alphanumeric[start : start + low + (word >> 32) % (high - low + 1)]

    def letters(self, word: int, length: int) -> str:
        start = word & (POOL_LENGTH - 1)
        return self._letters[start : start + length]

    def digits(self, word: int, length: int) -> str:
        start = word & (POOL_LENGTH - 1)
        return self._digits[start : start + length]

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
