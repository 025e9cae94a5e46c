"""Last names and non-uniform random numbers (clauses 4.3.2.3 and 2.1.6).

A last name is a number from 0 to 999, said in syllables. The customers that are asked for, and the
items that are ordered, are drawn with NURand, whose constant C is the same for a whole run; for
last names the run's must differ from the population's, by how much is told by the specification.
"""

from typing import Any, Final

_SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")

LAST_NAMES: Final = tuple(
    _SYLLABLES[number // 100] + _SYLLABLES[number // 10 % 10] + _SYLLABLES[number % 10]
    for number in range(1000)
)
LAST_NAME_NUMBERS: Final = {name: number for number, name in enumerate(LAST_NAMES)}

A_LAST_NAME: Final = 255
A_CUSTOMER: Final = 1023
A_ITEM: Final = 8191

DELTAS: Final = tuple(delta for delta in range(65, 120) if delta not in (96, 112))
"""How far the constant of a run may be from that of the population (clause 2.1.6.1)."""


def nurand(coarse: Any, fine: Any, constant: int, low: int, high: int) -> Any:
    """NURand(A, low, high) of one number drawn from [0, A] and one from [low, high]."""
    return ((coarse | fine) + constant) % (high - low + 1) + low


def run_constants(load_constant: int) -> tuple[int, ...]:
    """The constants for last names that a run on such a population may choose from."""
    candidates = range(A_LAST_NAME + 1)
    return tuple(each for each in candidates if abs(each - load_constant) in DELTAS)
